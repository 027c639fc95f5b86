"""Plain columns for standard output."""

from __future__ import annotations

from collections.abc import Sequence

import click

from elometer.core.terminal_text import cell_width, printable, to_left, to_right


def shown(value: object) -> str:
    """A value as a cell: `–` for unknown, thousands separated, and no character that steers a terminal."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return printable(str(value))


def print_columns(headers: Sequence[str], rows: Sequence[Sequence[object]], *, left: int = 1) -> None:
    """Print a table; the first `left` columns are aligned to the left, the others to the right."""
    table = [list(headers), *([shown(value) for value in row] for row in rows)]
    widths = [max(cell_width(row[column]) for row in table) for column in range(len(headers))]
    for row in table:
        cells = [
            (to_left if column < left else to_right)(text, widths[column]) for column, text in enumerate(row)
        ]
        click.echo("  ".join(cells).rstrip())
