"""Lines of pair records, JSONL or CSV, as rows; a line that does not fit is named."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from elometer.core.text import ngettext
from elometer.rating.marks import MARKS, as_number

FIRST_BYTES = 256  # enough to see what kind of lines follow; the wrong guess costs time only


class LineFault(Exception):
    """A line that is no pair record: its number, from 1, and the reason."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(number, reason)
        self.number = number
        self.reason = reason


class Line(msgspec.Struct, gc=False):
    """What a fit reads of a record; everything else on the line is left alone.

    The fields from `run_a` on tell of which runs the answers are, what they share, or how redraws from a pool
    went. Decoding what most lines lack costs less than looking for it in the bytes.
    """

    experiment_id: str | None = None
    task: str | None = None
    run: int = 1
    winner: str | None = None
    loser: str | None = None
    a: str | None = None
    b: str | None = None
    outcome: str | None = None
    weight: float = 1.0
    block: int | None = None
    # Of any kind, since strangers' fields may be called so.
    run_a: Any = None
    run_b: Any = None
    shared: Any = None
    share_a: Any = None
    share_b: Any = None
    score_a: Any = None
    score_b: Any = None


_decode_objects = msgspec.json.Decoder(Line).decode_lines
_decode_arrays = msgspec.json.Decoder(tuple[str, str]).decode_lines
_decode_object = msgspec.json.Decoder(Line).decode
_decode_array = msgspec.json.Decoder(tuple[str, str]).decode


def jsonl_rows(data: bytes, first_line: int) -> list[Any]:
    """The rows of whole lines, the first of which has the number `first_line` + 1. Raises LineFault."""
    try:
        if data[:FIRST_BYTES].lstrip()[:1] == b"[":
            return _pairs_as_lines(_decode_arrays(data))
        return _decode_objects(data)
    except msgspec.MsgspecError:
        return _one_by_one(data, first_line)


def _one_by_one(data: bytes, first_line: int) -> list[Any]:
    rows: list[Any] = []
    for number, text in enumerate(data.split(b"\n"), first_line + 1):
        text = text.strip()
        if not text:
            continue
        try:
            if text[:1] == b"[":
                rows.extend(_pairs_as_lines([_decode_array(text)]))
            else:
                rows.append(_decode_object(text))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise LineFault(number, str(error)) from None
    return rows


def csv_rows(text: str) -> tuple[list[Line], list[int]]:
    """The rows of a CSV of (winner, loser), or of one whose header names fields, and the line of each.

    Raises LineFault.
    """
    table = csv.reader(io.StringIO(text, newline=""))
    numbered = [(table.line_num, row) for row in table if any(cell.strip() for cell in row)]
    header = [cell.strip().lower() for cell in numbered[0][1]] if numbered else []
    named = {"winner", "loser"} <= set(header) or {"a", "b", "outcome"} <= set(header)
    body = numbered[named:]
    rows = [_csv_line(row, number, header if named else None) for number, row in body]
    return rows, [number for number, _row in body]


def _csv_line(row: Sequence[str], number: int, header: Sequence[str] | None) -> Line:
    expected = len(header) if header else 2
    if len(row) != expected:
        raise LineFault(
            number,
            ngettext(
                "{found} column where {expected} are expected",
                "{found} columns where {expected} are expected",
                len(row),
            ).format(found=len(row), expected=expected),
        )
    if header is None:
        return Line(winner=row[0].strip(), loser=row[1].strip())
    fields: dict[str, Any] = {
        name: as_number(cell) if name in MARKS else cell.strip()
        for name, cell in zip(header, row, strict=True)
        if cell.strip()
    }
    try:
        return msgspec.convert(fields, Line, strict=False)
    except msgspec.ValidationError as error:
        raise LineFault(number, str(error)) from None


def _pairs_as_lines(pairs: Iterable[tuple[str, str]]) -> list[Line]:
    return [Line(winner=winner, loser=loser) for winner, loser in pairs]


def line_of_row(data: bytes, index: int) -> int:
    """The number, from 1, of the line that holds the row `index` (from 0); blank lines hold none."""
    held = -1
    for number, text in enumerate(data.split(b"\n"), 1):
        held += bool(text.strip())
        if held == index:
            return number
    return index + 1
