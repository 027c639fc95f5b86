"""How long a server asks us to wait, in all the forms in which servers say so.

Every form gives seconds from now; None means that the server said nothing usable. A past date is 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

Headers = Mapping[str, str]

EPOCH_SECONDS = 1e9  # a bare number from here on is a moment in seconds
EPOCH_MILLISECONDS = 1e12  # … and from here on in milliseconds

# A plain decimal: `inf`, `nan` and `1_000`, which float() takes, are no durations.
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+")
_GO_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|h|m|s|d)")
_UNIT_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_TRY_AGAIN = re.compile(
    r"(?:try again|retry|wait)\D{0,24}?(\d+(?:\.\d+)?)\s*"
    r"(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h)(?![a-z])"
    r"((?:\s*\d+(?:\.\d+)?\s*(?:ms|m|s)(?![a-z]))*)",
    re.IGNORECASE,
)
_WORD_SECONDS = {"ms": 1e-3, "mi": 60.0, "m": 60.0, "s": 1.0, "h": 3600.0}
_RETRY_DELAY = re.compile(r'"retryDelay"\s*:\s*"([^"]+)"')
_PREFIX = "llm_provider-"

# (remaining, reset): the reset that counts is that of a dimension with nothing left.
_RESET_DIMENSIONS = tuple(
    (f"{family}-{before}remaining{after}", f"{family}-{before}reset{after}")
    for family, forms in (
        ("x-ratelimit", (("", "-requests"), ("", "-tokens"), ("", ""))),
        ("ratelimit", (("", "-requests"), ("", "-tokens"), ("", ""))),
        (
            "anthropic-ratelimit",
            (
                ("requests-", ""),
                ("tokens-", ""),
                ("input-tokens-", ""),
                ("output-tokens-", ""),
                ("unified-5h-", ""),
                ("unified-7d-", ""),
                ("unified-", ""),
            ),
        ),
    )
    for before, after in forms
)


def number(text: str) -> float | None:
    """The whole text as a finite decimal that is not negative; None otherwise."""
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) else None


def go_duration(text: str) -> float | None:
    """Seconds of a duration as Go prints it: `17ms`, `1m30s`, `2m59.56s`, `23h47m36.648s`."""
    text = text.strip()
    parts = _GO_PART.findall(text)
    if not parts or "".join(value + unit for value, unit in parts) != text:
        return None
    return sum(float(value) * _UNIT_SECONDS[unit] for value, unit in parts)


def moment(text: str) -> datetime | None:
    """A moment from an HTTP date or an ISO date; one without an offset is UTC."""
    text = text.strip()
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            at = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError):
            return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def seconds_from(text: str, now: datetime) -> float | None:
    """Seconds from now of a number (seconds, or an epoch), a Go duration, an HTTP date or an ISO date."""
    value = number(text)
    if value is not None:
        if value >= EPOCH_MILLISECONDS:
            return max(0.0, value / 1000 - now.timestamp())
        if value >= EPOCH_SECONDS:
            return max(0.0, value - now.timestamp())
        return value
    duration = go_duration(text)
    if duration is not None:
        return duration
    at = moment(text)
    return None if at is None else max(0.0, (at - now).total_seconds())


def retry_after(
    headers: Headers, message: str, body: str, metadata: Mapping[str, Any], now: datetime
) -> float | None:
    """What the server asks for, in seconds from now.

    Order: retry-after-ms, retry-after, the same with LiteLLM's prefix, the reset header of an exhausted
    dimension (also inside `metadata.headers`, OpenRouter), words of the message, `retryDelay` of the body
    (Google). `headers` has lower-case names.
    """
    inner = metadata.get("headers")
    nested = (
        {str(name).lower(): str(value) for name, value in inner.items()} if isinstance(inner, Mapping) else {}
    )
    for source in (headers, nested):
        for prefix in ("", _PREFIX):
            wait = _from_headers(source, prefix, now)
            if wait is not None:
                return wait
    return _from_words(message, body, now)


def _from_headers(headers: Headers, prefix: str, now: datetime) -> float | None:
    milliseconds = number(headers.get(prefix + "retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    wait = seconds_from(headers.get(prefix + "retry-after", ""), now)
    if wait is not None:
        return wait
    waits = [
        reset
        for remaining_name, reset_name in _RESET_DIMENSIONS
        if number(headers.get(prefix + remaining_name, "")) == 0
        and (reset := seconds_from(headers.get(prefix + reset_name, ""), now)) is not None
    ]
    return max(waits) if waits else None


def _from_words(message: str, body: str, now: datetime) -> float | None:
    delay = _RETRY_DELAY.search(body)
    if delay:
        return seconds_from(delay[1], now)
    found = _TRY_AGAIN.search(message)
    if not found:
        return None
    first = float(found[1]) * _word_seconds(found[2])
    rest = go_duration("".join(found[3].split())) if found[3].strip() else 0.0
    wait = first + (rest or 0.0)
    return wait if math.isfinite(wait) else None


def _word_seconds(unit: str) -> float:
    unit = unit.lower()
    for start in ("ms", "mil"):
        if unit.startswith(start):
            return 1e-3
    return _WORD_SECONDS["mi" if unit.startswith("mi") else unit[0]]
