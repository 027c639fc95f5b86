"""Elo against tokens on a logarithmic axis, with whiskers and the line that best-of-n would follow.

Imported when the Fit pane has a fit to draw, redrawn on a new fit or a resize: one drawing costs about 0.1 s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from textual.reactive import reactive
from textual_plot import AxisFormatter, HiResMode, PlotWidget

from elometer.core.text import gettext as _
from elometer.tui.figures import compact
from elometer.tui.widgets.points import Point


class TokenAxis(AxisFormatter):
    """Ticks at powers of ten times 1, 2, 5 over positions that are log10 of tokens."""

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        decades = range(math.floor(min_), math.ceil(max_) + 1)
        for steps in ((1, 2, 5), (1, 3), (1,)):
            ticks = [decade + math.log10(step) for decade in decades for step in steps]
            ticks = [tick for tick in ticks if min_ <= tick <= max_]
            if len(ticks) <= max_ticks:
                return ticks
        return ticks[:: math.ceil(len(ticks) / max_ticks)]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [compact(round(10**tick)).replace(".0", "") for tick in ticks]


class EloAxis(AxisFormatter):
    """Ticks at whole steps of 1, 2 or 5 times a power of ten, at least two rows apart.

    Two ticks in one row would give a label to a mark that stands elsewhere. `rows` tells how many there are.
    """

    def __init__(self, rows: Callable[[], int]) -> None:
        self._rows = rows

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        most = max(1, min(max_ticks, self._rows() // 2))
        power = 10.0 ** math.floor(math.log10(max(max_ - min_, 1e-9)))
        for step in (power / 10, power / 5, power / 2, power, 2 * power, 5 * power, 10 * power):
            first, last = math.ceil(min_ / step), math.floor(max_ / step)
            if last - first + 1 <= most:
                return [number * step for number in range(first, last + 1)]
        return []

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        places = 0 if all(float(tick).is_integer() for tick in ticks) else 1
        return [f"{tick:.{places}f}" for tick in ticks]


def rich_colour(name: str) -> str:
    """A colour of Textual under the name that Rich, which the plot's canvas draws with, knows it by."""
    return name.removeprefix("ansi_")


REFERENCE_DOTS = 60


class EloPlot(PlotWidget):
    """The curve of a fit."""

    DEFAULT_CSS = """
    EloPlot {
        background: $background;
        & > .plot--axis { color: $row-muted; }
        & > .plot--tick { color: $row-muted; text-style: none; }
        & > .plot--label { color: $foreground; text-style: none; }
        &:focus > .plot--axis { color: $row-heading; }
        Canvas { background: $background; }
    }
    """

    margin_top = reactive(1)
    margin_bottom = reactive(2)  # what the axis counts stands in the key below, which is there anyhow
    margin_left = reactive(8)

    def __init__(self, *, id: str | None = None) -> None:
        self._theme = ""
        super().__init__(id=id, allow_pan_and_zoom=False)
        self.can_focus = False

    def notify_style_update(self) -> None:
        # The plot draws itself anew at every touch of a style, even a change of pane: 5 KB for nothing.
        theme = self.app.theme
        if theme != self._theme:
            self._theme = theme
            super().notify_style_update()

    def draw(self, points: Sequence[Point], apart: Sequence[Point], elo_per_doubling: float) -> None:
        """Draw the reference line first: what is drawn later covers what was drawn before.

        Points that stand `apart` are marked hollow and joined by no line.
        """
        colours = {name: rich_colour(value) for name, value in self.app.theme_variables.items()}
        self.clear()
        self.set_x_formatter(TokenAxis())
        self.set_y_formatter(EloAxis(lambda: self.size.height - self.margin_top - self.margin_bottom - 2))
        self.set_ylabel(_("Elo"))
        if not points:
            return
        xs = [math.log10(point.tokens) for point in points]
        everywhere = [*xs, *(math.log10(point.tokens) for point in apart)]
        left, right = min(everywhere), max(everywhere)
        pad = max(0.08 * (right - left), 0.1)
        self.set_xlimits(left - pad, right + pad)
        lows = [point.elo if point.low is None else point.low for point in (*points, *apart)]
        highs = [point.elo if point.high is None else point.high for point in (*points, *apart)]
        room = max(10.0, 0.08 * (max(highs) - min(lows)))
        self.set_ylimits(min(lows) - room, max(highs) + room)
        start = points[0]
        slope = elo_per_doubling / math.log10(2)
        # Dots, as a line would look like the curve where there are no colours.
        steps = [(right + pad - xs[0]) * dot / REFERENCE_DOTS for dot in range(REFERENCE_DOTS + 1)]
        self.scatter(
            [xs[0] + step for step in steps],
            [start.elo + slope * step for step in steps],
            marker_style=colours["row-muted"],
            hires_mode=HiResMode.BRAILLE,
        )
        self.plot(
            xs,
            [point.elo for point in points],
            line_style=colours["row-heading"],
            hires_mode=HiResMode.BRAILLE,
        )
        for resolved in (False, True):
            chosen = [(x, point) for x, point in zip(xs, points, strict=True) if point.resolved is resolved]
            if chosen:
                self._whiskers(
                    chosen, "●" if resolved else "○", colours["foreground" if resolved else "row-muted"]
                )

        if apart:
            self.scatter(
                [math.log10(point.tokens) for point in apart],
                [point.elo for point in apart],
                marker="◇",
                marker_style=colours["warning"],
            )

    def _whiskers(self, chosen: Sequence[tuple[float, Point]], marker: str, style: str) -> None:
        bounded = [
            (x, (point.low + point.high) / 2, (point.high - point.low) / 2)
            for x, point in chosen
            if point.low is not None and point.high is not None
        ]
        if bounded:
            self.errorbar(
                [x for x, _middle, _half in bounded],
                [middle for _x, middle, _half in bounded],
                yerr=[half for _x, _middle, half in bounded],
                marker_style=style,
            )
        self.scatter(
            [x for x, _point in chosen],
            [point.elo for _x, point in chosen],
            marker=marker,
            marker_style=style,
        )
