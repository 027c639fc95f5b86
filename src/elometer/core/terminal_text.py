"""Text for a terminal: no character that steers it, and widths in cells rather than characters."""

from __future__ import annotations

from unicodedata import combining, east_asian_width

NO_BREAK_SPACE = "\u00a0"


def printable(text: str) -> str:
    """The text with `�` for each character that would move a cursor, change a colour or turn a line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == NO_BREAK_SPACE else "�" for char in text)


def cell_width(text: str) -> int:
    """Terminal cells that a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def to_left(text: str, width: int) -> str:
    """The text and blanks after it, `width` cells in all."""
    return text + " " * (width - cell_width(text))


def to_right(text: str, width: int) -> str:
    """The text and blanks before it, `width` cells in all."""
    return " " * (width - cell_width(text)) + text
