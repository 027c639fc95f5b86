"""Times as the files write them: UTC, RFC 3339, with `Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The current moment, aware, in UTC."""
    return datetime.now(UTC)


def timestamp(moment: datetime | None = None) -> str:
    """`2026-11-29T19:30:00.123Z`: milliseconds, UTC, `Z`."""
    at = (moment or utc_now()).astimezone(UTC)
    return at.isoformat(timespec="milliseconds")[:-6] + "Z"


def stamp(moment: datetime | None = None) -> str:
    """A stamp for names of folders and starts: `20261129T193000Z`."""
    return (moment or utc_now()).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def parse_timestamp(text: str) -> datetime:
    """The moment that a timestamp names, aware; one without an offset is taken as UTC.

    Raises ValueError where the text is no ISO 8601 time.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
