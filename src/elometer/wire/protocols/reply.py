"""What a reply of any protocol comes to, whole or in events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from elometer.core.errors import ElometerError
from elometer.core.usage import StreamUsage

decode_json = msgspec.json.Decoder().decode
# What decoding raises: msgspec gives up on deep nesting by an error that is none of its own.
NOT_JSON = (msgspec.DecodeError, RecursionError)

FINISH_CLASSES: dict[str, tuple[str, ...]] = {
    "stop": ("stop", "end_turn", "stop_sequence", "completed", "eos"),
    "length": ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"),
    "tool": ("tool_calls", "tool_use", "function_call"),
    "filter": ("content_filter", "safety", "recitation"),
    "refusal": ("refusal",),
    "paused": ("pause_turn",),
    "error": ("error", "failed", "cancelled", "network_error", "insufficient_system_resource"),
}
_CLASS_OF = {reason: name for name, reasons in FINISH_CLASSES.items() for reason in reasons}


def finish_class(reason: str | None, *, refused: bool = False) -> str:
    """The class of a raw finish reason; null, empty and unheard-of ones are `unknown`, not `stop`."""
    if refused:
        return "refusal"
    return _CLASS_OF.get((reason or "").lower(), "unknown")


class BadBody(ElometerError):
    """A 2xx body that is no answer of the protocol."""


@dataclass(slots=True)
class Parsed:
    """A reply taken apart.

    `usage` is the raw report (None where there was none), `error` the server's error object where one came
    under a good status, `ended` true where the reply came to the protocol's own end marker.
    """

    text: str = ""
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    usage_flags: tuple[str, ...] = ()
    model: str | None = None
    response_id: str | None = None
    created: int | None = None
    refusal: str | None = None
    has_tool_call: bool = False
    has_reasoning: bool = False
    error: Any = None
    ended: bool = True
    chunks: int = 0

    @property
    def finish_class(self) -> str:
        """See `finish_class`."""
        return finish_class(self.finish_reason, refused=self.refusal is not None)

    @property
    def has_content(self) -> bool:
        """True where the model produced anything that costs output tokens."""
        return bool(self.text or self.refusal or self.has_tool_call or self.has_reasoning)

    @property
    def complete(self) -> bool:
        """True where the reply ended well: a finish reason and the protocol's end marker."""
        return self.ended and bool(self.finish_reason) and self.error is None


class StreamReader(Protocol):
    """Takes a stream's events one at a time."""

    ended: bool
    error: Any
    chunks: int

    def feed(self, name: str, data: bytes) -> str:
        """The new text of one event, `""` where it held none. Raises BadBody where the data is not JSON."""

    def parsed(self) -> Parsed:
        """What has come so far."""


class Accumulator:
    """The fields that all stream readers fill."""

    __slots__ = (
        "chunks",
        "created",
        "ended",
        "error",
        "finish_reason",
        "has_reasoning",
        "has_tool_call",
        "model",
        "parts",
        "refusals",
        "response_id",
        "usage",
    )

    def __init__(self, protocol: str) -> None:
        self.usage = StreamUsage(protocol)
        self.parts: list[str] = []
        self.refusals: list[str] = []
        self.finish_reason: str | None = None
        self.model: str | None = None
        self.response_id: str | None = None
        self.created: int | None = None
        self.has_tool_call = False
        self.has_reasoning = False
        self.error: Any = None
        self.ended = False
        self.chunks = 0

    def take_text(self, piece: Any) -> str:
        """Keep a piece of text; anything but a non-empty string is no text."""
        if not isinstance(piece, str) or not piece:
            return ""
        self.parts.append(piece)
        self.chunks += 1
        return piece

    def parsed(self) -> Parsed:
        """What has come so far."""
        return Parsed(
            text="".join(self.parts),
            finish_reason=self.finish_reason,
            usage=self.usage.raw,
            usage_flags=tuple(self.usage.flags),
            model=self.model,
            response_id=self.response_id,
            created=self.created,
            refusal="".join(self.refusals) if self.refusals else None,
            has_tool_call=self.has_tool_call,
            has_reasoning=self.has_reasoning,
            error=self.error,
            ended=self.ended,
            chunks=self.chunks,
        )


def decode_object(data: bytes) -> dict[str, Any]:
    """A JSON object. Raises BadBody for anything else."""
    try:
        value = decode_json(data)
    except NOT_JSON as error:
        raise BadBody("the body is not JSON", evidence=str(error)) from error
    if not isinstance(value, dict):
        raise BadBody("the body is not a JSON object", evidence=type(value).__name__)
    return value


def text_or_none(value: Any) -> str | None:
    """The value if it is a non-empty string."""
    return value if isinstance(value, str) and value else None


def count_or_none(value: Any) -> int | None:
    """The value as a whole number of seconds, where it is a number."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def content_text(content: Any) -> str:
    """Text of a message's content: a string, or a list of parts of which the textual ones are joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return "".join(text for text in texts if isinstance(text, str))
