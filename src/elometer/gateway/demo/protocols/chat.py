"""Chat Completions: POST /v1/chat/completions."""

from __future__ import annotations

from elometer.gateway.demo.protocols.conversation import (
    Conversation,
    Refusal,
    Reply,
    bad_request,
    event,
    flag,
    model_of,
    openai_error,
    temperature_of,
    turns_of,
    whole_number,
)


class ChatFormat:
    """Usage arrives in a last chunk with `choices: []`, and only where `include_usage` asked for it."""

    def read(self, body: dict[str, object]) -> Conversation:
        options = body.get("stream_options") or {}
        if not isinstance(options, dict):
            raise bad_request("'stream_options' must be an object", param="stream_options")
        limit = whole_number(body, "max_completion_tokens")
        return Conversation(
            model=model_of(body),
            turns=turns_of(body.get("messages"), "messages"),
            max_tokens=whole_number(body, "max_tokens") if limit is None else limit,
            stream=flag(body, "stream"),
            include_usage=flag(options, "include_usage"),
            seed=_seed(body),
            temperature=temperature_of(body),
        )

    def whole(self, reply: Reply) -> dict[str, object]:
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": reply.text, "refusal": None},
            "logprobs": None,
            "finish_reason": _finish(reply),
        }
        return {**_head(reply, "chat.completion"), "choices": [choice], "usage": _usage(reply)}

    def opening(self, reply: Reply) -> bytes:
        return _chunk(reply, {"role": "assistant", "content": ""}, None)

    def delta(self, reply: Reply, text: str, position: int) -> bytes:
        return _chunk(reply, {"content": text}, None)

    def closing(self, reply: Reply, deltas: int) -> bytes:
        frames = _chunk(reply, {}, _finish(reply))
        if reply.conversation.include_usage:
            frames += event({**_head(reply, "chat.completion.chunk"), "choices": [], "usage": _usage(reply)})
        return frames + b"data: [DONE]\n\n"

    def error(self, refusal: Refusal) -> dict[str, object]:
        return openai_error(refusal)


def _seed(body: dict[str, object]) -> int | None:
    seed = body.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise bad_request("'seed' must be a whole number", param="seed")
    return seed


def _head(reply: Reply, kind: str) -> dict[str, object]:
    return {
        "id": f"chatcmpl-{reply.mark}",
        "object": kind,
        "created": reply.created,
        "model": reply.conversation.model,
        "system_fingerprint": "elometer-demo",
    }


def _chunk(reply: Reply, delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    usage: dict[str, None] = {"usage": None} if reply.conversation.include_usage else {}
    return event({**_head(reply, "chat.completion.chunk"), "choices": [choice], **usage})


def _finish(reply: Reply) -> str:
    return "length" if reply.cut else "stop"


def _usage(reply: Reply) -> dict[str, object]:
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.total_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
