"""The faults that the demo can have, and what the checks said of the one that was planted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from elometer.core.text import gettext as _
from elometer.core.text import ngettext
from elometer.tui.profile_rows import probe_lines
from elometer.tui.screens.picker import Picker
from elometer.tui.widgets.rows import Column, Row

if TYPE_CHECKING:
    from elometer.gateway.demo.faults import Fault
    from elometer.jobs.planted import PlantedDemo

COLUMNS = (
    Column("name", _("fault"), 22, "left"),
    Column("summary", _("what is wrong"), 28, "left", grow=200),
)


def fault_picker(faults: Sequence[Fault]) -> Picker:
    """Which fault to plant."""
    rows = [Row(fault.id, {"name": fault.id, "summary": _(fault.summary)}) for fault in faults]
    return Picker(
        _("Enter plants a fault in a new demo; the checks then have to name it"),
        COLUMNS,
        rows,
        empty=_("No fault is known."),
    )


def planted_lines(planted: PlantedDemo) -> list[str]:
    """What was planted, and the rows that complain."""
    rows = planted.complaints
    found = ngettext("{n} check complains:", "{n} checks complain:", len(rows)).format(n=len(rows))
    if not rows:
        found = _("No check complains; its ledger may tell once it has run (pane Checks, R).")
    return [
        _("Planted: {what}.").format(what=_(planted.fault.summary)),
        found,
        "",
        *probe_lines(rows),
    ]
