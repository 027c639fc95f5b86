"""Answers of every shape become ledger lines: the client against a scripted server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from client_recorder import (
    GOOD_BODY,
    GOOD_STREAM,
    KEY,
    MESSAGES_REPLY,
    USAGE,
    Recorder,
    call,
    one,
)
from loopback import (
    STREAM,
    Script,
    chat_body,
    chat_chunk,
    loopback,
    named_events,
    sse,
)


async def test_a_stream_fills_its_ledger_line() -> None:
    recorder, answer, gateway = await one(GOOD_STREAM)
    attempt, text = recorder.attempts[0]
    assert (answer.text, text, answer.attempt is attempt) == ("42", "42", True)
    assert (attempt.status, attempt.final, attempt.finish_class, attempt.http_status) == (
        "ok",
        True,
        "stop",
        200,
    )
    assert (attempt.prompt_tokens, attempt.completion_tokens, attempt.total_tokens) == (5, 2, 7)
    assert (attempt.usage_source, attempt.usage_final, attempt.billed) == ("server", True, "yes")
    assert (attempt.model, attempt.model_requested) == ("m-served", "m")
    assert (attempt.seed, attempt.temperature, attempt.stream) == (7, 0.7, True)
    assert attempt.latency_ms is not None and attempt.ttft_ms is not None and attempt.queue_ms is not None
    assert 0 < attempt.ttft_ms <= attempt.latency_ms
    assert attempt.prompt_sha and attempt.answer_sha and attempt.timestamp.endswith("Z")
    # sha256("42"), from coreutils.
    assert attempt.answer_sha == "73475cb40a568e8d"
    assert (recorder.sent, recorder.chunks, recorder.inside_at_report) == ([1], [1, 2], [0])
    assert gateway.requests[0].path == "/v1/chat/completions"


async def test_only_what_the_protocol_needs_is_sent() -> None:
    _recorder, _answer, gateway = await one(GOOD_BODY, stream=False)
    headers = gateway.requests[0].headers
    assert set(headers) == {
        "host",
        "content-type",
        "accept",
        "accept-encoding",
        "user-agent",
        "authorization",
        "content-length",
    }
    assert headers["authorization"] == f"Bearer {KEY}"


async def test_messages_takes_x_api_key_and_nothing_else() -> None:
    _recorder, answer, gateway = await one(
        Script(body=json.dumps(MESSAGES_REPLY).encode()), protocol="messages", stream=False
    )
    headers = gateway.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in headers
    assert gateway.requests[0].path == "/v1/messages"
    assert "seed" not in gateway.requests[0].body
    # Row 10.
    assert (answer.attempt.prompt_tokens, answer.attempt.total_tokens) == (130_213, 130_220)
    assert (answer.attempt.cached_tokens, answer.attempt.cache_write_tokens) == (128_955, 1_253)
    assert answer.attempt.seed is None


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"auth": "bearer"}, "authorization", f"Bearer {KEY}"),
        ({"extra_headers": {"X-Team": "elo"}}, "x-team", "elo"),
        ({"seed_header": True}, "x-elometer-seed", "7"),
    ],
)
async def test_told_headers(options: dict[str, Any], name: str, value: str) -> None:
    _recorder, answer, gateway = await one(
        Script(body=json.dumps(MESSAGES_REPLY).encode()), options=options, protocol="messages", stream=False
    )
    assert gateway.requests[0].headers[name] == value
    assert ("x-api-key" in gateway.requests[0].headers) is (name != "authorization")
    assert answer.attempt.seed == (7 if name == "x-elometer-seed" else None)


async def test_no_key_sends_no_authentication() -> None:
    recorder = Recorder()
    async with loopback(GOOD_BODY) as gateway, recorder.client(gateway.root, None) as client:
        await recorder.send(client, call(stream=False))
    assert not {"authorization", "x-api-key"} & set(gateway.requests[0].headers)


async def test_a_root_with_a_version_is_not_given_a_second() -> None:
    recorder = Recorder()
    async with loopback(GOOD_BODY) as gateway, recorder.client(gateway.root + "/v1/") as client:
        await recorder.send(client, call(stream=False))
    assert gateway.requests[0].path == "/v1/chat/completions"


async def test_responses_stream() -> None:
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    end = {
        "type": "response.completed",
        "response": {"id": "resp_1", "model": "m2", "status": "completed", "output": [], "usage": usage},
    }
    events = named_events(
        ("response.output_text.delta", {"type": "response.output_text.delta", "delta": "42"}),
        ("response.completed", end),
    )
    _recorder, answer, gateway = await one(Script(headers=STREAM, pieces=events), protocol="responses")
    assert (answer.text, answer.attempt.total_tokens, answer.attempt.response_id) == ("42", 7, "resp_1")
    assert gateway.requests[0].path == "/v1/responses"


async def test_connections_are_kept() -> None:
    recorder = Recorder()
    async with loopback(GOOD_STREAM) as gateway, recorder.client(gateway.root) as client:
        for number in range(5):
            await recorder.send(client, call(f"c{number}"))
        assert gateway.connections == 1


async def test_plain_json_in_answer_to_a_stream() -> None:
    _recorder, answer, _gateway = await one(GOOD_BODY)
    assert (answer.text, answer.attempt.status, answer.attempt.total_tokens) == ("42", "ok", 12)


async def test_a_stream_in_answer_to_a_plain_request() -> None:
    _recorder, answer, _gateway = await one(GOOD_STREAM, stream=False)
    assert (answer.text, answer.attempt.total_tokens) == ("42", 7)


async def test_a_stream_without_its_content_type_and_with_comments() -> None:
    pieces = [b": keep-alive\n\n", b"\r\n", *sse(chat_chunk("42", "stop", USAGE))]
    _recorder, answer, _gateway = await one(Script(pieces=pieces))
    assert (answer.text, answer.attempt.status) == ("42", "ok")


async def test_a_byte_at_a_time() -> None:
    whole = b"".join(piece for piece in GOOD_STREAM.pieces if isinstance(piece, bytes))
    pieces = [whole[i : i + 1] for i in range(len(whole))]
    _recorder, answer, _gateway = await one(Script(headers=STREAM, pieces=list(pieces)))
    assert (answer.text, answer.attempt.total_tokens) == ("42", 7)


async def test_the_token_limit_is_an_answer() -> None:
    _recorder, answer, _gateway = await one(Script(body=chat_body("4", "length")), stream=False)
    assert (answer.attempt.status, answer.attempt.final, answer.attempt.finish_class) == (
        "incomplete",
        True,
        "length",
    )
    assert answer.answered


@pytest.mark.parametrize(
    ("text", "finish", "status"),
    [
        ("", "stop", "empty"),
        ("x", "content_filter", "filtered"),
        ("", "tool_calls", "empty"),
        ("x", "odd", "ok"),
    ],
)
async def test_statuses(text: str, finish: str, status: str) -> None:
    _recorder, answer, _gateway = await one(Script(body=chat_body(text, finish)), stream=False)
    assert (answer.attempt.status, answer.attempt.final) == (status, True)


async def test_usage_over_the_limit_with_a_clean_end_is_suspect() -> None:
    body = chat_body("x", "stop", {"prompt_tokens": 3, "completion_tokens": 64})
    _recorder, answer, _gateway = await one(Script(body=body), stream=False)
    assert "suspected_truncation" in answer.attempt.usage_flags


@pytest.mark.parametrize("usage", [{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, {"x": 1}])
async def test_an_answer_without_counts_is_estimated(usage: dict[str, int]) -> None:
    _recorder, answer, _gateway = await one(
        Script(body=chat_body("four words of text", usage=usage)), stream=False
    )
    attempt = answer.attempt
    assert (attempt.status, attempt.usage_source, attempt.usage_final) == ("ok", "estimated", False)
    assert attempt.total_tokens == (attempt.prompt_tokens or 0) + (attempt.completion_tokens or 0) > 0


async def test_estimates_follow_the_servers_own_counts() -> None:
    recorder = Recorder()
    dense = chat_body("x", usage={"prompt_tokens": 500, "completion_tokens": 1})
    scripts = [Script(body=dense), Script(body=chat_body("x", usage={"y": 1}))]
    async with loopback(*scripts) as gateway, recorder.client(gateway.root) as client:
        await recorder.send(client, call("c1", stream=False))
        answer = await recorder.send(client, call("c2", stream=False))
    assert answer.attempt.prompt_tokens == 500 and answer.attempt.usage_source == "estimated"


@pytest.mark.parametrize("header", [{"x-cache": "HIT"}, {"cf-aig-cache-status": "HIT"}, {"age": "12"}])
async def test_a_replayed_reply(header: dict[str, str]) -> None:
    # Row 11: two calls, one id; the second from a cache by its header, the third without one.
    recorder = Recorder()
    body = chat_body("42", usage={"prompt_tokens": 100, "completion_tokens": 20})
    scripts = [
        Script(headers={"x-cache": "MISS", "cf-cache-status": "DYNAMIC"}, body=body),
        Script(headers=header, body=body),
        Script(body=body),
    ]
    async with loopback(*scripts) as gateway, recorder.client(gateway.root) as client:
        for number in range(3):
            await recorder.send(client, call(f"c{number}", stream=False))
    attempts = [attempt for attempt, _text in recorder.attempts]
    assert [attempt.gateway_cache for attempt in attempts] == ["none", "hit", "suspected"]
    assert [attempt.billed for attempt in attempts] == ["yes", "no", "unknown"]
    assert sum(attempt.total_tokens or 0 for attempt in attempts if attempt.gateway_cache == "none") == 120


async def test_a_constant_id_alone_is_no_cache() -> None:
    recorder = Recorder()
    scripts = [Script(body=chat_body("a")), Script(body=chat_body("b"))]
    async with loopback(*scripts) as gateway, recorder.client(gateway.root) as client:
        for number in range(2):
            await recorder.send(client, call(f"c{number}", stream=False))
    assert [attempt.gateway_cache for attempt, _text in recorder.attempts] == ["none", "none"]


async def test_a_cut_answer_is_estimated_by_chunks_once_a_stream_was_counted() -> None:
    # Two tokens a chunk by the server's own count; the prompt by its own ratio, whose template overhead differs.
    recorder = Recorder()
    counted = {"prompt_tokens": 40, "completion_tokens": 4, "total_tokens": 44}
    whole = Script(
        headers=STREAM,
        pieces=sse(chat_chunk("a long chunk"), chat_chunk("b"), chat_chunk(None, "stop", counted)),
    )
    cut = Script(
        headers=STREAM, pieces=[*sse(chat_chunk("x"), chat_chunk("y"), chat_chunk("z"), done=False), "cut"]
    )
    async with loopback(whole, cut, GOOD_BODY) as gateway, recorder.client(gateway.root) as client:
        await recorder.send(client, call("c1"))
        await recorder.send(client, call("c2"))
    lost = recorder.attempts[1][0]
    assert (lost.prompt_tokens, lost.completion_tokens, lost.usage_source) == (40, 6, "estimated")
