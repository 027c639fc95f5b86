"""The curve of a fit in a container: made when there is something to draw, redrawn for another fit only."""

from __future__ import annotations

import time
from typing import Any

from textual.containers import Container

from elometer.core.text import gettext as _
from elometer.tui.fits import is_claim

# A drawing is about 3 KB for the terminal: every few seconds is enough to watch whiskers narrow.
PAUSE_S = 5.0


class Curve(Container):
    """Holds the plot; numpy and the plot's module are imported with the first fit."""

    DEFAULT_CSS = "Curve { height: 1fr; min-height: 8; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._drawn: tuple[int, str] | None = None
        self._next = 0.0

    def show(self, fit: Any, version: int, *, moving: bool = False) -> None:
        """Draw a fit, unless it is drawn already; while fits keep coming, not every one of them."""
        drawn = (version, self.app.theme)
        if fit is None or drawn == self._drawn or not self.display or not self.region.height:
            return
        now = time.monotonic()
        if moving and now < self._next:
            return
        self._drawn, self._next = drawn, now + PAUSE_S
        from elometer.rating.economics import best_of_n_doubling
        from elometer.tui.widgets.elo_plot import EloPlot, Point

        slope = best_of_n_doubling(fit.elo_scale)

        points = [
            Point(row.strategy, row.tokens_per_task_run, row.elo, row.elo_lo, row.elo_hi, is_claim(row))
            for row in fit.strategies
            if row.tokens_per_task_run and row.elo is not None
        ]
        plots = self.query(EloPlot)
        if plots:
            plots.first().draw(points, slope, _("tokens per task-run"))
        else:
            plot = EloPlot()
            self.mount(plot)
            plot.call_after_refresh(plot.draw, points, slope, _("tokens per task-run"))
