"""One body a row, drawn from what vendors document and servers were observed to send; ids and names are invented."""

from __future__ import annotations

import json
import socket
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elometer.core.redact import Secret
from elometer.wire.classes import ERROR_CLASSES
from elometer.wire.failures import (
    RETRYABLE,
    classify,
)
from elometer.wire.rules import RULES

FIXTURE = Path(__file__).parent.parent / "fixtures" / "wire" / "failures.jsonl"
NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


def openai(message: str, kind: object = None, code: object = None, **more: object) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **more}}


GOOGLE_DELAY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}

# One reply a line: whose it is, its class, status, headers, and body (an object, or text as it is).
CASES = [json.loads(line) for line in FIXTURE.read_text(encoding="utf-8").splitlines()]


def encoded(body: object) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['from'][:12]}-{case['status']}-{case['class']}"
)
def test_classes(case: dict[str, Any]) -> None:
    failure = classify(case["status"], case["headers"], encoded(case["body"]), now=NOW)
    assert failure.error_class == case["class"], failure.evidence
    assert failure.retry is (ERROR_CLASSES[case["class"]].retry != "never")
    assert failure.evidence


def test_every_rule_names_a_class() -> None:
    assert {rule.error_class for rule in RULES} <= set(ERROR_CLASSES)
    assert set(RETRYABLE) < set(ERROR_CLASSES)
    # What a retry cannot help is never retried.
    for never in (
        "quota",
        "bad_key",
        "model_unknown",
        "model_not_allowed",
        "key_expired",
        "context_too_long",
        "bad_request",
    ):
        assert never not in RETRYABLE


def test_quota_beats_rate_limit() -> None:
    # Row 12 of cases/accounting.md.
    failure = classify(429, {}, encoded(openai("x", "insufficient_quota", "credit_balance_exhausted")))
    assert (failure.error_class, failure.code, failure.retry) == ("quota", "credit_balance_exhausted", False)


def test_an_unknown_model_behind_503_names_its_group() -> None:
    # Row 13.
    body = openai(
        "No available channel for model m under group g (distributor)", "new_api_error", "model_not_found"
    )
    failure = classify(503, {}, encoded(body))
    assert (failure.error_class, failure.retry) == ("model_unknown", False)
    assert "group g" in failure.message


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "20"}, "", 20.0),
        ({"Retry-After": "1.5"}, "", 1.5),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=120), usegmt=True)}, "", 120.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=120), usegmt=True)}, "", 0.0),
        ({"retry-after": "2026-11-29T12:00:30Z"}, "", 30.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, "", 1.5),
        ({"llm_provider-retry-after": "2"}, "", 2.0),
        ({"retry-after": str(int(NOW.timestamp()) + 40)}, "", 40.0),
        ({"retry-after": str((int(NOW.timestamp()) + 40) * 1000)}, "", 40.0),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": "inf"}, "", None),
        ({"retry-after": "-3"}, "", None),
        ({"retry-after": ""}, "", None),
        ({"retry-after": "1_000"}, "", None),
        (
            {
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-requests": "9",
                "x-ratelimit-reset-requests": "1s",
            },
            "",
            360.0,
        ),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "17ms"}, "", 0.017),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2m59.56s"}, "", 179.56),
        (
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "23h47m36.648s"},
            "",
            85656.648,
        ),
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-29T12:00:09Z",
            },
            "",
            9.0,
        ),
        (
            {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str((int(NOW.timestamp()) + 7) * 1000)},
            "",
            7.0,
        ),
        ({}, openai("Please try again in 4.77s."), 4.77),
        ({}, openai("Please try again in 20ms."), 0.02),
        ({}, openai("Please try again in 1m30.5s."), 90.5),
        ({}, openai("Please retry after 21 seconds."), 21.0),
        ({}, openai("Please retry after 2 minutes."), 120.0),
        ({}, [{"error": {"code": 429, "message": "x", "details": [GOOGLE_DELAY]}}], 37.0),
        (
            {},
            {
                "error": {
                    "code": 429,
                    "message": "x",
                    "metadata": {
                        "headers": {
                            "X-RateLimit-Remaining": "0",
                            "X-RateLimit-Reset": str(int(NOW.timestamp()) + 5),
                        }
                    },
                }
            },
            5.0,
        ),
        ({}, openai("Slow down"), None),
    ],
)
def test_retry_after(headers: dict[str, str], body: object, seconds: float | None) -> None:
    # Row 15 is the third and fourth of these.
    found = classify(429, headers, encoded(body), now=NOW).retry_after_s
    assert found == (None if seconds is None else pytest.approx(seconds, abs=1e-3))


