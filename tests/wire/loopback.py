"""A scripted HTTP server on 127.0.0.1 for tests of the client: each request takes the next script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Piece = (
    bytes | float | str
)  # bytes are sent, a number is a pause in seconds, "cut" or "reset" or "hang" end it


@dataclass
class Script:
    """One answer. `body` is sent with its length; `pieces` are sent in chunked encoding unless `raw`."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    pieces: list[Piece] = field(default_factory=list)
    delay: float = 0.0
    raw: bool = False  # close-delimited instead of chunked


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Loopback:
    """Answers from `scripts` in order; the last one is repeated. `decide` may choose by request instead."""

    scripts: list[Script] = field(default_factory=list)
    decide: Callable[[Request], Script] | None = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    now: int = 0
    peak: int = 0
    root: str = ""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def next(self, request: Request) -> Script:
        if self.decide is not None:
            return self.decide(request)
        return self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, path, _version = lines[0].split(" ", 2)
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:] if line)}
        data = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(method, path, headers, json.loads(data) if data else None)
        self.requests.append(request)
        self.now += 1
        self.peak = max(self.peak, self.now)
        self.arrived.set()
        try:
            return await self._answer(self.next(request), writer)
        finally:
            self.now -= 1

    async def _answer(self, script: Script, writer: asyncio.StreamWriter) -> bool:
        if script.delay:
            await asyncio.sleep(script.delay)
        headers = {"content-type": "application/json", **script.headers}
        if script.body is not None:
            headers["content-length"] = str(len(script.body))
        elif not script.raw:
            headers["transfer-encoding"] = "chunked"
        else:
            headers["connection"] = "close"
        head = (
            f"HTTP/1.1 {script.status} X\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        )
        if script.pieces[:1] == ["reset"]:
            writer.transport.abort()
            return False
        writer.write(head.encode() + (script.body or b""))
        if script.body is not None:
            await writer.drain()
            return True
        for piece in script.pieces:
            if isinstance(piece, float | int):
                await asyncio.sleep(piece)
            elif piece == "cut":
                return False
            elif piece == "reset":
                writer.transport.abort()
                return False
            elif piece == "hang":
                await asyncio.sleep(60)
            elif isinstance(piece, bytes):
                writer.write(piece if script.raw else f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
        if not script.raw:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return not script.raw


@asynccontextmanager
async def loopback(
    *scripts: Script, decide: Callable[[Request], Script] | None = None
) -> AsyncIterator[Loopback]:
    """Serve the scripts on a free port."""
    gateway = Loopback(list(scripts), decide)
    server = await asyncio.start_server(gateway.handle, "127.0.0.1", 0)
    gateway.root = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield gateway
    finally:
        server.close()


def sse(*payloads: object, done: bool = True) -> list[Piece]:
    """Chat stream pieces, one event each."""
    pieces: list[Piece] = [b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads]
    return [*pieces, b"data: [DONE]\n\n"] if done else pieces


def named_events(*events: tuple[str, object]) -> list[Piece]:
    """Events with names, as Anthropic and OpenAI Responses send them."""
    return [f"event: {name}\ndata: {json.dumps(data)}\n\n".encode() for name, data in events]


def chat_chunk(
    text: str | None = None, finish: str | None = None, usage: object = None, **more: object
) -> object:
    """One chunk of a chat stream."""
    delta = {} if text is None else {"content": text}
    chunk: dict[str, object] = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-served",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    if usage is not None:
        chunk["usage"] = usage
    chunk.update(more)
    return chunk


def chat_body(text: str = "42", finish: str = "stop", usage: object = None, **more: object) -> bytes:
    """A whole chat reply."""
    reply: dict[str, object] = {
        "id": "chatcmpl-1",
        "created": 1,
        "model": "m-served",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": usage or {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }
    reply.update(more)
    return json.dumps(reply).encode()


STREAM = {"content-type": "text/event-stream"}
