"""Small questions over a pane. Escape is never the only way out: tmux may hold it for half a second."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer

from elometer.core.text import gettext as _
from elometer.tui.widgets.lines import Lines, wrapped

WIDEST, MOST_OF_THE_SCREEN = 100, 0.96
FRAME = 5  # border, padding and scroll bar


def text_width(screen: int) -> int:
    """Cells of a line in a TextDialog on a screen of so many."""
    return min(WIDEST, int(screen * MOST_OF_THE_SCREEN)) - FRAME


class Question(ModalScreen[bool]):
    """Yes or no, by one key; Enter alone does nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", _("Yes"), id="question.yes"),
        Binding("n,escape", "answer(False)", _("No"), key_display="n", id="question.no"),
    ]
    DEFAULT_CSS = """
    Question { align: center middle; background: $background; }
    Question > Vertical {
        width: 60; max-width: 94%; height: auto; border: round $border; padding: 1 2; background: $background;
    }
    """

    def __init__(self, title: str, text: str, *, yes: str, no: str) -> None:
        super().__init__()
        self.words = title, text, yes, no

    def compose(self) -> ComposeResult:
        from textual.widgets import Static

        title, text, yes, no = self.words
        with Vertical():
            yield Lines([((title, "strong"),)])
            yield Static(text, markup=False)
            yield Lines([(), (("y  ", "heading"), (yes, "")), (("n  ", "heading"), (no, ""))])
        yield Footer(compact=True, show_command_palette=False)

    def action_answer(self, answer: bool) -> None:
        """Close with the answer."""
        self.dismiss(answer)


class TextDialog(ModalScreen[None]):
    """Lines to read; `q`, Enter or Escape closes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,enter,escape", "close", _("Close"), key_display="q", id="text.close"),
        Binding("down,j", "scroll(1)", _("Down"), show=False, id="text.down"),
        Binding("up,k", "scroll(-1)", _("Up"), show=False, id="text.up"),
        Binding("pagedown,space", "scroll(10)", _("Page down"), show=False, id="text.pagedown"),
        Binding("pageup", "scroll(-10)", _("Page up"), show=False, id="text.pageup"),
    ]
    DEFAULT_CSS = """
    TextDialog { align: center middle; background: $background; }
    TextDialog > Vertical {
        width: 100; max-width: 96%; height: auto; max-height: 90%; border: round $border; padding: 0 1;
        background: $background;
    }
    TextDialog #text { max-height: 1fr; }
    """

    def __init__(self, title: str, lines: list[str]) -> None:
        super().__init__()
        self.words, self.text_lines = title, lines

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self.words
            yield Lines(id="text")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self._fill()

    def on_resize(self) -> None:
        self._fill()

    def _fill(self) -> None:
        width = text_width(self.app.size.width)
        self.query_one("#text", Lines).set_lines(
            [((part, ""),) for line in self.text_lines for part in wrapped(line, width)]
        )

    def action_scroll(self, step: int) -> None:
        """Further down or up."""
        text = self.query_one("#text", Lines)
        text.scroll_to(y=text.scroll_offset.y + step, animate=False)

    def action_close(self) -> None:
        """Back to the pane."""
        self.dismiss(None)
