"""Failures, retries, the network: the client against a scripted server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from client_recorder import (
    GOOD_BODY,
    GOOD_STREAM,
    KEY,
    MESSAGES_REPLY,
    OpenGate,
    Recorder,
    call,
    error,
    one,
)
from loopback import (
    STREAM,
    Piece,
    Request,
    Script,
    chat_body,
    chat_chunk,
    loopback,
    named_events,
    sse,
)

from elometer.boundary.gate import FixedGate
from elometer.core.attempt import Answer, Attempt, Message
from elometer.core.errors import AccessError, BudgetStop, UsageError
from elometer.core.limits import GateClosed
from elometer.core.redact import Secret
from elometer.wire.client import GatewayClient, RetryPolicy, Timeouts
from elometer.wire.transport import proxy_for


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


async def test_garbage_between_the_chunks_ends_the_attempt_at_once() -> None:
    # aiohttp 3.14.5 closes the connection and tells nobody; the attempt hung until its whole time was over.
    # The chunk's size comes in a packet of its own, after the head and a good chunk were read.
    good = sse(chat_chunk("a"), done=False)[0]
    assert isinstance(good, bytes)
    pieces: list[Piece] = [f"{len(good):x}\r\n".encode() + good + b"\r\n", 0.05, b"not a size\r\n", "hang"]
    broken = Script(headers={**STREAM, "transfer-encoding": "chunked"}, pieces=pieces, raw=True)
    async with asyncio.timeout(5):
        recorder, answer, _gateway = await one(broken, GOOD_STREAM)
    first, text = recorder.attempts[0]
    assert (first.error_class, first.http_status, text) == ("bad_body", 200, "a")
    assert (first.usage_source, first.billed) == ("estimated", "unknown")
    assert answer.text == "42"


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
        (Script(body=b"[" * 100_000), "bad_body", 5),
        (Script(headers=STREAM, pieces=[b"data: " + b'{"a":' * 100_000 + b"\n\n"]), "bad_body", 5),
        (Script(500, {}, b'{"error":' + b"[" * 20_000), "server_error", 5),
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
    assert waits[0] == pytest.approx(120.0, abs=2.0) and waits[1] == 0.001


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


async def test_a_kept_connection_that_was_closed_is_no_failed_attempt() -> None:
    # llama.cpp's server closes after each stream in spite of its Keep-Alive header.
    requests: list[int] = []

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in (1, 2):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
            await reader.readexactly(int(length.split()[1]))
            requests.append(number)
            if number == 1:
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(chat_body()) + chat_body()
                )
        writer.close()

    recorder = Recorder()
    server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
    async with server, recorder.client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        for number in range(3):
            assert (await recorder.send(client, call(f"c{number}", stream=False))).text == "42"
    assert [attempt.status for attempt, _text in recorder.attempts] == ["ok"] * 3
    assert requests == [1, 2, 1, 2, 1]


async def test_a_server_that_goes_on_after_its_end_marker_adds_no_latency() -> None:
    script = Script(headers=STREAM, pieces=[*GOOD_STREAM.pieces, "hang"])
    _recorder, answer, _gateway = await one(script)
    assert answer.text == "42" and (answer.attempt.latency_ms or 0) < 200


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


@pytest.mark.parametrize(
    "root", ["", "g.example", "ftp://g.example", "https://g .example", "https://u:pass-word@g.example"]
)
def test_a_root_that_is_no_address(root: str) -> None:
    with pytest.raises(UsageError) as found:
        Recorder().client(root)
    assert "pass-word" not in " ".join(found.value.lines())


async def test_the_environment_names_no_proxy_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    _recorder, answer, _gateway = await one(GOOD_STREAM)
    assert answer.text == "42"


@pytest.mark.parametrize(
    ("named", "url"),
    [
        ("proxy.example:3128", "http://proxy.example:3128"),
        ("http://proxy.example:3128", "http://proxy.example:3128"),
        ("https://user:p%40ss@proxy.example", "https://proxy.example"),
    ],
)
def test_a_proxy_is_taken_as_curl_takes_it(monkeypatch: pytest.MonkeyPatch, named: str, url: str) -> None:
    monkeypatch.setenv("https_proxy", named)
    found = proxy_for("https://gateway.example/v1")
    assert found is not None and found.url == url
    assert found.auth == (("user", "p@ss") if "@" in named else None)


@pytest.mark.filterwarnings("ignore:.*(BasicAuth|proxy_auth):DeprecationWarning")  # of aiohttp 3.14, for 4
async def test_calls_go_through_the_proxy_with_its_own_password(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    async with loopback(GOOD_STREAM) as proxy:
        monkeypatch.setenv("http_proxy", proxy.root.replace("http://", "user:pass-word@"))
        async with recorder.client("http://gateway.example/v1") as client:
            answer = await recorder.send(client, call())
        (request,) = proxy.requests
    assert answer.text == "42"
    assert request.path == "http://gateway.example/v1/chat/completions"
    assert request.headers["proxy-authorization"] == "Basic dXNlcjpwYXNzLXdvcmQ="
    assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "named", ["socks5://u:pass-word@p:1", "ftp://u:pass-word@p", "http://u:pass-word@p:x"]
)
async def test_a_proxy_that_cannot_be_used_is_said_without_its_password(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("https_proxy", named)
    with pytest.raises(UsageError, match="proxy") as found:
        async with Recorder().client("https://gateway.example/v1"):
            pass
    assert found.value.evidence == f"{named.replace('u:pass-word@', '')}, for https://gateway.example/v1"


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


async def test_what_before_send_raises_ends_the_call_untried() -> None:
    recorder = Recorder()

    async def refuse(_call: object) -> None:
        raise BudgetStop("used up")

    async with loopback(GOOD_BODY) as gateway, recorder.client(gateway.root) as client:
        with pytest.raises(BudgetStop):
            await client.send(call(), on_attempt=recorder.on_attempt, before_send=refuse)
        assert gateway.requests == [] and recorder.attempts == [] and recorder.gate.inside == 0


class ShutGate(OpenGate):
    """Shut from the second permit on, as a real gate after too long a Retry-After."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    @contextlib.asynccontextmanager
    async def permit(self, *, retry: bool = False) -> AsyncIterator[OpenGate]:
        if len(self.entered) >= self.after:
            raise GateClosed("shut", until=1.0)
        async with super().permit(retry=retry) as permit:
            yield permit


