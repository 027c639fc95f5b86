"""Times as the files write them: UTC, RFC 3339, with `Z`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache


def utc_now() -> datetime:
    """The current moment, aware, in UTC."""
    return datetime.now(UTC)


def timestamp(moment: datetime | None = None) -> str:
    """`2026-11-29T19:30:00.123Z`: milliseconds, UTC, `Z`."""
    if moment is None:
        seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
        return f"{_to_the_second(seconds)}.{milliseconds:03d}Z"
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


@lru_cache(maxsize=1)
def _to_the_second(seconds: int) -> str:
    """A start writes many times in the same second, and the rest of a time does not change within it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


def stamp(moment: datetime | None = None) -> str:
    """A stamp for names of folders and starts: `20261129T193000Z`."""
    return (moment or utc_now()).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def parse_timestamp(text: str) -> datetime:
    """The moment that a timestamp names, aware; one without an offset is taken as UTC.

    Raises ValueError where the text is no ISO 8601 time.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
