"""Anthropic Messages: the request, the reply, the stream."""

from __future__ import annotations

from typing import Any

from elometer.core.attempt import Call
from elometer.wire.protocols.reply import Accumulator, BadBody, Parsed, decode_object, text_or_none

NAME = "messages"
path = "messages"
headers: dict[str, str] = {"anthropic-version": "2023-06-01"}
sends_seed = False

# The protocol requires max_tokens.
DEFAULT_MAX_TOKENS = 1024
RENAMED = {"max_completion_tokens": "max_tokens"}
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
        "reasoning_effort",
    )
)


def body(call: Call) -> dict[str, Any]:
    """The request; system texts stand beside the messages, a seed is never sent."""
    system = [call.system] if call.system is not None else []
    system += [message.content for message in call.messages if message.role in ("system", "developer")]
    request: dict[str, Any] = {
        "model": call.model,
        "max_tokens": DEFAULT_MAX_TOKENS,
        "messages": [
            {"role": message.role, "content": message.content}
            for message in call.messages
            if message.role not in ("system", "developer")
        ],
    }
    if system:
        request["system"] = "\n\n".join(system)
    stop = call.params.get("stop")
    if stop:
        request["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
    for name, value in call.params.items():
        if name not in LEFT_OUT and value is not None:
            request[RENAMED.get(name, name)] = value
    if call.stream:
        request["stream"] = True
    return request


def parse(data: bytes) -> Parsed:
    """A whole reply. Raises BadBody where it holds no content."""
    reply = decode_object(data)
    if reply.get("type") == "error" or (reply.get("error") and "content" not in reply):
        return Parsed(error=reply.get("error") or reply)
    content = reply.get("content")
    if not isinstance(content, list):
        raise BadBody("the body holds no content", evidence=", ".join(sorted(reply)[:8]))
    blocks = [block for block in content if isinstance(block, dict)]
    kinds = {str(block.get("type")) for block in blocks}
    usage = reply.get("usage")
    return Parsed(
        text="".join(block["text"] for block in blocks if isinstance(block.get("text"), str)),
        finish_reason=text_or_none(reply.get("stop_reason")),
        usage=usage if isinstance(usage, dict) else None,
        model=text_or_none(reply.get("model")),
        response_id=text_or_none(reply.get("id")),
        has_tool_call=any(kind.endswith("tool_use") for kind in kinds),
        has_reasoning=any(kind.endswith("thinking") for kind in kinds),
    )


class Stream(Accumulator):
    """Reads message events by their `type`; `message_stop` is the end marker.

    A second `message_start` (some gateways send two) adds its usage and changes nothing else.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(NAME)

    def feed(self, name: str, data: bytes) -> str:
        """The new text of one event."""
        if data.strip() == b"[DONE]":
            return ""
        event = decode_object(data)
        kind = event.get("type") or name
        if kind == "content_block_delta":
            return self._take_delta(event.get("delta"))
        if kind == "message_stop":
            self.ended = True
        elif kind == "message_delta":
            self._take_end(event)
        elif kind == "message_start":
            self._start(event.get("message"))
        elif kind == "content_block_start":
            return self._open_block(event.get("content_block"))
        elif kind == "error" or event.get("error"):
            self.error = event.get("error") or event
        return ""

    def _take_delta(self, delta: Any) -> str:
        if not isinstance(delta, dict):
            return ""
        if "text" in delta:
            return self.take_text(delta["text"])
        kind = str(delta.get("type"))
        if kind == "input_json_delta":
            self.has_tool_call = True
        elif kind in ("thinking_delta", "signature_delta"):
            self.has_reasoning = True
        return ""

    def _open_block(self, block: Any) -> str:
        if not isinstance(block, dict):
            return ""
        kind = str(block.get("type"))
        self.has_tool_call = self.has_tool_call or kind.endswith("tool_use")
        self.has_reasoning = self.has_reasoning or kind.endswith("thinking")
        return self.take_text(block.get("text")) if kind == "text" else ""

    def _start(self, message: Any) -> None:
        if not isinstance(message, dict):
            return
        self.response_id = self.response_id or text_or_none(message.get("id"))
        self.model = self.model or text_or_none(message.get("model"))
        self.usage.feed(message.get("usage"))

    def _take_end(self, event: dict[str, Any]) -> None:
        delta = event.get("delta")
        if isinstance(delta, dict) and delta.get("stop_reason"):
            self.finish_reason = text_or_none(delta["stop_reason"])
        self.usage.feed(event.get("usage"))
