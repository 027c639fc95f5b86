"""What stands behind a fit, a view each, as lines to read. All compute: call them in a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from elometer.core.text import gettext as _
from elometer.tui.figures import UNKNOWN, count, decimal, share, signed
from elometer.tui.widgets.lines import fit_cells

if TYPE_CHECKING:
    from elometer.rating.result import FitResult

NAME_CELLS = 24
STRATEGY_CELLS = 10
VALUE_CELLS = 9
SURPRISING = 2.0  # standard errors


def sensitivity_lines(fit: FitResult, width: int) -> list[str]:
    """Elo of each strategy under other choices of ties, penalty, weights and aggregation."""
    from elometer.rating.influence import sensitivity

    strip = sensitivity(fit.records, fit.options)
    cells = [[decimal(elo, 1) for elo in each.elo] for each in strip]
    lines = [_("Elo under other choices of the fit:"), ""]
    lines += _matrix([each.label for each in strip], fit.records.strategies, cells, width)
    lines.append("")
    changed = [each.label for each in strip if each.order_changed]
    if changed:
        lines.append(_("The order of strategies changes with: {choices}.").format(choices=", ".join(changed)))
    else:
        lines.append(_("No choice that can be made changes the order of strategies."))
    lines += [
        _("{choice}: cannot be made, {why}").format(choice=each.label, why=each.why_not)
        for each in strip
        if each.why_not
    ]
    return lines


def task_lines(fit: FitResult, width: int) -> list[str]:
    """Win rate of each strategy in each task (round robin, a tie half a win)."""
    from elometer.rating.details import task_views

    views = task_views(fit)
    names = [row.strategy for row in fit.strategies]
    heads = [_("pairs"), _("ties"), *names]
    cells = [
        [count(view.comparisons), share(view.tie_rate), *(decimal(rate) for rate in view.win_rates)]
        for view in views
    ]
    lines = [_("Win rate in each task, a tie half a win:"), ""]
    return lines + _matrix([view.task for view in views], heads, cells, width)


def better_lines(fit: FitResult, width: int) -> list[str]:
    """How sure the data are that the strategy of the row is better than that of the column."""
    from elometer.rating.comparisons import probability_better

    names = [row.strategy for row in fit.strategies]
    chances = probability_better(fit.estimate).tolist()
    cells = [
        ["·" if row == column else _chance(chance) for column, chance in enumerate(each)]
        for row, each in enumerate(chances)
    ]
    lines = [_("P(row better than column), from the standard error of each difference:"), ""]
    return lines + _matrix(names, names, cells, width)


def _chance(value: float) -> str:
    """`0.97`; never a certainty that the digits do not bear."""
    if value != value:
        return UNKNOWN
    if value >= 0.995:
        return ">0.99"
    return "<0.01" if value < 0.005 else f"{value:.2f}"


def rank_lines(fit: FitResult, width: int) -> list[str]:
    """The ranks that simultaneous intervals of all differences leave open, 1 being the best."""
    size = len(fit.strategies)
    known = [row for row in fit.strategies if row.rank_lo is not None and row.rank_hi is not None]
    names = min(NAME_CELLS, max((len(row.strategy) for row in fit.strategies), default=0))
    step = 3 if size * 3 + names + 8 <= width else 1
    lines = [
        _("Ranks that the data leave open, judged together at {level}:").format(level=share(fit.level)),
        "",
    ]
    if step > 1:
        heads = "".join(str(rank).rjust(step) for rank in range(1, size + 1))
        lines.append(" " * (names + 7) + heads)
    for row in fit.strategies:
        low, high = row.rank_lo, row.rank_hi
        if low is None or high is None:
            lines.append(f"{fit_cells(row.strategy, names)} {UNKNOWN.rjust(6)}")
            continue
        text = str(low) if low == high else f"{low}–{high}"
        strip = "".join(("━" if low <= rank <= high else "·").rjust(step) for rank in range(1, size + 1))
        lines.append(f"{fit_cells(row.strategy, names)} {text.rjust(6)}{strip}")
    sure = [row.strategy for row in known if row.rank_lo == row.rank_hi]
    lines += ["", _("Left with one rank: {names}.").format(names=", ".join(sure) or _("none"))]
    return lines


def influence_lines(fit: FitResult, width: int) -> list[str]:
    """The tasks and the pairs that the result hangs on, and whether it drifted with time."""
    return [*_tasks_that_move(fit), "", *_without_one(fit), *_surprising(fit), "", *_drift(fit)]


def _without_one(fit: FitResult) -> list[str]:
    from elometer.core.errors import UsageError
    from elometer.rating.influence import ranges_without_one

    try:
        found = ranges_without_one(fit)
    except UsageError:
        return []  # fits other than pooled Bradley-Terry have no such refits
    if not found:
        return []
    line = _("{low} without {low_task} to {high} without {high_task}")
    return [
        _("ΔElo with any one task left out:"),
        *(
            f"  {fit_cells(each.strategy, STRATEGY_CELLS)} {signed(each.delta):>7}  "
            + line.format(
                low=signed(each.low), low_task=each.low_task, high=signed(each.high), high_task=each.high_task
            )
            for each in found
        ),
        "",
    ]


def _tasks_that_move(fit: FitResult) -> list[str]:
    from elometer.rating.influence import most_influential_tasks

    bounded = [row.strategy for row in fit.strategies if row.identified and row.role == "strategy"]
    if fit.interval_basis == "model" or not bounded or bounded[-1] == fit.anchor:
        return [_("Tasks that move the result: one task, or nothing bounded, tells nothing.")]
    title = _("Tasks that move {last} against {anchor} the most (Elo, share):")
    found = most_influential_tasks(fit, fit.anchor, bounded[-1])
    return [
        title.format(last=bounded[-1], anchor=fit.anchor),
        *(
            f"  {fit_cells(each.task, NAME_CELLS)} {signed(each.moves):>8} {share(each.share):>5}"
            for each in found
        ),
    ]


def _surprising(fit: FitResult) -> list[str]:
    from elometer.rating.influence import surprising_pairs

    found = [each for each in surprising_pairs(fit) if abs(each.z) >= SURPRISING]
    if not found:
        return [_("No pair differs from what the ratings say by two standard errors.")]
    return [
        _("Pairs that differ most from what the ratings say:"),
        *(
            "  "
            + _("{one} against {other}: scored {observed}, expected {expected}, z {z}").format(
                one=each.one,
                other=each.other,
                observed=decimal(each.observed),
                expected=decimal(each.expected),
                z=signed(each.z),
            )
            for each in found
        ),
    ]


def _drift(fit: FitResult) -> list[str]:
    from elometer.core.errors import UsageError
    from elometer.rating.influence import halves_in_time

    try:
        halves = halves_in_time(fit.records, fit.options)
    except UsageError as fault:
        return [_("Drift: not tested, {why}").format(why=fault.message)]
    known = [each for each in halves if each.difference is not None and each.p is not None]
    if not known:
        return [_("Drift: not tested, a half of the blocks bounds nothing.")]
    return [
        _("Elo over the anchor, second half of the blocks less the first:"),
        *(
            f"  {fit_cells(each.strategy, NAME_CELLS)} {signed(each.difference):>8}  p {decimal(each.p, 3)}"
            for each in known
        ),
    ]


VIEWS: dict[str, tuple[str, Callable[[FitResult, int], list[str]]]] = {
    "sensitivity": (_("Other choices"), sensitivity_lines),
    "tasks": (_("Each task by itself"), task_lines),
    "better": (_("Which is better"), better_lines),
    "ranks": (_("Ranks"), rank_lines),
    "influence": (_("What the result hangs on"), influence_lines),
}


def _matrix(
    labels: Sequence[str], heads: Sequence[str], cells: Sequence[Sequence[str]], width: int
) -> list[str]:
    """Rows of equal cells under heads; what does not stand side by side in `width` follows below."""
    names = min(max(NAME_CELLS, width // 4), max(map(len, labels), default=0))
    at_once = max(1, (width - names) // (VALUE_CELLS + 1))
    lines: list[str] = []
    for first in range(0, len(heads), at_once):
        chosen = slice(first, first + at_once)
        if lines:
            lines.append("")
        lines.append(_row("", heads[chosen], names))
        lines += [_row(label, row[chosen], names) for label, row in zip(labels, cells, strict=True)]
    return lines


def _row(label: str, cells: Sequence[str], names: int) -> str:
    values = (fit_cells(cell, VALUE_CELLS, "right") for cell in cells)
    return " ".join((fit_cells(label, names), *values)).rstrip()
