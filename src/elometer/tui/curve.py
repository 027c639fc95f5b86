"""The curve of a fit in a container: made when there is something to draw, redrawn for another fit only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual.containers import Container

from elometer.core.text import gettext as _
from elometer.tui.fit_columns import ceiling_elo
from elometer.tui.fits import is_claim
from elometer.tui.widgets.lines import Line, Lines, Piece
from elometer.tui.widgets.points import Point


class Curve(Container):
    """The plot and the key to its marks; numpy and the plot's module are imported with the first fit."""

    DEFAULT_CSS = """
    Curve {
        height: 1fr; min-height: 8;
        #plot-key { dock: bottom; height: auto; max-height: 2; padding: 0 1; overflow-y: hidden; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._drawn: tuple[int, str] | None = None
        self._latest: tuple[list[Point], list[Point], float] = ([], [], 0.0)

    def show(self, fit: Any, ceilings: Sequence[Any], version: int) -> None:
        """Draw a fit, unless it is drawn already: the same that the table beside it tells."""
        drawn = (version, self.app.theme)
        if fit is None or drawn == self._drawn or not self.display or not self.region.height:
            return
        self._drawn = drawn
        from elometer.rating.economics import best_of_n_doubling
        from elometer.tui.widgets.elo_plot import EloPlot

        slope = best_of_n_doubling(fit.elo_scale)
        points, apart = curve_points(fit), ceiling_points(fit, ceilings)
        self._latest = (points, apart, slope)
        if not self.query(EloPlot):
            self.mount(EloPlot(), Lines(id="plot-key"))
        self._draw_latest()
        self.query_one("#plot-key", Lines).set_lines(key_lines(points, apart, slope))

    def _draw_latest(self) -> None:
        from elometer.tui.widgets.elo_plot import EloPlot

        plot = self.query_one(EloPlot)
        if plot.children:
            plot.draw(*self._latest)
        else:  # not composed yet; by then a later fit may have come, which this one must not cover
            self.call_after_refresh(self._draw_latest)


def curve_points(fit: Any) -> list[Point]:
    """The fitted strategies whose tokens are known."""
    return [
        Point(row.strategy, row.tokens_per_task_run, row.elo, row.elo_lo, row.elo_hi, is_claim(row))
        for row in fit.strategies
        if row.tokens_per_task_run and row.elo is not None
    ]


def ceiling_points(fit: Any, ceilings: Sequence[Any]) -> list[Point]:
    """Where the ceilings stand beside the fit; without an interval, since none was estimated."""
    return [
        Point(one.strategy, one.tokens_per_task_run, elo, None, None, False)
        for one in ceilings
        if one.tokens_per_task_run and (elo := ceiling_elo(fit, one)) is not None
    ]


def key_lines(points: Sequence[Point], apart: Sequence[Point], slope: float) -> list[Line]:
    """What the axis counts and the marks mean; only of those that are drawn."""
    pieces: list[Piece] = [(_("→ tokens per task-run") + "  ", "")]
    if any(point.resolved for point in points):
        pieces.append((_("● sure") + "  ", ""))
    if not all(point.resolved for point in points):
        pieces.append((_("○ not resolved") + "  ", "muted"))
    pieces.append((_("┈ best-of-n +{slope:.1f}/doubling").format(slope=slope), "muted"))
    lines: list[Line] = [tuple(pieces)]
    if apart:
        names = ", ".join(point.name for point in apart)
        lines.append(((_("◇ {names}: ceiling, outside the fit").format(names=names), "warning"),))
    return lines
