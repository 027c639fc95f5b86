"""The curve of a fit in a container: made when there is something to draw, redrawn for another fit only."""

from __future__ import annotations

from typing import Any

from textual.containers import Container

from elometer.core.text import gettext as _

# Best-of-n under a perfect selector is Bradley-Terry with strength n: 400 log10 2 Elo per doubling.
BEST_OF_N_DOUBLING = 120.412


class Curve(Container):
    """Holds the plot; numpy and the plot's module are imported with the first fit."""

    DEFAULT_CSS = "Curve { height: 1fr; min-height: 8; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._drawn: tuple[int, str] | None = None

    def show(self, fit: Any, version: int) -> None:
        """Draw a fit, unless it is drawn already."""
        drawn = (version, self.app.theme)
        if fit is None or drawn == self._drawn or not self.display or not self.region.height:
            return
        self._drawn = drawn
        from elometer.tui.widgets.elo_plot import EloPlot, Point

        points = [
            Point(row.strategy, tokens, row.elo, row.elo_lo, row.elo_hi, row.resolved or not at)
            for at, row in enumerate(fit.strategies)
            if (tokens := getattr(row, "tokens_per_task_run", None) or row.total_tokens)
            and row.elo is not None
        ]
        plots = self.query(EloPlot)
        if plots:
            plots.first().draw(points, BEST_OF_N_DOUBLING, _("tokens per task-run"))
        else:
            plot = EloPlot()
            self.mount(plot)
            plot.call_after_refresh(plot.draw, points, BEST_OF_N_DOUBLING, _("tokens per task-run"))
