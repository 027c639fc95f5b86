"""A fit as text: the provisional table of the Run pane, the founding columns of the Fit pane.

A number that the data do not resolve is greyed *and* marked by a word, because colour alone says nothing on a
terminal without colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elometer.core.text import gettext as _
from elometer.core.text import ngettext
from elometer.runs.state import RunState
from elometer.tui.figures import UNKNOWN, count, decimal, interval, signed
from elometer.tui.widgets.lines import Line
from elometer.tui.widgets.rows import Column, Row

if TYPE_CHECKING:
    from elometer.rating.result import FitResult, StrategyFit


PROVISIONAL = (
    Column("strategy", _("strategy"), 10, "left", grow=8),
    Column("elo", _("Elo"), 7),
    Column("interval", _("interval"), 19, drop=2),
    Column("delta", _("ΔElo"), 7),
    Column("delta_interval", _("interval"), 18, drop=1),
    Column("resolved", _("resolved?"), 9, "left"),
)


def is_claim(row: StrategyFit) -> bool:
    """Whether the row may be read as said: bounded, and its step told from none (or it has no step)."""
    return row.identified and (row.compared_with is None or row.resolved)


def resolved_word(row: StrategyFit, anchor: str) -> str:
    """`✓ yes`, `? no`, `* open` where the data bound nothing; the anchor is what the others stand against."""
    if not row.identified:
        return "* " + _("open")
    if row.compared_with is None:
        return _("anchor") if row.strategy == anchor else UNKNOWN
    return "✓ " + _("yes") if row.resolved else "? " + _("no")


def provisional_title(fit: FitResult | None, error: str, state: RunState) -> Line:
    """What the table below rests on."""
    if error:
        return ((error, "warning"),)
    if fit is None:
        if not state.blocks_done:
            return ((_("The fit begins with the first finished block."), "muted"),)
        return ((_("Nothing to compare yet."), "muted"),)
    title = _("Fit") if state.phase == "complete" else _("Provisional fit")
    tasks = ngettext("{n} task", "{n} tasks", fit.tasks).format(n=count(fit.tasks))
    comparisons = _("{n} comparisons").format(n=count(fit.comparisons))
    return ((title, "heading"), (f"  {tasks}, {comparisons}", "muted"))


def provisional_rows(fit: FitResult | None) -> list[Row]:
    """Elo and ΔElo with their intervals, one row per strategy."""
    return [] if fit is None else [_provisional_row(row, fit.anchor) for row in fit.strategies]


def _provisional_row(row: StrategyFit, anchor: str) -> Row:
    step = row.compared_with is not None
    cells = {
        "strategy": row.strategy,
        "elo": decimal(row.elo, 1),
        "interval": elo_interval(row),
        "delta": signed(row.delta_elo) if step else "",
        "delta_interval": interval(row.delta_lo, row.delta_hi) if step else "",
        "resolved": resolved_word(row, anchor),
    }
    return Row(row.strategy, cells, style="" if is_claim(row) else "muted")


def elo_interval(row: StrategyFit) -> str:
    """`[1018, 1038]`; a dash where the data do not bound it."""
    if row.elo_lo is None or row.elo_hi is None:
        return UNKNOWN
    return f"[{row.elo_lo:.0f}, {row.elo_hi:.0f}]"
