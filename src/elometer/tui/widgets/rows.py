"""A table of small size: columns as data, one repainted region per changed row, columns that drop away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from elometer.core.text import gettext as _
from elometer.tui.widgets.lines import Line, Lines, Piece, fit_cells


@dataclass(frozen=True, slots=True)
class Column:
    """`drop` orders what goes first when the screen is narrow: the highest first, 0 never.

    `grow` is how many of the cells that are left over a column may take.
    """

    key: str
    title: str
    width: int
    align: Literal["left", "right"] = "right"
    drop: int = 0
    grow: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """Texts by column key. `style` is that of the whole row, `styles` those of single cells.

    A row with a `heading` is a line of text between rows, and the cursor passes over it.
    """

    key: str
    cells: Mapping[str, str] = field(default_factory=dict)
    style: str = ""
    styles: Mapping[str, str] = field(default_factory=dict)
    heading: str = ""


def lay_out(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """The columns that fit in `width` cells with one cell between them, and the width of each."""
    shown = list(columns)
    while shown and sum(column.width + 1 for column in shown) - 1 > width:
        droppable = [column for column in shown if column.drop]
        if not droppable:
            break
        shown.remove(max(droppable, key=lambda column: column.drop))
    left = width - (sum(column.width + 1 for column in shown) - 1)
    growing = [column for column in shown if column.grow]
    extra: dict[str, int] = {}
    for position, column in enumerate(growing):
        extra[column.key] = min(column.grow, max(0, left) // (len(growing) - position))
        left -= extra[column.key]
    return [(column, column.width + extra.get(column.key, 0)) for column in shown]


class Rows(Lines, can_focus=True):
    """Rows under a heading that stays; with a cursor where something can be chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", _("Up"), show=False, id="rows.up"),
        Binding("down,j", "move(1)", _("Down"), show=False, id="rows.down"),
        Binding("pageup", "page(-1)", _("Page up"), show=False, id="rows.pageup"),
        Binding("pagedown", "page(1)", _("Page down"), show=False, id="rows.pagedown"),
        Binding("home,g", "edge(-1)", _("First"), show=False, id="rows.first"),
        Binding("end,G", "edge(1)", _("Last"), show=False, id="rows.last"),
        Binding("enter", "choose", _("Choose"), show=False, id="rows.choose"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor", "rows--cursor-blurred"}
    DEFAULT_CSS = """
    Rows {
        scrollbar-gutter: stable; scrollbar-size-horizontal: 0;
        .rows--cursor { color: $row-cursor-foreground; background: $row-cursor-background; }
        .rows--cursor-blurred {
            color: $row-cursor-blurred-foreground; background: $row-cursor-blurred-background;
        }
        &:ansi .rows--cursor { text-style: reverse; }
        &:ansi .rows--cursor-blurred { text-style: underline; }
    }
    """

    class Chosen(Message):
        """Enter was pressed on a row."""

        def __init__(self, rows: Rows, key: str) -> None:
            super().__init__()
            self.rows, self.key = rows, key

        @property
        def control(self) -> Rows:
            """The table."""
            return self.rows

    class Moved(Message):
        """The cursor stands on another row; the newest one counts."""

        def __init__(self, rows: Rows, key: str | None) -> None:
            super().__init__()
            self.rows, self.key = rows, key

        @property
        def control(self) -> Rows:
            """The table."""
            return self.rows

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, Rows.Moved) and message.rows is self.rows

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        cursor: bool = False,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.columns = tuple(columns)
        self.has_cursor = cursor
        self.can_focus = cursor
        self.cursor = 0
        self._rows: list[Row] = []
        self._layout_columns: list[tuple[Column, int]] = []
        self._built_width = -1

    @property
    def rows(self) -> list[Row]:
        """The rows as they are shown."""
        return self._rows

    @property
    def current(self) -> str | None:
        """The key of the row under the cursor."""
        if not self.has_cursor or not self._rows:
            return None
        row = self._rows[min(self.cursor, len(self._rows) - 1)]
        return None if row.heading else row.key

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show other columns of the same rows."""
        if tuple(columns) != self.columns:
            self.columns = tuple(columns)
            self._rebuild()

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show these rows; the cursor stays on the row of the same key."""
        key = self.current
        self._rows = list(rows)
        if self.has_cursor:
            same = next((at for at, row in enumerate(self._rows) if row.key == key and not row.heading), None)
            before = self.cursor
            self.cursor = same if same is not None else self._nearest(self.cursor, 1)
            if self.cursor != before:
                self.refresh_line(before + 1)
                self.refresh_line(self.cursor + 1)
            if self.current != key:
                self.post_message(self.Moved(self, self.current))
        self._rebuild()

    def _rebuild(self) -> None:
        width = self.scrollable_content_region.width
        self._built_width = width
        if not width:  # not laid out yet: only the height is known
            self.set_lines([()] * (len(self._rows) + 1))
            return
        self._layout_columns = lay_out(self.columns, width)
        self.set_lines([self._head(), *(self._line(row, width) for row in self._rows)])

    def _head(self) -> Line:
        titles = (fit_cells(column.title, cells, column.align) for column, cells in self._layout_columns)
        return ((" ".join(titles), "muted"),)

    def _at_cursor(self, row: int) -> bool:
        return row == self.cursor and 0 <= row < len(self._rows) and not self._rows[row].heading

    def _last(self) -> int:
        return len(self._rows) - 1

    def _line(self, row: Row, width: int) -> Line:
        if row.heading:
            return ((fit_cells(row.heading, width), "heading"),)
        pieces: list[Piece] = []
        text, style = "", row.style
        for position, (column, cells) in enumerate(self._layout_columns):
            own = row.styles.get(column.key, row.style)
            cell = (" " if position else "") + fit_cells(row.cells.get(column.key, ""), cells, column.align)
            if own != style and text:
                pieces.append((text, style))
                text = ""
            text, style = text + cell, own
        return (*pieces, (text, style))

    def on_resize(self, event: events.Resize) -> None:
        if self.scrollable_content_region.width != self._built_width:
            self._rebuild()

    def render_line(self, y: int) -> Strip:
        if y == 0:
            return self.strip(self.line_at(0))
        at = y + self.scroll_offset.y
        if self.has_cursor and self._at_cursor(at - 1):
            name = "rows--cursor" if self.has_focus else "rows--cursor-blurred"
            style = self.get_component_rich_style(name)
            text = "".join(text for text, _style in self.line_at(at))
            return Strip([Segment(text, style)]).adjust_cell_length(
                self.scrollable_content_region.width, style
            )
        return self.strip(self.line_at(at))

    def refresh_line(self, y: int, width: int | None = None) -> None:
        if y == 0:
            self.refresh(Region(0, 0, self.size.width, 1))
        elif y - self.scroll_offset.y > 0:  # the heading lies over what is scrolled beneath it
            super().refresh_line(y, width)

    def on_focus(self) -> None:
        self.refresh_line(self.cursor + 1)

    def on_blur(self) -> None:
        self.refresh_line(self.cursor + 1)

    def _nearest(self, at: int, step: int) -> int:
        """The place at or after `at` in the direction of `step` that can be chosen; else in the other one."""
        last = self._last()
        at = max(0, min(last, at))
        for way in (step, -step):
            probe = at
            while 0 <= probe <= last:
                if not self._rows[probe].heading:
                    return probe
                probe += way
        return 0

    def move_to(self, at: int, step: int = 1) -> None:
        """Put the cursor on a row, or on the nearest one in the direction of `step`."""
        if self._last() < 0:
            return
        before = self.cursor
        self.cursor = self._nearest(at, step)
        if before == self.cursor:
            self._reveal()
            return
        self.refresh_line(before + 1)
        self.refresh_line(self.cursor + 1)
        self._reveal()
        self.post_message(self.Moved(self, self.current))

    def _reveal(self) -> None:
        """Scroll so far that the cursor can be seen, with the heading above it."""
        page = max(1, self.size.height - 1)
        top = self.scroll_offset.y
        leading = self._rows[: self.cursor]
        first = 0 if leading and all(row.heading for row in leading) else self.cursor
        if first < top:
            self.scroll_to(y=first, animate=False, force=True)
        elif self.cursor >= top + page:
            self.scroll_to(y=self.cursor - page + 1, animate=False, force=True)

    def action_move(self, step: int) -> None:
        """One row up or down; scrolls where there is no cursor."""
        if self.has_cursor:
            self.move_to(self.cursor + step, step)
        else:
            self.scroll_to(y=self.scroll_offset.y + step, animate=False, force=True)

    def action_page(self, step: int) -> None:
        """One page up or down."""
        page = max(1, self.size.height - 2)
        if self.has_cursor:
            self.move_to(self.cursor + step * page, step)
        else:
            self.scroll_to(y=self.scroll_offset.y + step * page, animate=False, force=True)

    def action_edge(self, side: int) -> None:
        """The first or the last row."""
        if self.has_cursor:
            self.move_to(0 if side < 0 else self._last(), -side)
        else:
            self.scroll_to(y=0 if side < 0 else self._last() + 1, animate=False, force=True)

    def action_choose(self) -> None:
        """Tell the pane which row was chosen."""
        if (key := self.current) is not None:
            self.post_message(self.Chosen(self, key))

    async def _on_click(self, event: events.Click) -> None:
        if self.has_cursor and event.y:
            self.move_to(event.y - 1 + self.scroll_offset.y)
