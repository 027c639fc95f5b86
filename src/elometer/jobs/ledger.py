"""What both faces do with ledgers: show their end, verify, add lines from elsewhere, export."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from elometer.core.atomic import make_private_folder
from elometer.core.attempt import Attempt
from elometer.core.errors import UsageError
from elometer.core.natural import natural_key
from elometer.core.paths import workspace
from elometer.core.text import gettext as _
from elometer.jobs.places import LEDGER, ledgers
from elometer.ledger.expand import uses
from elometer.ledger.reader import BadLine, Reading, blocks, glued_records, last_lines
from elometer.ledger.verify import Damage, field_faults, identity, sum_fault, verify
from elometer.ledger.writer import JsonlWriter

NAME = re.compile(r"[a-z0-9_-][a-z0-9_.-]{0,99}")

Record = dict[str, Any]


def chosen(identities: Sequence[str]) -> list[Path]:
    """The ledgers that the names on a command line stand for, each once; all where none is named."""
    found = [path for name in identities for path in ledgers(name)] if identities else ledgers()
    if not found:
        raise UsageError(
            _("There is no ledger in the workspace yet."),
            evidence=_("Looked in {folder}.").format(folder=workspace()),
            fix=_("'elometer demo' makes one without a key; 'elometer ledger add' takes yours."),
        )
    return list(dict.fromkeys(path.resolve() for path in found))


def tail(paths: Sequence[Path], count: int) -> list[bytes]:
    """The last whole lines of the ledgers, merged by timestamp where there are several."""
    lines = [line for path in paths for line in last_lines(path, count)]
    if len(paths) > 1:
        lines.sort(key=lambda line: str((as_record(line) or {}).get("timestamp", "")))
    return lines[-count:] if count > 0 else []


def as_record(line: bytes) -> Record | None:
    """A line as a JSON object; None where it is none."""
    try:
        return msgspec.json.decode(line, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def damage(paths: Sequence[Path]) -> Iterator[Damage]:
    """Every finding in the ledgers."""
    for path in paths:
        yield from verify(path)


@dataclass(frozen=True, slots=True)
class Added:
    """How many lines went into which ledger, and how many were already there."""

    lines: dict[Path, int]
    known: int


def add(source: Iterable[bytes], *, to: Path | None = None) -> Added:
    """Append foreign lines to the ledgers of their experiments, or all to one.

    All lines are validated before any is written: nine founding fields with their types, sums that hold. A
    line with the call_id and attempt (or import key) of one that is there already is not added again. Raises
    UsageError naming the first line that does not fit, or where copies of a call that is not there would be
    added.
    """
    batches: dict[Path, list[tuple[Record, bytes]]] = {}
    for number, line in enumerate(source, 1):
        if line.strip():
            record = _checked(line, number)
            folder = workspace() / str(record["experiment_id"])
            batches.setdefault(to or folder / LEDGER, []).append((record, line.strip()))
    if not batches:
        raise UsageError(
            _("There was no line to add."),
            evidence=_("The input is empty."),
            fix=_("Give JSON Lines, one attempt a line."),
        )
    written, known = {}, 0
    identities = {path: _identities(path) for path in batches}
    for path, batch in batches.items():
        _refuse_copies(batch, identities[path])
    for path, batch in batches.items():
        there = identities[path]
        make_private_folder(path.parent)
        written[path] = 0
        with JsonlWriter(path) as writer:
            for record, line in batch:
                who = repr(identity(record))
                if who != "None" and who in there:
                    known += 1
                    continue
                there.add(who)
                writer.append(line)
                written[path] += 1
    return Added(written, known)


def _refuse_copies(batch: Iterable[tuple[Record, bytes]], there: Collection[str]) -> None:
    """Of a call's copies for the strategies that use it one alone would be kept, under the wrong strategy."""
    for record, _line in batch:
        if record.get("spent") is False and repr(identity(record)) not in there:
            raise UsageError(
                _("These lines are copies of shared calls; nothing was added."),
                evidence=_("{call} is a copy for {strategy}, as 'ledger export --expand' makes it.").format(
                    call=record.get("call_id"), strategy=record.get("strategy")
                ),
                fix=_("Add the ledger itself, or what 'ledger export' gives without --expand."),
            )


def _checked(line: bytes, number: int) -> Record:
    record = as_record(line)
    faults = [_("not a JSON object")] if record is None else [*field_faults(record), sum_fault(record)]
    if record is not None and not NAME.fullmatch(str(record.get("experiment_id"))):
        faults.append(_("experiment_id may hold a-z, 0-9, _ . - only"))
    faults = [fault for fault in faults if fault]
    if record is None or faults:
        raise UsageError(
            _("Line {n} is not a ledger line; nothing was added.").format(n=number),
            evidence="; ".join(faults),
            fix=_(
                "A line needs experiment_id, strategy, task, run, model, the three token counts, timestamp."
            ),
        )
    return record


def _identities(path: Path) -> set[str]:
    if not path.exists():
        return set()
    return {repr(identity(record)) for record in Reading(path, Record)}


Format = Literal["jsonl", "csv"]


def export(
    paths: Sequence[Path], form: Format, bad: list[BadLine], *, expand: bool = False
) -> Iterator[bytes]:
    """The records of the ledgers as JSON Lines (each as it was written) or CSV, in pieces.

    With `expand` a call that several strategies rest on is a line for each of them (`ledger.expand.uses`).

    Unknown fields are kept. Damaged lines are left out and added to `bad`; whole records inside them are
    kept.
    """
    if form == "csv":
        return _csv(paths, bad, expand)
    return _expanded(paths, bad) if expand else _jsonl(paths, bad)


def _jsonl(paths: Sequence[Path], bad: list[BadLine]) -> Iterator[bytes]:
    for path in paths:
        for block in blocks(path):
            offset, kept = block.offset, []
            for number, line in enumerate(block.lines, block.number):
                if as_record(line) is not None:
                    kept.append(line)
                elif not line.isspace():
                    saved = list(glued_records(line.replace(b"\0", b"").decode("utf-8", "replace")))
                    kept.extend(record.encode() + b"\n" for record in saved)
                    bad.append(BadLine(offset, number, len(line), _("not one JSON object"), len(saved)))
                offset += len(line)
            yield b"".join(kept)


def _expanded(paths: Sequence[Path], bad: list[BadLine]) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode
    for path in paths:
        reading = Reading(path, Record)
        for batch in reading.batches():
            yield b"".join(encode(use) + b"\n" for record in batch for use in uses(record))
        bad.extend(reading.bad)


def _csv(paths: Sequence[Path], bad: list[BadLine], expand: bool) -> Iterator[bytes]:
    columns = list(Attempt.__struct_fields__)
    if expand:
        columns.append("spent")
    foreign: set[str] = set()
    for path in paths:
        for record in Reading(path, Record):
            foreign.update(record.keys() - columns)
    columns += sorted(foreign, key=natural_key)
    buffer = io.StringIO(newline="")
    table = csv.DictWriter(buffer, columns, lineterminator="\n")
    table.writeheader()
    for path in paths:
        reading = Reading(path, Record)
        for batch in reading.batches():
            table.writerows(
                {name: _cell(value) for name, value in use.items()}
                for record in batch
                for use in (uses(record) if expand else (record,))
            )
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
        bad.extend(reading.bad)


def _cell(value: Any) -> Any:
    """A value as a CSV cell: empty for null, JSON for what is neither text nor number."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
