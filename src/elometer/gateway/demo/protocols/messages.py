"""Anthropic Messages: POST /v1/messages."""

from __future__ import annotations

from elometer.gateway.demo.protocols.conversation import (
    Conversation,
    Refusal,
    Reply,
    bad_request,
    event,
    flag,
    model_of,
    refuse_seed,
    temperature_of,
    text_of,
    turns_of,
    whole_number,
)


class MessagesFormat:
    """Input usage stands in `message_start`, output usage (cumulative) in `message_delta`."""

    def read(self, body: dict[str, object]) -> Conversation:
        refuse_seed(body, "seed: Extra inputs are not permitted")
        limit = whole_number(body, "max_tokens")
        if limit is None:
            raise bad_request("max_tokens: Field required", param="max_tokens")
        return Conversation(
            model=model_of(body),
            turns=message_turns(body),
            max_tokens=limit,
            stream=flag(body, "stream"),
            temperature=temperature_of(body),
        )

    def whole(self, reply: Reply) -> dict[str, object]:
        content = [{"type": "text", "text": reply.text}]
        return {**_head(reply), "content": content, "stop_reason": _stop(reply), "usage": _usage(reply, None)}

    def opening(self, reply: Reply) -> bytes:
        # A real server states a placeholder of 1 for the output that has not been made yet.
        message = {**_head(reply), "content": [], "stop_reason": None, "usage": _usage(reply, 1)}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        return (
            _named({"type": "message_start", "message": message}) + _named(block) + _named({"type": "ping"})
        )

    def delta(self, reply: Reply, text: str, position: int) -> bytes:
        delta = {"type": "text_delta", "text": text}
        return _named({"type": "content_block_delta", "index": 0, "delta": delta})

    def closing(self, reply: Reply, deltas: int) -> bytes:
        delta = {"stop_reason": _stop(reply), "stop_sequence": None}
        usage = {"output_tokens": reply.completion_tokens}
        return (
            _named({"type": "content_block_stop", "index": 0})
            + _named({"type": "message_delta", "delta": delta, "usage": usage})
            + _named({"type": "message_stop"})
        )

    def error(self, refusal: Refusal) -> dict[str, object]:
        words: dict[str, object] = {"type": refusal.anthropic_type, "message": refusal.message}
        if refusal.details:
            words["details"] = refusal.details
        return {"type": "error", "error": words}


def message_turns(body: dict[str, object]) -> tuple[tuple[str, str], ...]:
    """The system text and the messages of a body."""
    turns = turns_of(body.get("messages"), "messages")
    system = text_of(body.get("system"), "system")
    return (("system", system), *turns) if system else turns


def _named(data: dict[str, object]) -> bytes:
    return event(data, name=str(data["type"]))


def _head(reply: Reply) -> dict[str, object]:
    return {
        "id": f"msg_{reply.mark}",
        "type": "message",
        "role": "assistant",
        "model": reply.conversation.model,
        "stop_sequence": None,
    }


def _stop(reply: Reply) -> str:
    return "max_tokens" if reply.cut else "end_turn"


def _usage(reply: Reply, output: int | None) -> dict[str, object]:
    return {
        "input_tokens": reply.prompt_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": reply.completion_tokens if output is None else output,
    }
