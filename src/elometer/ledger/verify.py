"""What is wrong with the lines of a ledger: torn, short of a field, wrong in their sum, or there twice."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from elometer.core.clock import parse_timestamp
from elometer.core.text import gettext as _
from elometer.ledger.reader import FOUNDING_FIELDS, blocks, glued_records

Kind = Literal["torn", "glued", "fields", "sum", "duplicate"]
TOKEN_FIELDS = ("prompt_tokens", "completion_tokens", "total_tokens")


@dataclass(frozen=True, slots=True)
class Damage:
    """One finding: which line (from 1), where it starts in bytes, what is wrong with it."""

    path: Path
    line: int
    offset: int
    kind: Kind
    message: str


def verify(path: Path) -> Iterator[Damage]:
    """Every finding of a ledger, in file order. Raises UsageError where there is none."""
    seen: dict[tuple[str, Any], int] = {}
    end, number = 0, 0
    for block in blocks(path):
        offset = block.offset
        for number, line in enumerate(block.lines, block.number):
            for kind, message in _faults(line, number, seen):
                yield Damage(path, number, offset, kind, message)
            offset += len(line)
        end = offset
    yield from _tail(path, end, number + 1)


def _faults(line: bytes, number: int, seen: dict[tuple[str, Any], int]) -> Iterator[tuple[Kind, str]]:
    if line.isspace():
        return
    try:
        record = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        saved = list(glued_records(line.decode("utf-8", "replace")))
        if len(saved) > 1:
            yield "glued", _("{n} records on one line").format(n=len(saved))
        else:
            yield "torn", _("not one JSON object: {reason}").format(reason=error)
        return
    yield from (("fields", fault) for fault in field_faults(record))
    if fault := sum_fault(record):
        yield "sum", fault
    yield from (("duplicate", fault) for fault in _repeats(record, number, seen))


def field_faults(record: Mapping[str, Any]) -> Iterator[str]:
    """What the nine founding fields lack: presence and type."""
    missing = [name for name in FOUNDING_FIELDS if name not in record]
    if missing:
        yield _("missing: {names}").format(names=", ".join(missing))
    for name in ("experiment_id", "task", "model"):
        if name in record and not (isinstance(record[name], str) and record[name]):
            yield _("{name} is not a name: {value!r}").format(name=name, value=record[name])
    strategy = record.get("strategy")
    if strategy is not None and not (isinstance(strategy, str) and strategy):
        yield _("strategy is neither a name nor null: {value!r}").format(value=strategy)
    if "run" in record and not _is_count(record["run"]):
        yield _("run is not a whole number: {value!r}").format(value=record["run"])
    for name in TOKEN_FIELDS:
        if record.get(name) is not None and not _is_count(record[name]):
            yield _("{name} is neither a count nor null: {value!r}").format(name=name, value=record[name])
    if "timestamp" in record and not _is_moment(record["timestamp"]):
        yield _("timestamp is not ISO 8601: {value!r}").format(value=record["timestamp"])


def sum_fault(record: Mapping[str, Any]) -> str:
    """Why `total_tokens` is not prompt plus completion; empty where it is, or where one is unknown."""
    prompt, completion, total = (record.get(name) for name in TOKEN_FIELDS)
    if prompt is None or completion is None or not (_is_count(prompt) and _is_count(completion)):
        return ""
    if total == prompt + completion:
        return ""
    return _("total_tokens is {total}, prompt + completion is {sum}").format(
        total="null" if total is None else total, sum=prompt + completion
    )


def identity(record: Mapping[str, Any]) -> tuple[str, Any] | None:
    """What makes a line the same attempt as another one: its import key, else call and attempt number."""
    if record.get("import_key"):
        return ("import_key", record["import_key"])
    if record.get("call_id"):
        return ("call_id", (record["call_id"], record.get("attempt")))
    return None


def _repeats(record: Mapping[str, Any], number: int, seen: dict[tuple[str, Any], int]) -> Iterator[str]:
    known = identity(record)
    if known is not None:
        first = seen.setdefault(_hashable(known), number)
        if first != number:
            yield _("the same attempt as line {line}").format(line=first)
            return
    if record.get("final") and record.get("call_id"):
        first = seen.setdefault(_hashable(("final", record["call_id"])), number)
        if first != number:
            yield _("a second final line of the call answered on line {line}").format(line=first)


def _hashable(known: tuple[str, Any]) -> tuple[str, Any]:
    return known[0], known[1] if isinstance(known[1], str) else repr(known[1])


def _tail(path: Path, end: int, line: int) -> Iterator[Damage]:
    size = path.stat().st_size
    if size > end and not being_written(path):
        yield Damage(path, line, end, "torn", _("{n} bytes without a line's end").format(n=size - end))


def being_written(path: Path) -> bool:
    """True while a writer holds the file: what it has not finished is no damage."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_moment(value: Any) -> bool:
    try:
        parse_timestamp(value)
    except (TypeError, ValueError):
        return False
    return True
