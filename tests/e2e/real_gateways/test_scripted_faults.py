"""Faults that aimock and WireMock play, each of which must land in its class and be booked for what it was.

A row says what the server does and what our ledger line says of the one try that met it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.real_gateways.one_try import ONCE, PATIENT, Told, call_of, send
from tests.e2e.real_gateways.servers import free_port, on_path, program, running

from elometer.wire.classes import ERROR_CLASSES

pytestmark = pytest.mark.real_gateways

KEY = "sk-planted-scripted-81c2"
PROTOCOLS = ("chat", "messages", "responses")
LONG = "one two three four five six seven eight nine ten eleven twelve"
# Real ones stop for a while in mid-stream; the read timeout of the tests is a second.
READ_S = 1.0


@dataclass(frozen=True)
class Row:
    """A fault by its prompt (aimock) or model (WireMock), and the ledger line that it leads to.

    `status`: what the ledger may hold, more than one where the head may or may not be read before the fault is.
    `wait`: the seconds that the server asks for, from and to. `partial`: the text that came before the end.
    """

    name: str
    server: dict[str, Any]
    error_class: str | None
    status: int | tuple[int | None, ...] | None = 200
    wait: tuple[float, float] | None = None
    billed: str | None = None
    partial: bool = False
    protocols: tuple[str, ...] = field(default=("chat",))


def error(message: str, kind: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code}}


# ── aimock ─────────────────────────────────────────────────────────────────────────────────────────

AIMOCK = (
    Row(
        "rate limit",
        {
            "response": {
                **error("Rate limit exceeded", "rate_limit_error", "rate_limit_exceeded"),
                "status": 429,
                "retryAfter": 7,
            }
        },
        "rate_limit",
        429,
        wait=(7.0, 7.0),
        billed="no",
        protocols=PROTOCOLS,
    ),
    Row(
        "overloaded",
        {"response": {**error("Overloaded", "overloaded_error"), "status": 529}},
        "overloaded",
        529,
        billed="unknown",
        protocols=PROTOCOLS,
    ),
    Row(
        "server error",
        {"response": {**error("The server had an error", "server_error"), "status": 500}},
        "server_error",
        500,
        billed="unknown",
        protocols=PROTOCOLS,
    ),
    Row(
        "context",
        {
            "response": {
                **error("prompt is too long", "invalid_request_error", "context_length_exceeded"),
                "status": 400,
            }
        },
        "context_too_long",
        400,
        billed="no",
        protocols=PROTOCOLS,
    ),
    Row(
        "quota",
        {
            "response": {
                **error("You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
                "status": 429,
            }
        },
        "quota",
        429,
        # aimock names a second in every 429; a quota is not waited for all the same.
        wait=(1.0, 1.0),
        billed="no",
        protocols=("chat", "responses"),
    ),
    Row(
        "ends after chunks",
        {"response": {"content": LONG}, "chunkSize": 6, "latency": 40, "truncateAfterChunks": 8},
        "net_reset",
        billed="unknown",
        partial=True,
        protocols=PROTOCOLS,
    ),
    Row(
        "cut after a time",
        {"response": {"content": LONG}, "chunkSize": 2, "latency": 40, "disconnectAfterMs": 700},
        "net_reset",
        billed="unknown",
        partial=True,
        protocols=PROTOCOLS,
    ),
    Row(
        "stalls",
        {"response": {"content": LONG}, "chunkSize": 30, "latency": 3000},
        "net_timeout_read",
        None,
        billed="unknown",
        protocols=PROTOCOLS,
    ),
    Row(
        "malformed body",
        {"response": {"content": LONG}, "chaos": {"malformedRate": 1}},
        "bad_body",
        billed="unknown",
        protocols=PROTOCOLS,
    ),
    Row(
        "hangs up",
        {"response": {"content": LONG}, "chaos": {"disconnectRate": 1}},
        "net_reset",
        None,
        protocols=PROTOCOLS,
    ),
    Row(
        "length",
        {"response": {"content": "The answer is", "finishReason": "length"}},
        None,
        protocols=("chat",),
    ),
)


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server, node, port = program("ELOMETER_AIMOCK"), on_path("node"), free_port()
    folder = tmp_path_factory.mktemp("aimock")
    rows = [{"match": {"userMessage": f"row: {row.name}"}, **row.server} for row in AIMOCK]
    fine = {
        "match": {"userMessage": "What is 6*7?"},
        "response": {"content": "42", "usage": {"prompt_tokens": 14, "completion_tokens": 9}},
    }
    (folder / "faults.json").write_text(json.dumps({"fixtures": [fine, *rows]}))
    command = [node, server, "-p", str(port), "-f", folder / "faults.json", "--strict"]
    environment = {"AIMOCK_API_KEYS": KEY}
    with running(command, port, ready="/health", folder=folder, environment=environment) as root:
        yield root


def of(rows: tuple[Row, ...]) -> Any:
    pairs = [(row, protocol) for row in rows for protocol in row.protocols]
    return pytest.mark.parametrize(
        ("row", "protocol"), pairs, ids=[f"{row.name}-{protocol}" for row, protocol in pairs]
    )


def check(row: Row, told: Told) -> None:
    line, text = told.attempts[0]
    assert len(told.attempts) == 1
    assert line.error_class == row.error_class, (line.error_message, line.http_status)
    assert line.http_status in (row.status if isinstance(row.status, tuple) else (row.status,))
    assert line.final is (row.error_class is None)
    if row.wait is None:
        assert line.retry_after_s is None
    else:
        assert line.retry_after_s is not None
        assert row.wait[0] <= line.retry_after_s <= row.wait[1]
    if row.billed is not None:
        assert line.billed == row.billed
    if row.partial:
        assert 0 < len(text) < len(LONG)
        assert LONG.startswith(text)
        assert line.usage_final is False
        assert line.total_tokens is not None
    assert KEY not in repr(line)


@of(AIMOCK)
async def test_aimock(aimock: str, row: Row, protocol: str) -> None:
    call = call_of(f"row: {row.name}", protocol=protocol)
    check(row, await send(aimock, call, key=KEY, retry=ONCE, read_s=READ_S))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_aimock_refuses_another_key_once(aimock: str, protocol: str) -> None:
    call = call_of("What is 6*7?", protocol=protocol)
    told = await send(aimock, call, key="sk-some-other-key-000", retry=PATIENT)
    assert told.classes == ["bad_key"]
    assert told.last.http_status == 401


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_aimock_answers_and_is_counted(aimock: str, protocol: str) -> None:
    told = await send(aimock, call_of("What is 6*7?", protocol=protocol), key=KEY)
    assert told.answer is not None and told.answer.text == "42"
    assert (told.last.prompt_tokens, told.last.completion_tokens) == (14, 9)
    assert (told.last.usage_source, told.last.status) == ("server", "ok")


# ── WireMock ───────────────────────────────────────────────────────────────────────────────────────

JSON = {"Content-Type": "application/json"}
EVENTS = {"Content-Type": "text/event-stream"}


def chunk(text: str | None, finish: str | None = None) -> str:
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c1', 'model': 'served', 'choices': [choice]})}\n\n"


USAGE = 'data: {"id": "c1", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 4}}\n\n'
WHOLE = "".join(chunk(word) for word in ("one ", "two ", "three ")) + chunk(None, "stop") + USAGE
DONE = "data: [DONE]\n\n"
IN_FIVE_SECONDS = "{{now offset='5 seconds' format='EEE, dd MMM yyyy HH:mm:ss zzz' timezone='GMT'}}"
PAGE = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


def dribble(chunks: int, milliseconds: int) -> dict[str, Any]:
    return {"chunkedDribbleDelay": {"numberOfChunks": chunks, "totalDuration": milliseconds}}


def reply(status: int, body: str, headers: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"status": status, "headers": headers, "body": body, **more}


SLOW_DOWN = json.dumps(error("slow down", "rate_limit_error"))
TEMPLATE = {"transformers": ["response-template"]}
WIREMOCK = (
    Row("reset", {"fault": "CONNECTION_RESET_BY_PEER"}, "net_reset", None),
    Row("empty", {"fault": "EMPTY_RESPONSE"}, "net_reset", None),
    Row("garbage", {"fault": "RANDOM_DATA_THEN_CLOSE"}, "bad_body", None, billed="unknown"),
    Row("malformed-chunk", {"fault": "MALFORMED_RESPONSE_CHUNK"}, "bad_body", (None, 200), billed="unknown"),
    Row("page", reply(502, PAGE, {"Content-Type": "text/html"}), "html_upstream", 502, billed="unknown"),
    Row(
        "app-page",
        reply(200, "<!doctype html><title>Panel</title>", {"Content-Type": "text/html"}),
        "html_wrong_path",
    ),
    Row(
        "seconds",
        reply(429, SLOW_DOWN, {**JSON, "Retry-After": "5"}),
        "rate_limit",
        429,
        wait=(5.0, 5.0),
        billed="no",
    ),
    Row(
        "date",
        reply(429, SLOW_DOWN, {**JSON, "Retry-After": IN_FIVE_SECONDS}, **TEMPLATE),
        "rate_limit",
        429,
        wait=(2.0, 5.0),
        billed="no",
    ),
    Row(
        "past-date",
        reply(429, SLOW_DOWN, {**JSON, "Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
        "rate_limit",
        429,
        wait=(0.0, 0.0),
        billed="no",
    ),
    Row("no-wait", reply(429, "", {}), "rate_limit", 429, billed="no"),
    Row("unavailable", reply(503, "", {**JSON, "Retry-After": "3"}), "overloaded", 503, wait=(3.0, 3.0)),
    Row(
        "gateway-timeout",
        reply(504, "upstream request timeout", {"Content-Type": "text/plain"}),
        "timeout_upstream",
        504,
    ),
    Row("empty-200", reply(200, "", JSON), "bad_body", billed="unknown"),
    Row("no-choices", reply(200, '{"choices": []}', JSON), "bad_body", billed="unknown"),
    Row("not-json", reply(200, "Hello", {"Content-Type": "text/plain"}), "bad_body", billed="unknown"),
    Row("silent", reply(200, WHOLE + DONE, EVENTS, fixedDelayMilliseconds=4000), "net_timeout_read", None),
    Row("dribble", reply(200, WHOLE + DONE, EVENTS, **dribble(40, 1600)), None, billed="yes"),
    Row("no-done", reply(200, WHOLE, EVENTS), "stream_truncated", billed="unknown"),
    Row("no-finish", reply(200, chunk("one ") + DONE, EVENTS), "stream_truncated", billed="unknown"),
    Row(
        "error-inside",
        reply(200, chunk("one ") + f"data: {SLOW_DOWN}\n\n", EVENTS),
        "rate_limit",
        billed="unknown",
    ),
)


@pytest.fixture(scope="module")
def wiremock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    jar, java, port = program("ELOMETER_WIREMOCK"), on_path("java"), free_port()
    folder = tmp_path_factory.mktemp("wiremock")
    (folder / "mappings").mkdir()
    mappings = [
        {
            "request": {
                "method": "POST",
                "urlPath": "/v1/chat/completions",
                "bodyPatterns": [{"matchesJsonPath": f"$[?(@.model == '{row.name}')]"}],
            },
            "response": row.server,
        }
        for row in WIREMOCK
    ]
    (folder / "mappings" / "faults.json").write_text(json.dumps({"mappings": mappings}))
    words = ["--port", str(port), "--bind-address", "127.0.0.1", "--root-dir", folder]
    command: list[str | Path] = [java, "-Xmx256m", "-jar", jar, *words]
    with running(command, port, ready="/__admin/mappings", folder=folder) as root:
        yield root


@of(WIREMOCK)
async def test_wiremock(wiremock: str, row: Row, protocol: str) -> None:
    call = call_of("Count to three.", model=row.name, protocol=protocol)
    check(row, await send(wiremock, call, key=KEY, retry=ONCE, read_s=READ_S))


async def test_a_dribbled_answer_is_whole(wiremock: str) -> None:
    told = await send(wiremock, call_of("Count to three.", model="dribble"), key=KEY)
    assert told.answer is not None and told.answer.text == "one two three "
    assert (told.last.prompt_tokens, told.last.completion_tokens) == (5, 4)


def test_every_row_names_a_class() -> None:
    assert {row.error_class for row in (*AIMOCK, *WIREMOCK)} - {None} <= set(ERROR_CLASSES)