async def test_a_shut_gate() -> None:
    recorder = Recorder()
    async with loopback(error(429, retry_after="5")) as gateway, recorder.client(gateway.root) as client:
        recorder.gate = ShutGate(0)
        with pytest.raises(GateClosed):
            await recorder.send(client, call())
        assert recorder.attempts == []
        # Shut while the call waits for its second try: the first one says why.
        recorder.gate = ShutGate(1)
        answer = await recorder.send(client, call())
    assert (answer.attempt.error_class, len(recorder.attempts)) == ("rate_limit", 1)


async def test_whoever_hears_of_a_failure_can_hold_back_the_call_that_waits_for_its_place() -> None:
    # A bad key stops a start: the first refusal must be the last.
    refusal = error(401, "Invalid API Key", "invalid_api_key")
    recorder = Recorder()
    waiting: list[asyncio.Task[Answer]] = []

    async def on_attempt(_attempt: Attempt, _text: str) -> None:
        for task in waiting:
            task.cancel()
        await asyncio.sleep(0)

    async with loopback(refusal) as gateway:
        gate = FixedGate(1)
        client = GatewayClient(gateway.root, Secret(KEY), gate_for=lambda _model: gate, sleep=recorder.sleep)
        async with client:
            first = asyncio.create_task(client.send(call("first"), on_attempt=on_attempt))
            await asyncio.sleep(0)
            waiting.append(asyncio.create_task(client.send(call("second"), on_attempt=on_attempt)))
            assert (await first).attempt.error_class == "bad_key"
            with pytest.raises(asyncio.CancelledError):
                await waiting[0]
        assert len(gateway.requests) == 1
        assert gate.status().in_flight == 0
