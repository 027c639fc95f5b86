"""What the three wire formats have in common: a conversation asked for, a reply given, a refusal."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Conversation:
    """A request in our own words. `turns` are (role, text), the system text among them."""

    model: str
    turns: tuple[tuple[str, str], ...]
    max_tokens: int | None = None
    stream: bool = False
    include_usage: bool = True
    seed: int | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The model's answer: its tokens as pieces of text, and the counts that usage states."""

    conversation: Conversation
    pieces: tuple[str, ...]
    prompt_tokens: int
    cut: bool  # stopped by max_tokens
    mark: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def completion_tokens(self) -> int:
        return len(self.pieces)

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(eq=False)
class Refusal(Exception):
    """A request that is not served: status, machine words of both error vocabularies, human words."""

    status: int
    message: str
    type: str  # of the OpenAI vocabulary
    code: str | None = None
    param: str | None = None
    anthropic_type: str = "invalid_request_error"
    details: dict[str, Any] | None = None
    headers: tuple[tuple[str, str], ...] = ()


def bad_request(message: str, *, param: str | None = None, code: str | None = None) -> Refusal:
    """A body that does not fit its format."""
    return Refusal(400, message, "invalid_request_error", code, param)


def event(data: object, *, name: str | None = None) -> bytes:
    """One server-sent event with a JSON body."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + _encode(data) + b"\n\n"


def openai_error(refusal: Refusal) -> dict[str, object]:
    """A refusal as chat completions and responses state it."""
    words = {"message": refusal.message, "type": refusal.type, "param": refusal.param, "code": refusal.code}
    return {"error": words}


def model_of(body: dict[str, object]) -> str:
    """The requested model's name."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise bad_request("you must provide a model parameter", param="model")
    return model


def whole_number(body: dict[str, object], name: str) -> int | None:
    """An optional whole number of a body; it must be at least 0."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise bad_request(f"'{name}' must be a whole number of at least 0", param=name)
    return value


def temperature_of(body: dict[str, object]) -> float | None:
    """The optional temperature of a body."""
    value = body.get("temperature")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2:
        raise bad_request("'temperature' must be a number from 0 to 2", param="temperature")
    return float(value)


def flag(body: dict[str, object], name: str) -> bool:
    """An optional truth value of a body."""
    value = body.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise bad_request(f"'{name}' must be true or false", param=name)
    return value


def refuse_seed(body: dict[str, object], message: str) -> None:
    """Only chat completions take a seed; the other protocols refuse the field, as the real ones do."""
    if "seed" in body:
        raise bad_request(message, param="seed", code="unknown_parameter")


def turns_of(items: object, name: str) -> tuple[tuple[str, str], ...]:
    """The (role, text) pairs of a non-empty list of messages."""
    if not isinstance(items, list):
        raise bad_request(
            f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter"
        )
    if not items:
        raise bad_request(f"'{name}' must hold at least one message", param=name, code="empty_array")
    return tuple(_turn(item, f"{name}[{index}]") for index, item in enumerate(items))


def _turn(item: object, place: str) -> tuple[str, str]:
    if not isinstance(item, dict) or not isinstance(item.get("role"), str):
        raise bad_request(f"'{place}' must be an object with a role", param=place)
    return cast("str", item["role"]), text_of(item.get("content"), f"{place}.content")


def text_of(content: object, place: str) -> str:
    """The text of a content that is a string or a list of parts; parts without text count as nothing."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
    raise bad_request(f"'{place}' must be a text or a list of parts", param=place)
