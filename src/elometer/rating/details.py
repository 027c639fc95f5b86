"""What stands behind a fit, each a view of its own: tasks, choices, ranks, P(better), influence, drift."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.comparisons import probability_better
from elometer.rating.influence import (
    HalfDifference,
    PairResidual,
    TaskShare,
    Variant,
    halves_in_time,
    most_influential_tasks,
    sensitivity,
    surprising_pairs,
)
from elometer.rating.records import Floats
from elometer.rating.result import FitResult

MOST_TASKS = 5
SURPRISING = 2.0  # standard errors


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task: its comparisons, their share of ties; per strategy win rate and tokens (None: not there)."""

    task: str
    comparisons: int
    tie_rate: float
    win_rates: tuple[float | None, ...]
    tokens: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Details:
    """All views of one fit; `strategies` names the columns of those that have one per strategy.

    `better[i][j]` is how sure the data are that i is better than j (None where they do not bound it).
    `ranks` are the ranks that simultaneous intervals leave open. `influence` holds, for the first and the
    last rung of the anchor's ladder, the tasks that move their difference the most.
    """

    strategies: tuple[str, ...]
    tasks: tuple[TaskView, ...]
    sensitivity: tuple[Variant, ...]
    better: tuple[tuple[float | None, ...], ...]
    ranks: tuple[tuple[int | None, int | None], ...]
    influence: tuple[TaskShare, ...]
    pairs: tuple[PairResidual, ...]
    halves: tuple[HalfDifference, ...]


def details(result: FitResult) -> Details:
    """Compute all views; costs about ten fits."""
    names = tuple(row.strategy for row in result.strategies)
    ends = _ends(result)
    return Details(
        strategies=names,
        tasks=task_views(result),
        sensitivity=tuple(sensitivity(result.records, result.options)),
        better=tuple(tuple(map(_known, row)) for row in probability_better(result.estimate).tolist()),
        ranks=tuple((row.rank_lo, row.rank_hi) for row in result.strategies),
        influence=() if ends is None else tuple(most_influential_tasks(result, *ends, MOST_TASKS)),
        pairs=tuple(surprising_pairs(result)),
        halves=_halves(result),
    )


def _known(value: float) -> float | None:
    return None if value != value else value


def _ends(result: FitResult) -> tuple[str, str] | None:
    """The anchor and the last row that is bounded against it, where tasks tell of their difference."""
    if result.interval_basis == "model":
        return None
    bounded = [row.strategy for row in result.strategies if row.identified and row.role == "strategy"]
    if not bounded or bounded[-1] == result.anchor:
        return None
    return result.anchor, bounded[-1]


def _halves(result: FitResult) -> tuple[HalfDifference, ...]:
    try:
        return tuple(halves_in_time(result.records, result.options))
    except UsageError:
        # Half of the blocks may not carry the model that was asked for; then there is nothing to compare.
        return ()


def task_views(result: FitResult) -> tuple[TaskView, ...]:
    """Each task by itself: win rates are round robin, a tie half a win; tokens are means per run."""
    records = result.records
    size, tasks = len(records.strategies), len(records.tasks)
    pairs = records.pair_counts
    won, played = np.zeros((tasks, size)), np.zeros((tasks, size))
    games = pairs.low_wins + pairs.high_wins + pairs.ties
    np.add.at(won, (pairs.task, pairs.low), pairs.low_wins + 0.5 * pairs.ties)
    np.add.at(won, (pairs.task, pairs.high), pairs.high_wins + 0.5 * pairs.ties)
    np.add.at(played, (pairs.task, pairs.low), games)
    np.add.at(played, (pairs.task, pairs.high), games)
    rates = np.where(played > 0, won / np.where(played > 0, played, 1.0), np.nan)
    task = records.block_task[records.cell_block]
    count = np.bincount(task, records.records, tasks)
    tied = np.bincount(task, records.tied_records, tasks)
    tokens = _task_tokens(result, tasks, size)
    return tuple(
        TaskView(
            name,
            int(count[t]),
            float(tied[t] / max(count[t], 1)),
            tuple(map(_known, rates[t].tolist())),
            tuple(map(_known, tokens[t].tolist())),
        )
        for t, name in enumerate(records.tasks)
    )


def _task_tokens(result: FitResult, tasks: int, size: int) -> Floats:
    if result.tokens is None or not result.tokens.joined:
        return np.full((tasks, size), np.nan)
    return result.tokens.mean


def details_json(views: Details) -> dict[str, Any]:
    """The views as JSON has them."""
    return asdict(views)


def details_text(result: FitResult, views: Details) -> str:
    """The views but the tasks as text, one under the other."""
    width = max(map(len, views.strategies))
    lines = [_("Elo under other choices:")]
    label = max(len(each.label) for each in views.sensitivity)
    lines.append(" " * (label + 2) + "  ".join(name.rjust(9) for name in views.strategies))
    for each in views.sensitivity:
        cells = "  ".join(("-" if elo is None else f"{elo:.1f}").rjust(9) for elo in each.elo)
        note = each.why_not or (_("order changed") if each.order_changed else "")
        lines.append(f"{each.label.ljust(label)}  {cells}  {note}".rstrip())
    lines += ["", _("Ranks that the data leave open, and P(row better than column):")]
    for name, rank, row in zip(views.strategies, views.ranks, views.better, strict=True):
        ranks = "-" if None in rank else f"{rank[0]}-{rank[1]}"
        chances = " ".join(("-" if p is None else f"{p:.2f}").rjust(5) for p in row)
        lines.append(f"{name.ljust(width)}  {ranks.rjust(7)}  {chances}")
    if views.influence:
        lines += ["", _("Tasks that move the last strategy against the anchor the most, in Elo:")]
        lines += [f"{each.task}  {each.moves:+.1f}  {each.share:.0%}" for each in views.influence]
    surprising = [each for each in views.pairs if abs(each.z) >= SURPRISING]
    if surprising:
        lines += ["", _("Pairs that differ most from what the ratings say:")]
        lines += [
            _("{one} against {other}: scored {observed:.2f}, expected {expected:.2f}, z {z:+.1f}").format(
                one=each.one, other=each.other, observed=each.observed, expected=each.expected, z=each.z
            )
            for each in surprising
        ]
    moved = [each for each in views.halves if each.difference is not None and each.p is not None]
    if moved:
        lines += ["", _("Elo over the anchor, second half of the blocks less the first:")]
        lines += [f"{each.strategy.ljust(width)}  {each.difference:+.1f}  p {each.p:.3f}" for each in moved]
    return "\n".join(lines) + "\n"
