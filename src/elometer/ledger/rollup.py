"""The sums of a ledger beside it (`LEDGER.rollup`), so that a large one opens at once.

Never a source of truth: it may be deleted at any time, and one that does not fit the file is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import msgspec

from elometer.core.atomic import replace_file
from elometer.ledger.cells import Cell, Cells, Key, Line, add_lines
from elometer.ledger.reader import BadLine, Reading

ROLLUP_SCHEMA = 1
DIGESTED = 4096
# Below this many bytes reading the ledger takes less time than a person notices, so none is written.
WORTH_WRITING = 16 << 20


class _Rollup(msgspec.Struct):
    schema: int
    device: int
    inode: int
    offset: int
    digest: str
    number: int
    records: int
    bad: list[BadLine]
    cells: list[tuple[Key, Cell]]


class Sums(msgspec.Struct):
    """Cells of one ledger, how many records they hold, and the lines that were no record."""

    cells: Cells
    records: int
    bad: list[BadLine]


def rollup_file(ledger: Path) -> Path:
    """Where a ledger's sums are kept."""
    return ledger.with_name(ledger.name + ".rollup")


def sums(ledger: Path, *, keep: bool = True) -> Sums:
    """The cells of a ledger: from its rollup and the lines appended since, else from all its lines.

    With `keep` the rollup of a large ledger is written anew (left out silently where the folder is not
    writable). Raises UsageError where there is no ledger.
    """
    known = _valid(ledger)
    start = (known.offset, known.number) if known else (0, 1)
    reading = Reading(ledger, Line, *start)
    cells: Cells = dict(known.cells) if known else {}
    if known:
        reading.bad = known.bad
        reading.records = known.records
    for lines in reading.batches():
        add_lines(cells, lines)
    if keep and reading.offset - start[0] >= WORTH_WRITING:
        with contextlib.suppress(OSError):
            _write(ledger, reading, cells)
    return Sums(cells, reading.records, reading.bad)


def _valid(ledger: Path) -> _Rollup | None:
    try:
        rollup = msgspec.json.decode(rollup_file(ledger).read_bytes(), type=_Rollup)
        status = ledger.stat()
        same = (
            rollup.schema == ROLLUP_SCHEMA
            and (rollup.device, rollup.inode) == (status.st_dev, status.st_ino)
            and status.st_size >= rollup.offset
            and _digest(ledger, rollup.offset) == rollup.digest
        )
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return rollup if same else None


def _digest(ledger: Path, offset: int) -> str:
    start = max(offset - DIGESTED, 0)
    with ledger.open("rb", buffering=0) as file:
        return hashlib.sha256(os.pread(file.fileno(), offset - start, start)).hexdigest()


def _write(ledger: Path, reading: Reading[Line], cells: Cells) -> None:
    status = ledger.stat()
    rollup = _Rollup(
        schema=ROLLUP_SCHEMA,
        device=status.st_dev,
        inode=status.st_ino,
        offset=reading.offset,
        digest=_digest(ledger, reading.offset),
        number=reading.number,
        records=reading.records,
        bad=reading.bad,
        cells=list(cells.items()),
    )
    replace_file(rollup_file(ledger), msgspec.json.encode(rollup))