def test_the_server_may_forbid_a_retry() -> None:
    failure = classify(500, {"x-should-retry": "false"}, b"")
    assert (failure.error_class, failure.retry, failure.wait) == ("server_error", False, "none")


def test_in_band_errors_take_their_inner_class() -> None:
    # Observed under HTTP 200: LiteLLM 1.108.5 over chat and over messages.
    litellm = {"message": "litellm.APIConnectionError: x", "type": None, "param": None, "code": "500"}
    assert classify(200, {}, b"", error=litellm).error_class == "server_error"
    assert (
        classify(200, {}, b"", error={"type": "overloaded_error", "message": "Overloaded"}).error_class
        == "overloaded"
    )
    assert classify(200, {}, b"", error={"type": "api_error", "message": "x"}).error_class == "stream_error"
    assert classify(200, {}, b"", error="boom").error_class == "stream_error"


def dns(number: int) -> Exception:
    error = ConnectionError("x")
    error.__cause__ = socket.gaierror(number, "x")
    return error


class ServerDisconnectedError(Exception):
    """Named like aiohttp's."""


class ConnectTimeout(Exception):
    """Named like httpx's, as which httpx-aiohttp shows a disconnection."""


def disconnected() -> Exception:
    error = ConnectTimeout("Server disconnected")
    error.__cause__ = ServerDisconnectedError("Server disconnected")
    return error


@pytest.mark.parametrize(
    ("error", "error_class", "retry"),
    [
        (ConnectionRefusedError(), "net_refused", True),
        (dns(socket.EAI_NONAME), "net_dns", False),
        (dns(socket.EAI_AGAIN), "net_dns", True),
        (ssl.SSLCertVerificationError("x"), "net_tls_verify", False),
        (ssl.SSLError("WRONG_VERSION_NUMBER"), "net_tls_protocol", False),
        (TimeoutError(), "net_timeout_read", True),
        (ConnectionResetError(), "net_reset", True),
        (disconnected(), "net_reset", True),
        (ConnectTimeout("x"), "net_timeout_connect", True),
        (RuntimeError("x"), "unknown", False),
    ],
)
def test_exceptions(error: Exception, error_class: str, retry: bool) -> None:
    failure = classify(None, {}, b"", error)
    assert (failure.error_class, failure.retry) == (error_class, retry)


def test_a_key_in_a_message_is_masked_before_it_is_cut() -> None:
    key = Secret("sk-planted-0123456789")
    body = openai("x" * 285 + f" key {key.reveal()} refused", "x", key.reveal())
    failure = classify(401, {}, encoded(body))
    assert key.reveal()[:10] not in repr(failure)
    assert len(failure.message) <= 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "message",
                    "code",
                    "type",
                    "detail",
                    "details",
                    "metadata",
                    "param",
                    "headers",
                    "raw",
                    "quotaId",
                    "violations",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.integers(100, 599), JSON, st.binary(max_size=40), st.booleans())
def test_no_body_raises(status: int, document: object, noise: bytes, as_json: bool) -> None:
    body = json.dumps(document).encode() if as_json else noise
    failure = classify(status, {"retry-after": noise.decode("latin-1")}, body, now=NOW)
    assert failure.error_class in ERROR_CLASSES
    assert failure.retry_after_s is None or failure.retry_after_s >= 0
