"""Tokens and Elo in, the founding columns out: differences to the row before, and Elo per 1k tokens."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from elometer.core.errors import UsageError
from elometer.core.terminal_text import cell_width, printable, to_left
from elometer.core.text import gettext as _

REQUIRED = ("strategy", "total_tokens", "elo")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One strategy; differences are to the row before, None in the first and where tokens do not grow."""

    strategy: str
    total_tokens: float
    elo: float
    delta_elo: float | None
    delta_token: float | None
    marginal_elo_per_1k: float | None


def table_from_csv(path: Path | str) -> list[TableRow]:
    """Read a CSV with the columns strategy, total_tokens and elo (others are left alone), in its order.

    Raises UsageError where the file, a column or a number is missing; the line is named.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else _("It is no UTF-8 text.")
        raise UsageError(
            _("{path}: cannot be read.").format(path=path),
            evidence=reason or "",
            fix=_("Give a CSV with the columns strategy, total_tokens, elo."),
        ) from None
    reader = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    missing = [name for name in REQUIRED if name not in (reader.fieldnames or [])]
    if missing:
        raise UsageError(
            _("{path}: no column {names}.").format(path=path, names=", ".join(missing)),
            evidence=_("Its header is {header}.").format(
                header=",".join(reader.fieldnames or []) or _("empty")
            ),
            fix=_("Name the columns strategy, total_tokens, elo."),
        )
    # A ceiling's row in elo_result.csv has no Elo: it stands outside the fit.
    rows = (row for row in reader if any(row.values()) and row.get("role") != "ceiling")
    points = [_point(path, reader.line_num, row) for row in rows]
    if not points:
        raise UsageError(
            _("{path}: no row under the header.").format(path=path), fix=_("Give one row per strategy.")
        )
    before = [None, *points]
    return [_row(earlier, point) for earlier, point in zip(before, points, strict=False)]


def _point(path: Path, line: int, row: dict[str | Any, str | Any]) -> tuple[str, float, float]:
    def refuse(reason: str) -> NoReturn:
        raise UsageError(
            _("{path}, line {n}: not a row of the table.").format(path=path, n=line),
            evidence=reason,
            fix=_("Give a strategy, its total tokens and its Elo."),
        )

    name = (row["strategy"] or "").strip()
    if not name:
        refuse(_("The strategy has no name."))
    values = []
    for column in ("total_tokens", "elo"):
        try:
            value = float((row[column] or "").strip())
        except ValueError:
            refuse(_("{column} is {value!r}, no number.").format(column=column, value=row[column]))
        if not math.isfinite(value) or (column == "total_tokens" and value < 0):
            refuse(_("{column} is {value!r}, no usable number.").format(column=column, value=row[column]))
        values.append(value)
    return name, values[0], values[1]


def _row(before: tuple[str, float, float] | None, point: tuple[str, float, float]) -> TableRow:
    name, tokens, elo = point
    if before is None:
        return TableRow(name, tokens, elo, None, None, None)
    delta_elo, delta_token = elo - before[2], tokens - before[1]
    marginal = 1000.0 * delta_elo / delta_token if delta_token > 0 else None
    return TableRow(name, tokens, elo, delta_elo, delta_token, marginal)


def table_json(rows: list[TableRow]) -> list[dict[str, Any]]:
    """The rows as scripts read them."""
    return [asdict(row) for row in rows]


def table_csv(rows: list[TableRow]) -> str:
    """The founding columns as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(TableRow.__slots__)
    for row in rows:
        writer.writerow(["" if value is None else _plain(value) for value in asdict(row).values()])
    return text.getvalue()


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def table_text(rows: list[TableRow]) -> str:
    """The founding columns as text: Elo per 1k tokens with two decimals."""
    cells = [["strategy", "total_tokens", "elo", "delta_elo", "delta_token", "marginal_elo_per_1k"]]
    for row in rows:
        cells.append(
            [
                printable(row.strategy),
                f"{row.total_tokens:,.0f}",
                f"{row.elo:.1f}",
                "-" if row.delta_elo is None else f"{row.delta_elo:.1f}",
                "-" if row.delta_token is None else f"{row.delta_token:,.0f}",
                "-" if row.marginal_elo_per_1k is None else f"{row.marginal_elo_per_1k:.2f}",
            ]
        )
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    lines = []
    for line in cells:
        numbers = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        lines.append("  ".join([to_left(line[0], widths[0]), *numbers]).rstrip())
    return "\n".join(lines) + "\n"
