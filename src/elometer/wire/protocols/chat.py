"""OpenAI Chat Completions: the request, the reply, the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from elometer.core.attempt import Call
from elometer.wire.protocols.reply import (
    NOT_JSON,
    Accumulator,
    BadBody,
    Parsed,
    content_text,
    count_or_none,
    decode_object,
    text_or_none,
)

NAME = "chat"
path = "chat/completions"
headers: dict[str, str] = {}
sends_seed = True
LEFT_OUT: frozenset[str] = frozenset()

_DONE = b"[DONE]"
_REASONING_FIELDS = ("reasoning_content", "reasoning")


def body(call: Call) -> dict[str, Any]:
    """The request; streams ask for usage, which is otherwise left out."""
    messages = [{"role": message.role, "content": message.content} for message in call.messages]
    if call.system is not None:
        messages.insert(0, {"role": "system", "content": call.system})
    request: dict[str, Any] = {"model": call.model, "messages": messages, **call.params}
    if call.seed is not None:
        request["seed"] = call.seed
    if call.stream:
        request["stream"] = True
        request["stream_options"] = {"include_usage": True}
    return request


def parse(data: bytes) -> Parsed:
    """A whole reply. Raises BadBody where it holds neither a choice nor an error."""
    reply = decode_object(data)
    if reply.get("error"):
        return Parsed(error=reply["error"], usage=_usage_of(reply, {}))
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise BadBody("the body holds no choice", evidence=", ".join(sorted(reply)[:8]))
    return Parsed(
        text=content_text(message.get("content")),
        finish_reason=text_or_none(choice.get("finish_reason")),
        usage=_usage_of(reply, choice),
        model=text_or_none(reply.get("model")),
        response_id=text_or_none(reply.get("id")),
        created=count_or_none(reply.get("created")),
        refusal=text_or_none(message.get("refusal")),
        has_tool_call=bool(message.get("tool_calls") or message.get("function_call")),
        has_reasoning=any(message.get(field) for field in _REASONING_FIELDS),
    )


def _usage_of(reply: Mapping[str, Any], choice: Mapping[str, Any]) -> dict[str, Any] | None:
    """`usage`, else the same inside the choice (Moonshot), else `x_groq.usage`, else llama.cpp's
    `timings`.
    """
    groq = reply.get("x_groq")
    for found in (
        reply.get("usage"),
        choice.get("usage"),
        groq.get("usage") if isinstance(groq, dict) else None,
    ):
        if isinstance(found, dict):
            return found
    timings = reply.get("timings")
    return {"timings": timings} if isinstance(timings, dict) else None


class _PlainDelta(msgspec.Struct, gc=False):
    content: str
    refusal: None = None
    tool_calls: None = None
    function_call: None = None
    reasoning_content: None = None
    reasoning: None = None


class _PlainChoice(msgspec.Struct, gc=False):
    delta: _PlainDelta
    finish_reason: None = None
    usage: None = None


class _PlainChunk(msgspec.Struct, gc=False):
    """A chunk that holds text and nothing else worth reading: nearly every one, decoded without the rest.

    A field of type None refuses anything else, so that every other chunk takes the general way.
    """

    choices: tuple[_PlainChoice]
    usage: None = None
    error: None = None
    x_groq: None = None
    timings: None = None


_decode_plain = msgspec.json.Decoder(_PlainChunk).decode


class Stream(Accumulator):
    """Reads `chat.completion.chunk` events; `[DONE]` is the end marker."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(NAME)

    def feed(self, name: str, data: bytes) -> str:
        """The new text of one event."""
        if len(data) < 16 and data.strip() == _DONE:
            self.ended = True
            return ""
        if self.chunks and not name:
            try:
                return self.take_text(_decode_plain(data).choices[0].delta.content)
            except NOT_JSON:
                pass  # not plain, or not JSON at all
        chunk = decode_object(data)
        if name == "error" or chunk.get("error"):
            self.error = chunk.get("error") or chunk
            return ""
        if self.response_id is None:
            self.response_id = text_or_none(chunk.get("id"))
            self.created = count_or_none(chunk.get("created"))
        if self.model is None:
            self.model = text_or_none(chunk.get("model"))
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            choice = {}
        if chunk.get("usage") is not None or "usage" in choice or "x_groq" in chunk or "timings" in chunk:
            self._take_usage(chunk, choice)
        reason = choice.get("finish_reason")
        if reason:
            self.finish_reason = text_or_none(reason)
            if reason == "error":
                self.error = choice.get("error") or {"message": "finish_reason: error"}
        delta = choice.get("delta")
        return self._take_delta(delta) if isinstance(delta, dict) else ""

    def _take_usage(self, chunk: dict[str, Any], choice: dict[str, Any]) -> None:
        found = _usage_of(chunk, choice)
        if found is not None and "timings" in found and self.usage.raw and "timings" not in self.usage.raw:
            return
        if self.usage.raw is not None and "timings" in self.usage.raw:
            self.usage.raw = None
        self.usage.feed(found)

    def _take_delta(self, delta: dict[str, Any]) -> str:
        text = self.take_text(delta.get("content"))
        if text and len(delta) == 1:
            return text
        if delta.get("refusal"):
            self.refusals.append(str(delta["refusal"]))
        if delta.get("tool_calls") or delta.get("function_call"):
            self.has_tool_call = True
        if not self.has_reasoning and any(delta.get(field) for field in _REASONING_FIELDS):
            self.has_reasoning = True
        return text
