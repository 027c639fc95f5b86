"""Small questions over a pane. Escape is never the only way out: tmux may hold it for half a second."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer

from elometer.core.text import gettext as _
from elometer.tui.widgets.lines import Lines


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
