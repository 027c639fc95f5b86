"""Styled lines that repaint only where they changed.

A changed line is one refresh region: a terminal over a slow link gets that line and nothing else. Many small
regions in a line would send it again from its left edge for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

Piece = tuple[str, str]  # (text, style name); the empty style name is the widget's own
Line = tuple[Piece, ...]

# Style name: the theme's variable for its colour (empty: the widget's own), and whether it is bold.
STYLES: dict[str, tuple[str, bool]] = {
    "muted": ("row-muted", False),
    "heading": ("row-heading", True),
    "strong": ("", True),
    "warning": ("warning", True),
    "error": ("error", True),
    "success": ("success", False),
    "bar": ("bar-foreground", False),
}


def fit_cells(text: str, width: int, align: str = "left") -> str:
    """The text in exactly `width` cells; what does not fit ends in `…`."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    gap = " " * (width - length)
    return gap + text if align == "right" else text + gap


def wrapped(text: str, width: int) -> list[str]:
    """A text in as many lines as it takes; what follows stands deeper. Wide characters count their cells."""
    if cell_len(text) <= width:
        return [text]
    indent = " " * (len(text) - len(text.lstrip()))
    deeper = indent + "    " if len(indent) + 8 < width else ""
    lines, line = [], indent
    for word in text.split():
        while cell_len(deeper + word) > width:  # a path or URL longer than a line
            if line.strip():
                lines.append(line)
            head = _fitting(deeper + word, width)
            lines.append(head)
            word, line = word[len(head) - len(deeper) :], deeper
        longer = line + (" " if line.strip() else "") + word
        if cell_len(longer) > width:
            lines.append(line)
            longer = deeper + word
        line = longer
    return [*lines, line] if line.strip() else lines


def _fitting(text: str, width: int) -> str:
    """The longest beginning that fits in `width` cells."""
    cells = 0
    for at, letter in enumerate(text):
        cells += cell_len(letter)
        if cells > width:
            return text[:at]
    return text


def _changed_cells(before: Line, after: Line) -> int:
    """How many cells from the left have to be sent again: what follows the last difference stays."""
    old, new = _text(before), _text(after)
    if [style for _piece, style in before] != [style for _piece, style in after] or cell_len(old) != cell_len(
        new
    ):
        return max(cell_len(old), cell_len(new))
    same = 0
    while same < min(len(old), len(new)) and old[-1 - same] == new[-1 - same]:
        same += 1
    return cell_len(new[: len(new) - same])


def _text(line: Line) -> str:
    return "".join(text for text, _style in line)


class Lines(ScrollView, can_focus=False):
    """Lines of styled pieces, drawn by the line API; scrolls where there are more than fit."""

    DEFAULT_CSS = """
    Lines {
        height: auto; overflow-x: hidden; scrollbar-size-vertical: 1;
        background: $background; color: $foreground;
    }
    """

    def __init__(
        self, lines: Sequence[Line] = (), *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: list[Line] = list(lines)
        self._named: tuple[object, dict[str, Style]] = (None, {})
        self.virtual_size = Size(0, len(self._lines))

    @property
    def shown(self) -> list[Line]:
        """The lines as they are drawn."""
        return self._lines

    def text(self) -> str:
        """What can be read on it, without styles."""
        return "\n".join(map(_text, self._lines))

    def set_lines(self, lines: Sequence[Line]) -> None:
        """Show other lines; repaints those that differ, and lays out again only if their number changed."""
        old, new = self._lines, list(lines)
        self._lines = new
        if len(old) != len(new):
            self.virtual_size = Size(0, len(new))
            self.refresh(layout=True)
            return
        for y, (before, after) in enumerate(zip(old, new, strict=True)):
            if before != after:
                self.refresh_line(y, _changed_cells(before, after))

    def refresh_line(self, y: int, width: int | None = None) -> None:
        """Repaint one line, if it is on the screen; its first `width` cells where the rest stays blank."""
        top = y - self.scroll_offset.y
        if 0 <= top < self.size.height:
            self.refresh(Region(0, top, self.size.width if width is None else min(width, self.size.width), 1))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines)

    def line_at(self, y: int) -> Line:
        """The line at a place in the whole, an empty one outside."""
        return self._lines[y] if 0 <= y < len(self._lines) else ()

    def render_line(self, y: int) -> Strip:
        return self.strip(self.line_at(y + self.scroll_offset.y))

    def named_style(self, name: str, base: Style) -> Style:
        """A style of `STYLES` over the widget's own, from the theme's variables.

        Not by component classes: Textual styles each of them anew for each widget at each change of a class,
        which was a fifth of the time that a change of panes takes.
        """
        known = (self.app.theme, base)
        if self._named[0] != known:
            self._named = (known, {})
        styles = self._named[1]
        if name not in styles:
            variable, bold = STYLES[name]
            colour = Color.parse(self.app.theme_variables[variable]).rich_color if variable else None
            styles[name] = base + Style(color=colour, bold=bold or None)
        return styles[name]

    def strip(self, line: Line) -> Strip:
        """A line as cells, as wide as the widget."""
        width = self.scrollable_content_region.width
        base = self.rich_style
        segments = [
            Segment(text, self.named_style(style, base) if style else base) for text, style in line if text
        ]
        strip = Strip(segments)
        if strip.cell_length > width > 1:
            strip = Strip([*strip.crop(0, width - 1), Segment("…", base)])
        return strip.adjust_cell_length(width, base)
