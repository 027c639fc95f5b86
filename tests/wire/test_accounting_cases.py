"""The rows of cases/accounting.md that a client of ours can meet (6 to 15), each through the whole client: what
the server sends, and the ledger line and the number of requests that must come of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from client_recorder import GOOD_BODY, GOOD_STREAM, MESSAGES_REPLY, Recorder, call, one
from loopback import STREAM, Script, chat_body, chat_chunk, loopback, named_events, sse

from elometer.core.urls import endpoint, url_fault


def chat_usage(prompt: int, completion: int, total: int | None = None, **more: Any) -> dict[str, Any]:
    total = prompt + completion if total is None else total
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **more}


def failing(status: int, error: dict[str, Any], **headers: str) -> Script:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return Script(status, told, json.dumps({"error": error}).encode())


def messages_stream(start: dict[str, int], delta: dict[str, int]) -> Script:
    message = {"id": "msg_1", "type": "message", "model": "m", "content": [], "usage": start}
    return Script(
        headers=STREAM,
        pieces=named_events(
            ("message_start", {"type": "message_start", "message": message}),
            (
                "content_block_delta",
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "42"}},
            ),
            (
                "message_delta",
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": delta},
            ),
            ("message_stop", {"type": "message_stop"}),
        ),
    )


async def test_row_6_running_totals_of_a_stream_are_not_summed() -> None:
    chunks = [chat_chunk(str(n), usage=chat_usage(35, n)) for n in (1, 2)]
    last = chat_chunk(None, "stop", chat_usage(35, 3))
    _recorder, answer, _gateway = await one(Script(headers=STREAM, pieces=sse(*chunks, last)))
    assert answer.attempt.total_tokens == 38
    assert answer.attempt.usage_final is True


@pytest.mark.parametrize(
    ("start", "delta", "total"),
    [
        (
            {"input_tokens": 0, "output_tokens": 0},
            {"input_tokens": 4522, "cache_creation_input_tokens": 4511, "output_tokens": 5},
            9038,
        ),
        ({"input_tokens": 15, "output_tokens": 1}, {"input_tokens": 0, "output_tokens": 9}, 24),
    ],
)
async def test_row_7_the_parts_of_a_messages_stream_are_merged(
    start: dict[str, int], delta: dict[str, int], total: int
) -> None:
    _recorder, answer, _gateway = await one(messages_stream(start, delta), protocol="messages")
    assert answer.attempt.total_tokens == total
    assert answer.attempt.prompt_tokens == total - delta["output_tokens"]


async def test_row_8_a_stream_without_its_end_is_an_estimated_error() -> None:
    cut = Script(headers=STREAM, pieces=[*sse(chat_chunk("a"), chat_chunk("b"), done=False), "cut"], raw=True)
    recorder, answer, gateway = await one(cut, GOOD_STREAM)
    lost = recorder.attempts[0][0]
    assert (lost.status, lost.final, lost.error_class) == ("error", False, "stream_truncated")
    assert (lost.usage_source, lost.usage_final, lost.billed) == ("estimated", False, "unknown")
    assert lost.total_tokens
    assert answer.attempt.status == "ok" and len(gateway.requests) == 2


async def test_row_9_reasoning_outside_the_completion_is_named_and_counted() -> None:
    usage = chat_usage(21, 0, 81, completion_tokens_details={"reasoning_tokens": 60})
    _recorder, answer, _gateway = await one(Script(body=chat_body(usage=usage)), stream=False)
    line = answer.attempt
    assert (line.prompt_tokens, line.completion_tokens, line.total_tokens) == (21, 60, 81)
    assert line.reasoning_tokens == 60
    assert "reasoning_outside_completion" in line.usage_flags


async def test_row_10_parts_from_caches_are_in_the_prompt_once() -> None:
    told = Script(body=json.dumps(MESSAGES_REPLY).encode())
    _recorder, answer, _gateway = await one(told, protocol="messages", stream=False)
    assert answer.attempt.prompt_tokens == 130_213
    cached = chat_usage(17_903, 4, prompt_tokens_details={"cached_tokens": 17_817})
    _recorder, answer, _gateway = await one(Script(body=chat_body(usage=cached)), stream=False)
    assert (answer.attempt.prompt_tokens, answer.attempt.cached_tokens) == (17_903, 17_817)


@pytest.mark.parametrize(("headers", "word"), [({"x-cache": "HIT"}, "hit"), ({}, "suspected")])
async def test_row_11_a_replay_is_spent_once(headers: dict[str, str], word: str) -> None:
    recorder = Recorder()
    body = chat_body("42", usage=chat_usage(100, 20))
    async with (
        loopback(Script(body=body), Script(headers=headers, body=body)) as gateway,
        recorder.client(gateway.root) as client,
    ):
        for number in range(2):
            await recorder.send(client, call(f"c{number}", stream=False))
    lines = [attempt for attempt, _text in recorder.attempts]
    assert [line.gateway_cache for line in lines] == ["none", word]
    assert sum(line.total_tokens or 0 for line in lines if line.gateway_cache == "none") == 120


async def test_row_12_an_exhausted_balance_is_quota_and_asked_once() -> None:
    error = {
        "type": "insufficient_quota",
        "code": "credit_balance_exhausted",
        "message": "You are out of credits.",
    }
    recorder, answer, gateway = await one(failing(429, error), GOOD_BODY)
    assert answer.attempt.error_class == "quota"
    assert len(gateway.requests) == 1 and not recorder.waits


async def test_row_13_no_channel_is_an_unknown_model_and_asked_once() -> None:
    words = "No available channel for model m under group g (distributor)"
    error = {"type": "new_api_error", "code": "model_not_found", "message": words}
    _recorder, answer, gateway = await one(failing(503, error), GOOD_BODY)
    assert answer.attempt.error_class == "model_unknown"
    assert "group g" in (answer.attempt.error_message or "")
    assert len(gateway.requests) == 1


async def test_row_14_a_doubled_version_is_a_path_and_no_model() -> None:
    assert endpoint("https://gateway.example/v1", "chat/completions") == (
        "https://gateway.example/v1/chat/completions"
    )
    fault = url_fault("https://gateway.example/v1/v1")
    assert fault is not None and fault.proposal == "https://gateway.example/v1"
    page = Script(404, {"content-type": "text/html"}, b"<html><title>404 Not Found</title></html>")
    _recorder, answer, gateway = await one(page, GOOD_BODY)
    assert answer.attempt.error_class in ("wrong_path", "html_wrong_path")
    assert len(gateway.requests) == 1


@pytest.mark.parametrize(("ahead_s", "least", "most"), [(120, 117.0, 120.5), (-60, 0.0, 0.001)])
async def test_row_15_a_date_is_waited_for(ahead_s: int, least: float, most: float) -> None:
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead_s), usegmt=True)
    refusal = failing(429, {"message": "Rate limit reached", "type": "requests"}, retry_after=when)
    recorder, answer, gateway = await one(refusal, GOOD_BODY, stream=False)
    (waited, _why) = recorder.gate.refusals[0]
    assert waited is not None and least <= waited <= most
    assert answer.attempt.status == "ok" and len(gateway.requests) == 2
