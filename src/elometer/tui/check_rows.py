"""The Checks pane as text: rows by family with a sign and a word, evidence of the chosen one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from elometer.core.text import gettext as _
from elometer.tui.widgets.lines import Line
from elometer.tui.widgets.rows import Column, Row

COLUMNS = (
    Column("status", "", 9, "left"),
    Column("question", _("question"), 30, "left", grow=200),
    Column("tokens", _("tokens"), 6, drop=1),
)
STATUS = {
    "pass": ("✓", _("pass"), "success"),
    "warn": ("!", _("warn"), "warning"),
    "fail": ("✗", _("fail"), "error"),
    "unknown": ("?", _("unknown"), "muted"),
}


def check_rows(found: Sequence[Any]) -> list[Row]:
    """Rows under a heading for each family, in the order in which the families come."""
    rows: list[Row] = []
    for family in dict.fromkeys(row.check.family for row in found):
        rows.append(Row(f"family:{family}", heading=family))
        for row in found:
            if row.check.family == family:
                rows.append(_row(row))
    return rows


def _row(row: Any) -> Row:
    sign, word, style = STATUS[row.status]
    cells = {
        "status": f"{sign} {word}",
        "question": _(row.check.question),
        "tokens": str(row.result.tokens) if row.result.tokens else "",
    }
    return Row(row.check.id, cells, styles={"status": style})


def detail_lines(row: Any | None) -> list[tuple[str, str]]:
    """Evidence, cause and fix of a row as (text, style), unwrapped."""
    if row is None:
        return []
    lines = [(row.check.id, "heading"), (_(row.check.question), ""), ("", "")]
    lines += [(line, "") for line in row.result.evidence] or [(_("no evidence needed"), "muted")]
    if row.result.cause:
        lines += [("", ""), (_("cause"), "muted"), (row.result.cause, "warning")]
    if row.result.fix:
        lines += [("", ""), (_("fix (y copies it)"), "muted"), (row.result.fix, "strong")]
    return lines


def summary_line(found: Sequence[Any]) -> Line:
    """`12 pass  1 warn  2 fail`, the worst first."""
    counted = Counter(row.status for row in found)
    pieces: list[tuple[str, str]] = []
    for status in ("fail", "warn", "unknown", "pass"):
        if counted[status]:
            sign, word, style = STATUS[status]
            pieces.append((f"{sign} {counted[status]} {word}  ", style))
    return tuple(pieces)
