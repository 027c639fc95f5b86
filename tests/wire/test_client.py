"""The client against a scripted server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from loopback import (
    STREAM,
    Loopback,
    Request,
    Script,
    chat_body,
    chat_chunk,
    loopback,
    named_events,
    sse,
)

from elometer.core.attempt import Answer, Attempt, Call, Message
from elometer.core.errors import AccessError, UsageError
from elometer.core.limits import GateStatus
from elometer.core.redact import Secret
from elometer.wire.client import GatewayClient, RetryPolicy, Timeouts
from elometer.wire.failures import GatewayError

KEY = "sk-planted-7c1e5b0a9d"
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
GOOD_STREAM = Script(
    headers=STREAM,
    pieces=sse(chat_chunk("4"), chat_chunk("2"), chat_chunk(None, "stop"), {"choices": [], "usage": USAGE}),
)
GOOD_BODY = Script(body=chat_body())


class OpenGate:
    """Admits everyone and remembers what it was told."""

    def __init__(self) -> None:
        self.inside = 0
        self.entered: list[bool] = []
        self.refusals: list[tuple[float | None, str]] = []
        self.failures = 0

    @contextlib.asynccontextmanager
    async def permit(self, *, retry: bool = False) -> AsyncIterator[OpenGate]:
        self.entered.append(retry)
        self.inside += 1
        try:
            yield self
        finally:
            self.inside -= 1

    def refused(self, wait_seconds: float | None, *, why: str) -> None:
        self.refusals.append((wait_seconds, why))

    def overloaded(self) -> None:
        self.failures += 1

    def status(self) -> GateStatus:
        return GateStatus(self.inside, 1, 0)


class Recorder:
    """What the caller of `send` sees."""

    def __init__(self) -> None:
        self.gate = OpenGate()
        self.attempts: list[tuple[Attempt, str]] = []
        self.inside_at_report: list[int] = []
        self.slept: list[float] = []
        self.sent: list[int] = []
        self.chunks: list[int] = []
        self.waits: list[tuple[float, str]] = []
        self.wanted = 2
        self.reached = asyncio.Event()

    async def on_attempt(self, attempt: Attempt, text: str) -> None:
        self.inside_at_report.append(self.gate.inside)
        await asyncio.sleep(0)
        self.attempts.append((attempt, text))

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def wait_for_chunks(self, count: int) -> None:
        self.wanted = count
        await self.reached.wait()

    def on_chunk(self, _call: Call, count: int) -> None:
        self.chunks.append(count)
        if count >= self.wanted:
            self.reached.set()

    def client(self, root: str, key: str | None = KEY, **options: Any) -> GatewayClient:
        return GatewayClient(
            root,
            Secret(key) if key is not None else None,
            gate_for=lambda _model: self.gate,
            sleep=self.sleep,
            draw=lambda: 1.0,
            **options,
        )

    async def send(self, client: GatewayClient, call: Call) -> Answer:
        return await client.send(
            call,
            on_attempt=self.on_attempt,
            on_sent=lambda _call, number: self.sent.append(number),
            on_chunk=self.on_chunk,
            on_wait=lambda _call, seconds, why: self.waits.append((seconds, why)),
        )


def call(name: str = "c1", **more: Any) -> Call:
    fields: dict[str, Any] = {
        "call_id": name,
        "experiment_id": "e",
        "run_id": "r",
        "strategy": "sample_1",
        "task": "t",
        "run": 1,
        "phase": "sample",
        "model": "m",
        "messages": (Message("user", "6*7?"),),
        "params": {"max_tokens": 64, "temperature": 0.7},
        "seed": 7,
    }
    return Call(**{**fields, **more})


async def one(
    *scripts: Script, options: dict[str, Any] | None = None, **more: Any
) -> tuple[Recorder, Answer, Loopback]:
    """One call against these answers."""
    recorder = Recorder()
    async with loopback(*scripts) as gateway, recorder.client(gateway.root, **(options or {})) as client:
        answer = await recorder.send(client, call(**more))
    return recorder, answer, gateway


# -- a good answer -------------------------------------------------------------------------------------------------


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


MESSAGES_REPLY = {
    "id": "msg_1",
    "model": "m",
    "content": [{"type": "text", "text": "42"}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 5,
        "cache_read_input_tokens": 128_955,
        "cache_creation_input_tokens": 1_253,
        "output_tokens": 7,
    },
}


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


# -- odd answers ---------------------------------------------------------------------------------------------------


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


# -- failures and retries ------------------------------------------------------------------------------------------


def error(status: int, message: str = "x", code: str | None = None, **headers: str) -> Script:
    body = json.dumps({"error": {"message": message, "type": "x", "code": code}}).encode()
    return Script(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


@pytest.mark.parametrize("raw", [True, False])
async def test_a_cut_stream_is_booked_and_made_again(raw: bool) -> None:
    # Row 8: two chunks, then the socket closes (close-delimited, or inside chunked encoding).
    cut = Script(headers=STREAM, pieces=[*sse(chat_chunk("a"), chat_chunk("b"), done=False), "cut"], raw=raw)
    recorder, answer, _gateway = await one(cut, GOOD_STREAM)
    first, text = recorder.attempts[0]
    assert (first.status, first.final, text) == ("error", False, "ab")
    assert first.error_class == ("stream_truncated" if raw else "net_reset")
    assert (first.usage_source, first.usage_final, first.billed) == ("estimated", False, "unknown")
    assert first.completion_tokens == 2 and first.prompt_tokens is not None and first.total_tokens is not None
    assert (answer.text, answer.attempt.attempt, answer.attempt.final) == ("42", 2, True)
    assert recorder.gate.failures == 1 and recorder.gate.entered == [False, True]


async def test_counts_of_a_cut_stream_are_the_servers_where_it_gave_some() -> None:
    cut = Script(
        headers=STREAM,
        pieces=[
            *sse(chat_chunk("a", usage={"prompt_tokens": 35, "completion_tokens": 1}), done=False),
            "cut",
        ],
    )
    recorder, _answer, _gateway = await one(cut, GOOD_STREAM)
    first = recorder.attempts[0][0]
    assert (first.total_tokens, first.usage_source, first.usage_final) == (36, "server", False)


async def test_an_error_inside_a_stream_takes_its_class() -> None:
    pieces = sse(
        chat_chunk("a"),
        {"error": {"message": "litellm.APIConnectionError", "type": None, "code": "500"}},
        done=False,
    )
    recorder, answer, _gateway = await one(Script(headers=STREAM, pieces=pieces), GOOD_STREAM)
    assert (recorder.attempts[0][0].error_class, recorder.attempts[0][0].http_status) == ("server_error", 200)
    assert answer.text == "42"
    overloaded = named_events(
        ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    )
    recorder, _answer, _gateway = await one(
        Script(headers=STREAM, pieces=overloaded),
        Script(body=json.dumps(MESSAGES_REPLY).encode()),
        protocol="messages",
    )
    assert recorder.attempts[0][0].error_class == "overloaded"
    assert recorder.gate.refusals == [(None, "overloaded")]


@pytest.mark.parametrize(
    ("script", "error_class", "tries"),
    [
        (Script(body=b""), "bad_body", 5),
        (
            Script(headers={"content-type": "text/html"}, body=b"<html><title>App</title></html>"),
            "html_wrong_path",
            1,
        ),
        (Script(body=b'{"choices":[]}'), "bad_body", 5),
        (Script(headers=STREAM, pieces=[b"data: {nonsense\n\n"]), "bad_body", 5),
        (Script(headers=STREAM, pieces=[]), "stream_truncated", 5),
        (Script(pieces=["reset"]), "net_reset", 5),
        (Script(502, {"content-type": "text/html"}, b"<html><title>502</title></html>"), "html_upstream", 5),
        (Script(404, {}, b'{"detail":"Not Found"}'), "wrong_path", 1),
        (error(500), "server_error", 5),
        (error(429, code="credit_balance_exhausted"), "quota", 1),
        (error(503, "No available channel for model m under group g", "model_not_found"), "model_unknown", 1),
        (error(401), "bad_key", 1),
        (error(400), "bad_request", 1),
        (error(500, x_should_retry="false"), "server_error", 1),
    ],
)
async def test_tries_by_class(script: Script, error_class: str, tries: int) -> None:
    recorder, answer, gateway = await one(script)
    assert (answer.attempt.status, answer.attempt.error_class) == ("error", error_class)
    assert len(gateway.requests) == len(recorder.attempts) == tries
    assert [attempt.attempt for attempt, _text in recorder.attempts] == list(range(1, tries + 1))
    assert not any(attempt.final for attempt, _text in recorder.attempts) and not answer.answered
    assert recorder.inside_at_report == [0] * tries
    # Full jitter with a draw of 1: the doubled waits themselves.
    assert recorder.slept == [1.0, 2.0, 4.0, 8.0][: tries - 1]


async def test_refusals_are_left_to_the_gate_and_not_counted() -> None:
    recorder, answer, _gateway = await one(*[error(429, retry_after="7")] * 9, GOOD_STREAM)
    assert answer.attempt.attempt == 10 and answer.text == "42"
    assert recorder.gate.refusals == [(7.0, "rate_limit")] * 9 and recorder.slept == []
    assert recorder.waits[0] == (7.0, "rate_limit")
    first = recorder.attempts[0][0]
    assert (first.retry_after_s, first.billed, first.total_tokens, first.usage_source) == (
        7.0,
        "no",
        None,
        "none",
    )


async def test_an_http_date_is_waited_for() -> None:
    # Row 15.
    ahead = format_datetime(datetime.now(UTC) + timedelta(seconds=120), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=120), usegmt=True)
    options = {"retry": RetryPolicy(longest_wait_s=300.0)}
    recorder, _answer, _gateway = await one(
        error(429, retry_after=ahead), error(429, retry_after=past), GOOD_STREAM, options=options
    )
    waits = [wait for wait, _why in recorder.gate.refusals]
    assert waits[0] == pytest.approx(120.0, abs=2.0) and waits[1] == 0.0


async def test_a_missing_place_waits_for_a_call_to_end() -> None:
    # LiteLLM: retry-after 60 for a place that came free after 3 s.
    refusal = error(
        429, "Limit type: max_parallel_requests", retry_after="60", rate_limit_type="max_parallel_requests"
    )
    refusal.headers["rate_limit_type"] = refusal.headers.pop("rate-limit-type")
    recorder, answer, _gateway = await one(refusal, GOOD_STREAM)
    assert recorder.gate.refusals == [(0.0, "concurrency_limit")] and answer.text == "42"


async def test_a_wait_beyond_the_longest_is_given_up_with_its_moment() -> None:
    recorder, answer, gateway = await one(error(429, "Rate limit", retry_after="3600"))
    assert len(gateway.requests) == 1
    assert answer.attempt.error_message is not None and "3600 s, until 20" in answer.attempt.error_message
    assert recorder.gate.refusals == [(3600.0, "rate_limit")]


async def test_retry_after_of_a_failure_is_the_least_wait() -> None:
    recorder, _answer, _gateway = await one(error(500, retry_after="30"), GOOD_STREAM)
    assert recorder.slept == [30.0]


async def test_the_deadline_ends_refusals() -> None:
    times = iter(range(0, 100_000, 50))
    recorder, answer, _gateway = await one(
        error(529), options={"clock": lambda: float(next(times)), "retry": RetryPolicy(deadline_s=900.0)}
    )
    assert answer.attempt.error_class == "overloaded"
    assert 2 <= len(recorder.attempts) <= 10


async def test_first_attempt_numbers_a_resumed_call() -> None:
    recorder = Recorder()
    async with loopback(GOOD_BODY) as gateway, recorder.client(gateway.root) as client:
        answer = await client.send(call(stream=False), on_attempt=recorder.on_attempt, first_attempt=4)
    assert answer.attempt.attempt == 4


# -- the network ---------------------------------------------------------------------------------------------------


async def test_a_closed_port() -> None:
    async with loopback(GOOD_BODY) as gateway:
        root = gateway.root
    recorder = Recorder()
    async with recorder.client(root, retry=RetryPolicy(infra=1)) as client:
        answer = await recorder.send(client, call())
    assert (answer.attempt.error_class, answer.attempt.billed) == ("net_refused", "no")
    assert len(recorder.attempts) == 2


@pytest.mark.parametrize(
    ("script", "timeouts"),
    [
        (Script(delay=5.0, body=b""), Timeouts(read_s=0.05)),
        (Script(headers=STREAM, pieces=[*sse(chat_chunk("a"), done=False), "hang"]), Timeouts(read_s=0.05)),
        (
            Script(headers=STREAM, pieces=[b": wait\n\n", 0.04, b": wait\n\n", 0.04, b": wait\n\n", "hang"]),
            Timeouts(total_s=0.1),
        ),
    ],
)
async def test_time_limits(script: Script, timeouts: Timeouts) -> None:
    recorder, answer, _gateway = await one(
        script, options={"timeout": timeouts, "retry": RetryPolicy(infra=0)}
    )
    assert (answer.attempt.status, answer.attempt.error_class, answer.attempt.billed) == (
        "error",
        "net_timeout_read",
        "unknown",
    )
    assert answer.attempt.prompt_tokens is not None and answer.attempt.usage_source == "estimated"
    assert len(recorder.attempts) == 1


async def test_tls_spoken_to_a_plain_port() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    recorder = Recorder()
    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    root = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, recorder.client(root) as client:
        answer = await recorder.send(client, call())
    assert (answer.attempt.error_class, len(recorder.attempts)) == ("net_tls_protocol", 1)


async def test_a_server_that_goes_on_after_its_end_marker_adds_no_latency() -> None:
    script = Script(headers=STREAM, pieces=[*GOOD_STREAM.pieces, "hang"])
    _recorder, answer, _gateway = await one(script)
    assert answer.text == "42" and (answer.attempt.latency_ms or 0) < 200


# -- cancellation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        Script(delay=30.0, body=b""),
        Script(headers=STREAM, pieces=[*sse(chat_chunk("a"), chat_chunk("b"), done=False), "hang"]),
    ],
)
async def test_a_cancelled_call_leaves_its_line(script: Script) -> None:
    recorder = Recorder()
    async with loopback(script) as gateway, recorder.client(gateway.root) as client:
        task = asyncio.create_task(recorder.send(client, call()))
        await gateway.arrived.wait()
        if script.pieces:
            await recorder.wait_for_chunks(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        attempt, text = recorder.attempts[0]
        assert (attempt.status, attempt.final, attempt.billed) == ("cancelled", False, "unknown")
        assert (attempt.usage_source, attempt.usage_final) == ("estimated", False)
        assert text == ("ab" if script.pieces else "")
        assert attempt.completion_tokens == (2 if script.pieces else None)
        assert recorder.gate.inside == 0 and recorder.inside_at_report == [0]
        # The client still works.
        gateway.scripts = [GOOD_BODY]
        assert (await recorder.send(client, call("c2", stream=False))).text == "42"


async def test_a_second_cancellation_does_not_stop_the_line_from_being_written() -> None:
    recorder = Recorder()
    written = []

    async def slow(attempt: Attempt, _text: str) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        written.append(attempt.status)

    async with loopback(Script(delay=30.0, body=b"")) as gateway, recorder.client(gateway.root) as client:
        task = asyncio.create_task(client.send(call(), on_attempt=slow))
        await gateway.arrived.wait()
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert written == ["cancelled"]


async def test_cancelling_at_every_step_books_every_request() -> None:
    for step in range(1, 40):
        recorder = Recorder()
        async with loopback(GOOD_STREAM) as gateway, recorder.client(gateway.root) as client:
            task = asyncio.create_task(recorder.send(client, call()))
            for _ in range(step):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert recorder.gate.inside == 0
            assert len(recorder.attempts) == len(recorder.sent) <= 1
            assert len(gateway.requests) <= len(recorder.attempts)


async def test_what_on_attempt_raises_is_raised() -> None:
    recorder = Recorder()

    async def full(_attempt: Attempt, _text: str) -> None:
        raise OSError(28, "No space left on device")

    async with loopback(GOOD_BODY) as gateway, recorder.client(gateway.root) as client:
        with pytest.raises(OSError, match="No space"):
            await client.send(call(), on_attempt=full)
    assert recorder.gate.inside == 0


async def test_many_cancelled_calls_leave_the_client_usable() -> None:
    recorder = Recorder()
    hang = Script(delay=30.0, body=b"")
    async with loopback(hang) as gateway, recorder.client(gateway.root, connections=20) as client:
        for _ in range(5):
            tasks = [asyncio.create_task(recorder.send(client, call(f"c{n}"))) for n in range(20)]
            await asyncio.sleep(0.02)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        gateway.scripts = [GOOD_BODY]
        answers = await asyncio.gather(
            *(recorder.send(client, call(f"d{n}", stream=False)) for n in range(20))
        )
    assert all(answer.text == "42" for answer in answers)


# -- keys, addresses, models ---------------------------------------------------------------------------------------


async def test_the_key_is_in_no_line_and_no_error() -> None:
    scripts = [error(401, f"Incorrect API key provided: {KEY}", KEY), Script(pieces=["reset"])]
    for script in scripts:
        recorder, _answer, _gateway = await one(script, options={"retry": RetryPolicy(infra=0)})
        assert KEY not in repr(recorder.attempts)


@pytest.mark.parametrize("key", ["", "sk-planted-7c1e\n", "sk-plänted-7c1e", " sk-planted-7c1e"])
def test_a_key_that_cannot_be_sent(key: str) -> None:
    with pytest.raises(AccessError) as refused:
        Recorder().client("http://127.0.0.1:1", key)
    assert "7c1e" not in "".join(refused.value.lines())


@pytest.mark.parametrize("root", ["", "g.example", "ftp://g.example", "https://g .example"])
def test_a_root_that_is_no_address(root: str) -> None:
    with pytest.raises(UsageError):
        Recorder().client(root)


async def test_list_models() -> None:
    recorder = Recorder()
    body = b'{"object":"list","data":[{"id":"m"},{"id":"n"}]}'
    async with loopback(Script(body=body)) as gateway, recorder.client(gateway.root) as client:
        assert [row["id"] for row in await client.list_models()] == ["m", "n"]
        request = gateway.requests[0]
        assert (request.method, request.path, request.headers["authorization"]) == (
            "GET",
            "/v1/models",
            f"Bearer {KEY}",
        )
        gateway.scripts = [error(401)]
        with pytest.raises(AccessError):
            await client.list_models()
        gateway.scripts = [Script(body=b"<html></html>")]
        with pytest.raises(GatewayError):
            await client.list_models()


async def test_the_environment_names_no_proxy_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    _recorder, answer, _gateway = await one(GOOD_STREAM)
    assert answer.text == "42"


async def test_decide_by_request() -> None:
    # 16 at once over few connections: every answer reaches its own call.
    def echo(request: Request) -> Script:
        return Script(
            body=chat_body(request.body["messages"][0]["content"], id=request.body["messages"][0]["content"])
        )

    recorder = Recorder()
    async with loopback(decide=echo) as gateway, recorder.client(gateway.root, connections=4) as client:
        calls = [call(f"c{n}", stream=False, messages=(Message("user", f"text {n}"),)) for n in range(16)]
        answers = await asyncio.gather(*(recorder.send(client, one_call) for one_call in calls))
        assert gateway.connections <= 4
    assert [answer.text for answer in answers] == [f"text {n}" for n in range(16)]
