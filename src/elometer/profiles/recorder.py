"""A loopback gateway that answers like the three protocols and remembers who sent which credential where.

It is also the proxy that a client under test is given, so that a wish for an outside
host is seen, and refused.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar

ROOT = "/api"
# Headers that carry credentials; every other header is searched for the planted values.
CREDENTIAL_HEADERS = (
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
    "proxy-authorization",
)
FOREIGN = "another credential"
USAGE_IN, USAGE_OUT = 11, 7


@dataclass(frozen=True, slots=True)
class Sighting:
    """One request: where it went and which credentials were on it, as (header, whose)."""

    method: str
    host: str
    path: str
    credentials: tuple[tuple[str, str], ...]
    outside: bool = False  # asked of the proxy: a host that is not the profile's

    def line(self) -> str:
        """One row of the table."""
        shown = ", ".join(f"{header}: {whose}" for header, whose in self.credentials) or "-"
        return f"{self.method:<7} {self.host}{self.path}  {shown}"


class Recorder:
    """Serves on 127.0.0.1 and a free port while entered; `planted` maps values to names to show."""

    def __init__(self, planted: Mapping[str, str]) -> None:
        self.planted = dict(planted)
        self.sightings: list[Sighting] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Recorder:
        handler = type("_BoundHandler", (_Handler,), {"recorder": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def root(self) -> str:
        """The root that a profile under test is given; only what lies under it is answered."""
        return self.address + ROOT

    def note(self, method: str, host: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        """Remember a request by the names of the credentials on it, never by their values."""
        found = []
        for name, value in headers.items():
            whose = self._whose(value)
            if name.lower() in CREDENTIAL_HEADERS and value.strip():
                found.append((name.lower(), whose or FOREIGN))
            elif whose is not None:
                found.append((name.lower(), whose))
        whose = self._whose(body.decode("utf-8", "replace"))
        if whose is not None:
            found.append(("body", whose))
        with self._lock:
            self.sightings.append(Sighting(method, host, path, tuple(found), method == "CONNECT"))

    def _whose(self, text: str) -> str | None:
        return next((name for value, name in self.planted.items() if value in text), None)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up early are no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    recorder: ClassVar[Recorder]

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing goes to the screen."""

    def do_POST(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0]
        self._note(path, body)
        try:
            asked = json.loads(body)
        except ValueError:
            asked = None
        answer = _ANSWERS.get(path)
        if answer is None or not isinstance(asked, dict):
            self._json(
                404, {"type": "error", "error": {"type": "not_found_error", "message": "no such path"}}
            )
        elif asked.get("stream"):
            self._events(answer[1](str(asked.get("model"))))
        else:
            self._json(200, answer[0](str(asked.get("model"))))

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self._note(path, b"")
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self._json(426, {"error": {"message": "use POST"}})
        elif path == f"{ROOT}/v1/models":
            self._json(200, {"object": "list", "data": [], "has_more": False})
        else:
            self._json(404, {"error": {"message": "no such path"}})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_CONNECT(self) -> None:
        self.recorder.note("CONNECT", self.path, "", dict(self.headers.items()), b"")
        self._json(502, {"error": {"message": "outside hosts are not reached from here"}})

    def _note(self, path: str, body: bytes) -> None:
        headers = dict(self.headers.items())
        self.recorder.note(self.command, self.headers.get("Host", "?"), path, headers, body)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0].strip() or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _json(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _events(self, events: Iterator[tuple[str | None, object]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())
        self.close_connection = True


def _message(model: str) -> dict[str, Any]:
    return {
        "id": "msg_recorder",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": USAGE_IN, "output_tokens": USAGE_OUT},
    }


def _message_events(model: str) -> Iterator[tuple[str | None, object]]:
    whole = _message(model)
    start = {**whole, "content": [], "stop_reason": None}
    block = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": "ok"}
    yield "message_start", {"type": "message_start", "message": start}
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}
    yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": stop, "usage": whole["usage"]}
    yield "message_stop", {"type": "message_stop"}


def _response(model: str) -> dict[str, Any]:
    text = {"type": "output_text", "text": "ok", "annotations": []}
    item = {"type": "message", "id": "msg_recorder", "role": "assistant", "status": "completed"}
    return {
        "id": "resp_recorder",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": [{**item, "content": [text]}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "usage": {
            "input_tokens": USAGE_IN,
            "output_tokens": USAGE_OUT,
            "total_tokens": USAGE_IN + USAGE_OUT,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _response_events(model: str) -> Iterator[tuple[str | None, object]]:
    whole = _response(model)
    item = whole["output"][0]
    opening = {**whole, "status": "in_progress", "output": [], "usage": None}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": opening}),
        ("response.output_item.added", {"output_index": 0, "item": {**item, "content": []}}),
        (
            "response.output_text.delta",
            {"output_index": 0, "content_index": 0, "item_id": item["id"], "delta": "ok"},
        ),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": whole}),
    ]
    for number, (kind, fields) in enumerate(steps, 1):
        yield kind, {"type": kind, "sequence_number": number, **fields}


def _chat(model: str) -> dict[str, Any]:
    usage = {"prompt_tokens": USAGE_IN, "completion_tokens": USAGE_OUT, "total_tokens": USAGE_IN + USAGE_OUT}
    message = {"role": "assistant", "content": "ok"}
    return {
        "id": "chatcmpl-recorder",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": usage,
    }


def _chat_events(model: str) -> Iterator[tuple[str | None, object]]:
    whole = _chat(model)
    base = {**whole, "object": "chat.completion.chunk", "usage": None}
    delta = whole["choices"][0]["message"]
    yield None, {**base, "choices": [{"index": 0, "finish_reason": None, "delta": delta}]}
    yield None, {**base, "choices": [{"index": 0, "finish_reason": "stop", "delta": {}}]}
    yield None, {**base, "choices": [], "usage": whole["usage"]}
    yield None, "[DONE]"


_ANSWERS = {
    f"{ROOT}/v1/messages": (_message, _message_events),
    f"{ROOT}/v1/responses": (_response, _response_events),
    f"{ROOT}/v1/chat/completions": (_chat, _chat_events),
    f"{ROOT}/v1/messages/count_tokens": (lambda _model: {"input_tokens": USAGE_IN}, _message_events),
}
