"""The ledger as a window over its file: what is not on the screen is not in memory."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message

from elometer.core.text import gettext as _
from elometer.tui.ledger_pages import COLUMNS, LedgerPages
from elometer.tui.widgets.lines import Line
from elometer.tui.widgets.rows import Rows, lay_out


class LedgerView(Rows):
    """Rows drawn from pages. Follow mode ends when the user moves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "follow", _("Follow"), id="ledger.follow"),
        Binding("enter", "choose", _("Line"), id="ledger.line"),
    ]

    class FollowChanged(Message):
        """Follow mode began or ended."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(COLUMNS, cursor=True, id=id)
        self.pages: LedgerPages | None = None
        self.follow = True
        self._count = 0

    def open(self, pages: LedgerPages | None) -> None:
        """Turn to another ledger."""
        self.pages, self._count, self.cursor, self.follow = pages, 0, 0, True
        self.grow()
        self.refresh()

    def grow(self) -> None:
        """Take up the lines that came since the last look."""
        count = self.pages.count if self.pages else 0
        if count == self._count and self._built_width == self.scrollable_content_region.width:
            return
        before, self._count = self._count, count
        self.virtual_size = Size(0, count + 1)
        self._rebuild()
        if self.follow and count:
            self.cursor = count - 1
            self.scroll_to(y=max(0, count + 1 - self.size.height), animate=False, force=True)
            self.refresh()
        elif before < self.scroll_offset.y + self.size.height or count < before:
            self.cursor = min(self.cursor, max(0, count - 1))
            self.refresh()

    def _rebuild(self) -> None:
        self._built_width = self.scrollable_content_region.width
        self._layout_columns = lay_out(self.columns, self._built_width)
        self._lines = [self._head()]

    def on_resize(self, event: events.Resize) -> None:
        self._rebuild()
        if self.follow and self._count:
            self.scroll_to(y=max(0, self._count + 1 - self.size.height), animate=False, force=True)
        self.refresh()

    def line_at(self, y: int) -> Line:
        if y == 0:
            return self._lines[0] if self._lines else ()
        row = self.pages.row(y - 1) if self.pages else None
        return self._line(row, self._built_width) if row else ()

    def text(self) -> str:
        """What can be read on it now."""
        top = self.scroll_offset.y
        lines = [self.line_at(0), *(self.line_at(top + y) for y in range(1, self.size.height))]
        return "\n".join("".join(text for text, _style in line) for line in lines)

    @property
    def current(self) -> str | None:
        """The number of the line under the cursor, from 0."""
        return str(self.cursor) if self._count else None

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._count + 1

    def _at_cursor(self, row: int) -> bool:
        return bool(self._count) and row == self.cursor

    def _last(self) -> int:
        return self._count - 1

    def _nearest(self, at: int, step: int) -> int:
        return max(0, min(self._last(), at))

    def move_to(self, at: int, step: int = 1) -> None:
        self._set_follow(False)
        super().move_to(at, step)

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._set_follow(False)
        super()._on_mouse_scroll_up(event)

    def action_follow(self) -> None:
        """Stay at the end of the ledger."""
        self._set_follow(True)
        self.cursor = max(0, self._last())
        self.scroll_to(y=max(0, self._count + 1 - self.size.height), animate=False, force=True)
        self.refresh(Region(0, 0, self.size.width, self.size.height))

    def _set_follow(self, follow: bool) -> None:
        if follow != self.follow:
            self.follow = follow
            self.post_message(self.FollowChanged())
