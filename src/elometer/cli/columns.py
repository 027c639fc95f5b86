"""Plain columns for standard output."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import combining, east_asian_width

import click


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
    return "".join(char if char.isprintable() else "�" for char in str(value))


def width(text: str) -> int:
    """Terminal cells that a text takes."""
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def print_columns(headers: Sequence[str], rows: Sequence[Sequence[object]], *, left: int = 1) -> None:
    """Print a table; the first `left` columns are aligned to the left, the others to the right."""
    table = [list(headers), *([shown(value) for value in row] for row in rows)]
    widths = [max(width(row[column]) for row in table) for column in range(len(headers))]
    for row in table:
        cells = []
        for column, text in enumerate(row):
            padding = " " * (widths[column] - width(text))
            cells.append(text + padding if column < left else padding + text)
        click.echo("  ".join(cells).rstrip())
