"""A minimal client of the demo gateway, written from the protocols' documents and not from our own code."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

KEY = "elometer-demo-test-key-0001"
OTHER_KEY = "elometer-demo-test-key-0002"
MODEL = "demo-agent"
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


@dataclass
class Spoken:
    """What one answer said, whatever the protocol."""

    text: str
    prompt: int | None
    completion: int | None
    finish: str | None
    model: str
    id: str
    events: list[Any] = field(default_factory=list)


def body(protocol: str, prompt: str, *, stream: bool = False, system: str | None = None, **more: Any) -> Any:
    """A request's body."""
    turns = [{"role": "user", "content": prompt}]
    common = {"model": MODEL, "stream": stream, **more}
    if protocol == "responses":
        return {**common, "input": turns, **({"instructions": system} if system else {})}
    if protocol == "messages":
        return {"max_tokens": 500, **common, "messages": turns, **({"system": system} if system else {})}
    head = [{"role": "system", "content": system}] if system else []
    options = {"stream_options": {"include_usage": True}} if stream else {}
    return {**options, **common, "messages": [*head, *turns]}


def headers(protocol: str, *, key: str | None = KEY, seed: int | None = None) -> dict[str, str]:
    """Authentication as the protocol's own clients send it, and the sample's seed."""
    named = {} if seed is None else {"x-elometer-seed": str(seed)}
    if key is None:
        return named
    auth = {"x-api-key": key} if protocol == "messages" else {"authorization": f"Bearer {key}"}
    return {**named, **auth}


def ask(
    client: httpx.Client,
    protocol: str,
    prompt: str,
    *,
    seed: int | None = None,
    stream: bool = False,
    **more: Any,
) -> Spoken:
    """Ask and read the answer; raises on a refusal."""
    data = body(protocol, prompt, stream=stream, **more)
    reply = client.post(PATHS[protocol], json=data, headers=headers(protocol, seed=seed))
    reply.raise_for_status()
    if stream:
        assert reply.headers["content-type"].startswith("text/event-stream")
        return STREAMS[protocol](list(events_of(reply.text)))
    return WHOLES[protocol](reply.json())


def events_of(text: str) -> Iterable[tuple[str | None, str]]:
    """Server-sent events as the HTML standard splits them: (event name, data)."""
    name, data = None, []
    for line in text.splitlines():
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data = None, []
        elif line.startswith(":"):
            continue
        else:
            label, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if label == "event":
                name = value
            elif label == "data":
                data.append(value)
    assert not data, "the last event has no blank line after it"


def whole_chat(data: Any) -> Spoken:
    (choice,) = data["choices"]
    usage = data["usage"]
    assert data["object"] == "chat.completion"
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return Spoken(
        choice["message"]["content"],
        usage["prompt_tokens"],
        usage["completion_tokens"],
        choice["finish_reason"],
        data["model"],
        data["id"],
    )


def stream_chat(events: list[tuple[str | None, str]]) -> Spoken:
    assert events[-1] == (None, "[DONE]")
    chunks = [json.loads(data) for _, data in events[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    (one,) = {chunk["id"] for chunk in chunks}
    text, finish, usage = "", None, None
    for chunk in chunks:
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
        usage = chunk.get("usage") or usage
    tokens = (usage["prompt_tokens"], usage["completion_tokens"]) if usage else (None, None)
    return Spoken(text, *tokens, finish, chunks[0]["model"], one, chunks)


def whole_messages(data: Any) -> Spoken:
    usage = data["usage"]
    assert (data["type"], data["role"]) == ("message", "assistant")
    return Spoken(
        "".join(part["text"] for part in data["content"]),
        usage["input_tokens"],
        usage["output_tokens"],
        data["stop_reason"],
        data["model"],
        data["id"],
    )


def stream_messages(events: list[tuple[str | None, str]]) -> Spoken:
    parsed = [json.loads(data) for _, data in events]
    assert [name for name, _ in events] == [data["type"] for data in parsed]
    kinds = [data["type"] for data in parsed]
    assert (kinds[0], kinds[-2], kinds[-1]) == ("message_start", "message_delta", "message_stop")
    start, last = parsed[0]["message"], parsed[-2]
    assert start["usage"]["output_tokens"] == 1
    text = "".join(data["delta"]["text"] for data in parsed if data["type"] == "content_block_delta")
    return Spoken(
        text,
        start["usage"]["input_tokens"],
        last["usage"]["output_tokens"],
        last["delta"]["stop_reason"],
        start["model"],
        start["id"],
        parsed,
    )


def whole_responses(data: Any) -> Spoken:
    usage = data["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    text = "".join(
        part["text"] for item in data["output"] for part in item["content"] if part["type"] == "output_text"
    )
    return Spoken(
        text, usage["input_tokens"], usage["output_tokens"], data["status"], data["model"], data["id"]
    )


def stream_responses(events: list[tuple[str | None, str]]) -> Spoken:
    parsed = [json.loads(data) for _, data in events]
    assert [name for name, _ in events] == [data["type"] for data in parsed]
    assert [data["sequence_number"] for data in parsed] == list(range(len(parsed)))
    assert parsed[0]["type"] == "response.created"
    assert parsed[0]["response"]["usage"] is None
    assert parsed[-1]["type"] == f"response.{parsed[-1]['response']['status']}"
    said = whole_responses(parsed[-1]["response"])
    assert (
        "".join(data["delta"] for data in parsed if data["type"] == "response.output_text.delta") == said.text
    )
    said.events = parsed
    return said


WHOLES = {"chat": whole_chat, "messages": whole_messages, "responses": whole_responses}
STREAMS = {"chat": stream_chat, "messages": stream_messages, "responses": stream_responses}
