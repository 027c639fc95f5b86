"""The experiments of the workspace, to open one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer

from elometer.core.text import gettext as _
from elometer.tui.figures import count, moment
from elometer.tui.lanes import PHASES
from elometer.tui.widgets.lines import Lines
from elometer.tui.widgets.rows import Column, Row, Rows

COLUMNS = (
    Column("name", _("experiment"), 24, "left", grow=200),
    Column("status", _("status"), 12, "left"),
    Column("blocks", _("blocks"), 9),
    Column("tokens", _("tokens"), 11, drop=2),
    Column("at", _("last event"), 16, "left", drop=1),
)
STANDINGS = {**PHASES, "new": _("new"), "died": _("died")}


class StartPicker(ModalScreen[Path | None]):
    """Enter opens, `n` or Escape goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", _("Open"), id="starts.open"),
        Binding("n,escape", "back", _("Back"), key_display="n", id="starts.back"),
    ]
    DEFAULT_CSS = """
    StartPicker { align: center middle; background: $background; }
    StartPicker > Vertical {
        width: 90; max-width: 96%; height: auto; max-height: 80%; border: round $border; padding: 0 1;
        background: $background;
    }
    StartPicker Rows { max-height: 1fr; }
    """

    def __init__(self, starts: Sequence[Any]) -> None:
        super().__init__()
        self.starts = list(starts)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Enter opens an experiment")
            if self.starts:
                yield Rows(COLUMNS, cursor=True, id="starts")
            else:
                yield Lines([((_("The workspace holds no experiment yet."), ""),)])
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        if self.starts:
            self.query_one(Rows).set_rows([self._row(start) for start in self.starts])
            self.query_one(Rows).focus()

    @staticmethod
    def _row(start: Any) -> Row:
        return Row(
            str(start.folder),
            {
                "name": start.folder.name,
                "status": STANDINGS.get(start.standing, start.standing),
                "blocks": f"{start.blocks_done}/{start.blocks}",
                "tokens": count(start.total_tokens),
                "at": "" if start.last_at is None else moment(start.last_at),
            },
        )

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        self.dismiss(Path(message.key))

    def action_choose(self) -> None:
        """Nothing to open."""
        self.dismiss(None)

    def action_back(self) -> None:
        """Close without a choice."""
        self.dismiss(None)
