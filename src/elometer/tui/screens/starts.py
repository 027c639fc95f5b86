"""The experiments of the workspace, to open one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elometer.core.text import gettext as _
from elometer.tui.figures import count, moment
from elometer.tui.lanes import PHASES
from elometer.tui.screens.picker import Picker
from elometer.tui.widgets.rows import Column, Row

COLUMNS = (
    Column("name", _("experiment"), 24, "left", grow=200),
    Column("status", _("status"), 12, "left"),
    Column("blocks", _("blocks"), 9),
    Column("tokens", _("tokens"), 11, drop=2),
    Column("at", _("last event"), 16, "left", drop=1),
)
STANDINGS = {**PHASES, "new": _("new"), "died": _("died")}


def start_picker(starts: Sequence[Any]) -> Picker:
    """Which experiment to open; the key is its folder."""
    rows = [_row(start) for start in starts]
    words = _("The workspace holds no experiment yet.")
    return Picker(_("Enter opens an experiment"), COLUMNS, rows, empty=words)


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
