"""One of some rows, chosen by Enter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer

from elometer.core.text import gettext as _
from elometer.tui.widgets.lines import Lines
from elometer.tui.widgets.rows import Column, Row, Rows


class Picker(ModalScreen[str | None]):
    """Gives the key of the chosen row; `n` or Escape gives None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "back", _("Choose"), id="picker.choose"),  # the table takes it where there is one
        Binding("n,escape", "back", _("Back"), key_display="n", id="picker.back"),
    ]
    DEFAULT_CSS = """
    Picker { align: center middle; background: $background; }
    Picker > Vertical {
        width: 90; max-width: 96%; height: auto; max-height: 80%; border: round $border; padding: 0 1;
        background: $background;
    }
    Picker Rows { max-height: 1fr; }
    """

    def __init__(self, title: str, columns: Sequence[Column], rows: Sequence[Row], *, empty: str) -> None:
        super().__init__()
        self.words, self.empty = title, empty
        self.columns, self.choices = tuple(columns), list(rows)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self.words
            if self.choices:
                yield Rows(self.columns, cursor=True)
            else:
                yield Lines([((self.empty, ""),)])
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        if self.choices:
            self.query_one(Rows).set_rows(self.choices)
            self.query_one(Rows).focus()

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        self.dismiss(message.key)

    def action_back(self) -> None:
        """Close without a choice."""
        self.dismiss(None)
