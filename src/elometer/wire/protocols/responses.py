"""OpenAI Responses: the request, the reply, the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elometer.core.attempt import Call
from elometer.wire.protocols.reply import (
    Accumulator,
    BadBody,
    Parsed,
    count_or_none,
    decode_object,
    text_or_none,
)

NAME = "responses"
path = "responses"
headers: dict[str, str] = {}
sends_seed = False

RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
# Fields of Chat Completions that this protocol refuses.
LEFT_OUT = frozenset(
    (
        "seed",
        "n",
        "stop",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "response_format",
    )
)
_TERMINAL = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


def body(call: Call) -> dict[str, Any]:
    """The request; the system text is `instructions`, a seed is never sent."""
    request: dict[str, Any] = {
        "model": call.model,
        # OpenAI lets `type` be left out; llama.cpp refuses an assistant's turn without it.
        "input": [
            {"type": "message", "role": message.role, "content": message.content} for message in call.messages
        ],
    }
    if call.system is not None:
        request["instructions"] = call.system
    for name, value in call.params.items():
        if name == "reasoning_effort":
            request["reasoning"] = {"effort": value}
        elif name not in LEFT_OUT:
            request[RENAMED.get(name, name)] = value
    if call.stream:
        request["stream"] = True
    return request


def parse(data: bytes) -> Parsed:
    """A whole reply. Raises BadBody where it is no response object."""
    reply = decode_object(data)
    if "output" not in reply and reply.get("error"):
        return Parsed(error=reply["error"])
    if not isinstance(reply.get("output"), list):
        raise BadBody("the body holds no output", evidence=", ".join(sorted(reply)[:8]))
    return _parsed(reply)


def _parsed(reply: Mapping[str, Any]) -> Parsed:
    texts: list[str] = []
    refusals: list[str] = []
    kinds: set[str] = set()
    for item in reply.get("output") or ():
        if not isinstance(item, dict):
            continue
        kinds.add(str(item.get("type")))
        content = item.get("content")
        for part in content if item.get("type") == "message" and isinstance(content, list) else ():
            if not isinstance(part, dict):
                continue
            if part.get("type") == "refusal":
                refusals.append(str(part.get("refusal") or ""))
            elif isinstance(part.get("text"), str):
                texts.append(part["text"])
    usage = reply.get("usage")
    return Parsed(
        text="".join(texts),
        finish_reason=_end_state(reply),
        usage=usage if isinstance(usage, dict) else None,
        model=text_or_none(reply.get("model")),
        response_id=text_or_none(reply.get("id")),
        created=count_or_none(reply.get("created_at")),
        refusal="".join(refusals) if refusals else None,
        has_tool_call=any(kind.endswith("_call") for kind in kinds),
        has_reasoning="reasoning" in kinds,
        error=_failure(reply),
    )


def _end_state(reply: Mapping[str, Any]) -> str | None:
    status = text_or_none(reply.get("status"))
    if status == "incomplete":
        details = reply.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        return text_or_none(reason) or status
    return status


def _failure(reply: Mapping[str, Any]) -> Any:
    if reply.get("status") in ("failed", "cancelled"):
        return reply.get("error") or {"message": f"status: {reply['status']}"}
    return reply.get("error") or None


class Stream(Accumulator):
    """Reads `response.*` events by their `type`: not every gateway sends `event:` lines."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(NAME)

    def feed(self, name: str, data: bytes) -> str:
        """The new text of one event."""
        if data.strip() == b"[DONE]":
            return ""
        event = decode_object(data)
        kind = event.get("type") or name
        if kind == "response.output_text.delta":
            return self.take_text(event.get("delta"))
        if kind in _TERMINAL:
            return self._end(event)
        if kind == "error" or (event.get("error") and "response" not in event):
            self.error = event.get("error") or event
        elif kind == "response.refusal.delta":
            self.refusals.append(str(event.get("delta") or ""))
        elif kind in ("response.created", "response.in_progress"):
            self._identify(event.get("response"))
        elif kind == "response.output_item.added":
            item = event.get("item")
            self._notice(str(item.get("type")) if isinstance(item, dict) else "")
        elif isinstance(kind, str) and kind.startswith("response.reasoning"):
            self.has_reasoning = True
        return ""

    def _identify(self, response: Any) -> None:
        if isinstance(response, dict):
            self.response_id = text_or_none(response.get("id")) or self.response_id
            self.model = text_or_none(response.get("model")) or self.model
            self.created = count_or_none(response.get("created_at")) or self.created

    def _notice(self, kind: str) -> None:
        self.has_tool_call = self.has_tool_call or kind.endswith("_call")
        self.has_reasoning = self.has_reasoning or kind == "reasoning"

    def _end(self, event: dict[str, Any]) -> str:
        """The terminal event carries the whole response; its text counts only where no delta came before."""
        self.ended = True
        response = event.get("response")
        if not isinstance(response, dict):
            self.error = {"message": f"{event.get('type')} without a response"}
            return ""
        self._identify(response)
        whole = _parsed(response)
        self.finish_reason = whole.finish_reason or str(event.get("type")).removeprefix("response.")
        self.usage.feed(whole.usage)
        self.error = self.error or whole.error
        self.has_tool_call = self.has_tool_call or whole.has_tool_call
        self.has_reasoning = self.has_reasoning or whole.has_reasoning
        if whole.refusal is not None and not self.refusals:
            self.refusals.append(whole.refusal)
        if event.get("type") == "response.failed" and self.error is None:
            self.error = {"message": "response.failed"}
        return "" if self.parts else self.take_text(whole.text)
