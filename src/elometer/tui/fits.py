"""A fit as text: the provisional table of the Run pane, the founding columns of the Fit pane.

A number that the data do not resolve is greyed *and* marked by a word, because colour alone says nothing on a
terminal without colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from elometer.core.text import gettext as _
from elometer.core.text import ngettext
from elometer.runs.state import RunState
from elometer.tui.figures import UNKNOWN, count, count_in, decimal, interval, signed
from elometer.tui.widgets.lines import Line
from elometer.tui.widgets.rows import Column, Row


class StrategyFit(Protocol):
    """One strategy of a fit; None where a number does not exist."""

    @property
    def strategy(self) -> str: ...
    @property
    def elo(self) -> float | None: ...
    @property
    def elo_lo(self) -> float | None: ...
    @property
    def elo_hi(self) -> float | None: ...
    @property
    def total_tokens(self) -> int | None: ...
    @property
    def delta_elo(self) -> float | None: ...
    @property
    def delta_lo(self) -> float | None: ...
    @property
    def delta_hi(self) -> float | None: ...
    @property
    def delta_token(self) -> float | None: ...
    @property
    def marginal_elo_per_1k(self) -> float | None: ...
    @property
    def marginal_lo(self) -> float | None: ...
    @property
    def marginal_hi(self) -> float | None: ...
    @property
    def resolved(self) -> bool: ...


class Fit(Protocol):
    """What the panes read of a fit."""

    @property
    def strategies(self) -> Sequence[StrategyFit]: ...
    @property
    def tasks(self) -> int: ...
    @property
    def comparisons(self) -> Any: ...
    @property
    def identified(self) -> bool: ...


PROVISIONAL = (
    Column("strategy", _("strategy"), 10, "left", grow=8),
    Column("elo", _("Elo"), 7),
    Column("interval", _("95 % interval"), 19, drop=2),
    Column("delta", _("ΔElo"), 7),
    Column("delta_interval", _("95 % interval"), 18, drop=1),
    Column("resolved", _("resolved?"), 9, "left"),
)


def resolved_word(row: StrategyFit, first: bool) -> str:
    """`✓ yes`, `? no`; the anchor is what the others are measured against."""
    if first:
        return _("anchor")
    return "✓ " + _("yes") if row.resolved else "? " + _("no")


def provisional_title(fit: Fit | None, error: str, state: RunState) -> Line:
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


def provisional_rows(fit: Fit | None) -> list[Row]:
    """Elo and ΔElo with their intervals, one row per strategy."""
    if fit is None:
        return []
    rows = []
    for position, row in enumerate(fit.strategies):
        rows.append(
            Row(
                row.strategy,
                {
                    "strategy": row.strategy,
                    "elo": decimal(row.elo, 1),
                    "interval": UNKNOWN
                    if row.elo_lo is None or row.elo_hi is None
                    else f"[{row.elo_lo:.0f}, {row.elo_hi:.0f}]",
                    "delta": signed(row.delta_elo) if position else "",
                    "delta_interval": interval(row.delta_lo, row.delta_hi) if position else "",
                    "resolved": resolved_word(row, not position),
                },
                style="" if row.resolved or not position else "muted",
            )
        )
    return rows


def tokens_text(number: int | None) -> str:
    """Total tokens in nine cells."""
    return count_in(number, 11)
