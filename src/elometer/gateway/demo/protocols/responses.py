"""Responses: POST /v1/responses."""

from __future__ import annotations

from collections.abc import Mapping

from elometer.gateway.demo.protocols.conversation import (
    Conversation,
    Refusal,
    Reply,
    bad_request,
    event,
    flag,
    model_of,
    openai_error,
    refuse_seed,
    temperature_of,
    text_of,
    turns_of,
    whole_number,
)

OPENING_EVENTS = 4


class ResponsesFormat:
    """Usage stands inside `response` of the terminal event."""

    def read(self, body: dict[str, object]) -> Conversation:
        refuse_seed(body, "Unknown parameter: 'seed'.")
        asked = body.get("input")
        if isinstance(asked, list):
            # Items such as function calls and reasoning carry no role and no text of their own.
            asked = [item for item in asked if not isinstance(item, dict) or "role" in item]
            turns = turns_of(asked, "input")
        elif isinstance(asked, str) and asked:
            turns = (("user", asked),)
        else:
            raise bad_request(
                "Missing required parameter: 'input'.", param="input", code="missing_required_parameter"
            )
        instructions = text_of(body.get("instructions"), "instructions")
        return Conversation(
            model=model_of(body),
            turns=(("system", instructions), *turns) if instructions else turns,
            max_tokens=whole_number(body, "max_output_tokens"),
            stream=flag(body, "stream"),
            temperature=temperature_of(body),
        )

    def whole(self, reply: Reply) -> dict[str, object]:
        return _response(reply, "incomplete" if reply.cut else "completed")

    def opening(self, reply: Reply) -> bytes:
        item = {**_item(reply, "in_progress"), "content": []}
        part = {**_place(reply), "part": _part("")}
        started = {"response": _response(reply, "in_progress")}
        return (
            _named(0, "response.created", started)
            + _named(1, "response.in_progress", started)
            + _named(2, "response.output_item.added", {"output_index": 0, "item": item})
            + _named(3, "response.content_part.added", part)
        )

    def delta(self, reply: Reply, text: str, position: int) -> bytes:
        data = {**_place(reply), "delta": text, "logprobs": []}
        return _named(OPENING_EVENTS + position, "response.output_text.delta", data)

    def closing(self, reply: Reply, deltas: int) -> bytes:
        status = "incomplete" if reply.cut else "completed"
        done = {**_place(reply), "text": reply.text, "logprobs": []}
        part = {**_place(reply), "part": _part(reply.text)}
        item = {"output_index": 0, "item": _item(reply, status)}
        first = OPENING_EVENTS + deltas
        return (
            _named(first, "response.output_text.done", done)
            + _named(first + 1, "response.content_part.done", part)
            + _named(first + 2, "response.output_item.done", item)
            + _named(first + 3, f"response.{status}", {"response": _response(reply, status)})
        )

    def error(self, refusal: Refusal) -> dict[str, object]:
        return openai_error(refusal)


def _named(number: int, kind: str, data: Mapping[str, object]) -> bytes:
    return event({"type": kind, "sequence_number": number, **data}, name=kind)


def _place(reply: Reply) -> dict[str, object]:
    return {"item_id": f"msg_{reply.mark}", "output_index": 0, "content_index": 0}


def _part(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item(reply: Reply, status: str) -> dict[str, object]:
    return {
        "id": f"msg_{reply.mark}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [_part(reply.text)],
    }


def _response(reply: Reply, status: str) -> dict[str, object]:
    ended = status != "in_progress"
    return {
        "id": f"resp_{reply.mark}",
        "object": "response",
        "created_at": reply.created,
        "model": reply.conversation.model,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "output": [_item(reply, status)] if ended else [],
        "usage": _usage(reply) if ended else None,
    }


def _usage(reply: Reply) -> dict[str, object]:
    return {
        "input_tokens": reply.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.total_tokens,
    }
