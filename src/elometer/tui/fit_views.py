"""What stands behind a fit, as lines to read. Both compute: call them in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elometer.core.text import gettext as _
from elometer.tui.figures import UNKNOWN, count, share
from elometer.tui.widgets.lines import fit_cells

if TYPE_CHECKING:
    from elometer.rating.result import FitResult

RATE_CELLS = 9


def view_lines(fit: FitResult) -> list[str]:
    """Elo under other choices, ranks, P(better), influential tasks, odd pairs, drift: about ten fits."""
    from elometer.rating.details import details, details_text

    return details_text(fit, details(fit)).splitlines()


def task_lines(fit: FitResult) -> list[str]:
    """Win rate of each strategy in each task (round robin, a tie half a win)."""
    from elometer.rating.details import task_views

    names = [row.strategy for row in fit.strategies]
    views = task_views(fit)
    width = max([len(_("task")), *(len(view.task) for view in views)])
    head = [_("task").ljust(width), _("pairs").rjust(6), _("ties").rjust(6)]
    lines = [
        _("Win rate in each task, a tie half a win:"),
        "",
        " ".join(head + [_cell(name) for name in names]),
    ]
    for view in views:
        rates = [_cell(UNKNOWN if rate is None else f"{rate:.2f}") for rate in view.win_rates]
        cells = [view.task.ljust(width), count(view.comparisons).rjust(6), share(view.tie_rate).rjust(6)]
        lines.append(" ".join(cells + rates))
    return lines


def _cell(text: str) -> str:
    return fit_cells(text, RATE_CELLS, "right")
