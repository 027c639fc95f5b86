"""The three wire formats that the demo gateway speaks, one module each, behind one table."""

from __future__ import annotations

from typing import Protocol

from elometer.gateway.demo.protocols import chat, messages, responses
from elometer.gateway.demo.protocols.conversation import Conversation, Refusal, Reply


class Format(Protocol):
    """What a wire format has to offer; `Reply` is the make-believe model's answer with its token counts."""

    def read(self, body: dict[str, object]) -> Conversation:
        """The conversation that a request's body asks for; raises `Refusal` on a body that does not fit."""

    def whole(self, reply: Reply) -> dict[str, object]:
        """The body of an answer that is not streamed."""

    def opening(self, reply: Reply) -> bytes:
        """The server-sent events before the first text."""

    def delta(self, reply: Reply, text: str, position: int) -> bytes:
        """The server-sent events that carry a piece of text, the how manieth (from 0)."""

    def closing(self, reply: Reply, deltas: int) -> bytes:
        """The server-sent events after the last of so many pieces, usage included."""

    def error(self, refusal: Refusal) -> dict[str, object]:
        """The body of a refusal."""


FORMATS: dict[str, Format] = {
    "/v1/chat/completions": chat.ChatFormat(),
    "/v1/responses": responses.ResponsesFormat(),
    "/v1/messages": messages.MessagesFormat(),
}
