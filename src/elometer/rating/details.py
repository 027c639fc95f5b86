"""What stands behind a fit, each a view of its own: tasks, choices, ranks, P(better), influence, drift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import Any

import numpy as np

from elometer.core.errors import UsageError
from elometer.core.terminal_text import cell_width, printable, to_left, to_right
from elometer.core.text import gettext as _
from elometer.rating.comparisons import probability_better
from elometer.rating.influence import (
    HalfDifference,
    PairResidual,
    TaskShare,
    Variant,
    WithoutOne,
    halves_in_time,
    most_influential_tasks,
    ranges_without_one,
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
    last rung of the anchor's ladder, the tasks that move their difference the most; `without_one` how far
    ΔElo moves when any one task is left out.
    """

    strategies: tuple[str, ...]
    tasks: tuple[TaskView, ...]
    sensitivity: tuple[Variant, ...]
    better: tuple[tuple[float | None, ...], ...]
    ranks: tuple[tuple[int | None, int | None], ...]
    influence: tuple[TaskShare, ...]
    pairs: tuple[PairResidual, ...]
    without_one: tuple[WithoutOne, ...]
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
        without_one=_without_one(result),
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


def _without_one(result: FitResult) -> tuple[WithoutOne, ...]:
    try:
        return tuple(ranges_without_one(result))
    except UsageError:
        return ()  # fits other than pooled Bradley-Terry have no such refits


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


# The same function under a name that the package can export beside its module `details`.
fit_details = details


def details_json(views: Details) -> dict[str, Any]:
    """The views as JSON has them."""
    return asdict(views)


def details_text(result: FitResult, views: Details, *, width: int = 80) -> str:
    """The views but the tasks as text of at most `width` columns where names allow, one under the other."""
    names = [printable(row.strategy) for row in result.strategies]
    ranks = ["-" if None in rank else f"{rank[0]}-{rank[1]}" for rank in views.ranks]
    parts = [
        [_("Elo under other choices:"), *_sensitivity_lines(views, names, width)],
        [_("Ranks that the data leave open:"), *_aligned(names, [""], [[rank] for rank in ranks], width)],
        [
            _("P(row better than column):"),
            *_aligned(names, names, [[_chance(p) for p in row] for row in views.better], width),
        ],
        _influence_lines(views),
        _without_one_lines(views, width),
        _pair_lines(views, width),
        _drift_lines(views),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _chance(value: float | None) -> str:
    """A probability; never a certainty that its digits do not bear."""
    if value is None:
        return "-"
    if value >= 0.995:
        return ">0.99"
    return "<0.01" if value < 0.005 else f"{value:.2f}"


def _signed(value: float) -> str:
    return f"{value if abs(value) >= 0.05 else 0.0:+.1f}"


def _aligned(
    labels: Sequence[str], heads: Sequence[str], cells: Sequence[Sequence[str]], width: int
) -> list[str]:
    """A table with a label for each row, in as many parts, one below the other, as the width asks for."""
    first = max(map(cell_width, labels))
    wide = max(map(cell_width, [*heads, *(cell for row in cells for cell in row)]))
    each = max(1, (width - first) // (wide + 2))
    lines = []
    for at in range(0, len(heads), each):
        rows = [heads[at : at + each], *(row[at : at + each] for row in cells)]
        for label, row in zip(["", *labels], rows, strict=True):
            line = "  ".join([to_left(label, first), *(to_right(cell, wide) for cell in row)]).rstrip()
            lines += [line] if line else []
    return lines


def _sensitivity_lines(views: Details, names: Sequence[str], width: int) -> list[str]:
    strip = views.sensitivity
    cells = [[_figure(elo, 1) for elo in each.elo] for each in strip]
    said = [f"{each.label}: {each.why_not}" for each in strip if each.why_not]
    if changed := [each.label for each in strip if each.order_changed]:
        said.append(_("The order of strategies changes with: {choices}.").format(choices=", ".join(changed)))
    lines = _aligned([each.label for each in strip], names, cells, width)
    return lines + [line for each in said for line in wrap(each, width, subsequent_indent="  ")]


def _influence_lines(views: Details) -> list[str]:
    if not views.influence:
        return []
    names = [printable(each.task) for each in views.influence]
    width = max(map(cell_width, names))
    return [
        _("Tasks that move the last strategy against the anchor the most, in Elo:"),
        *(
            f"{to_left(name, width)}  {each.moves:+7.1f}  {each.share:4.0%}"
            for name, each in zip(names, views.influence, strict=True)
        ),
    ]


def _without_one_lines(views: Details, width: int) -> list[str]:
    if not views.without_one:
        return []
    message = _("{strategy} {delta}: from {low} without {low_task} to {high} without {high_task}")
    said = (
        printable(
            message.format(
                strategy=each.strategy,
                delta=_signed(each.delta),
                low=_signed(each.low),
                low_task=each.low_task,
                high=_signed(each.high),
                high_task=each.high_task,
            )
        )
        for each in views.without_one
    )
    return [
        _("ΔElo with any one task left out:"),
        *(line for each in said for line in wrap(each, width, subsequent_indent="  ")),
    ]


def _pair_lines(views: Details, width: int) -> list[str]:
    surprising = [each for each in views.pairs if abs(each.z) >= SURPRISING]
    if not surprising:
        return []
    message = _("{one} against {other}: scored {observed:.2f}, expected {expected:.2f}, z {z:+.1f}")
    said = (
        message.format(
            one=printable(each.one),
            other=printable(each.other),
            observed=each.observed,
            expected=each.expected,
            z=each.z,
        )
        for each in surprising
    )
    return [
        _("Pairs that differ most from what the ratings say:"),
        *(line for each in said for line in wrap(each, width, subsequent_indent="  ")),
    ]


def _drift_lines(views: Details) -> list[str]:
    moved = [each for each in views.halves if each.difference is not None and each.p is not None]
    if not moved:
        return []
    names = [printable(each.strategy) for each in moved]
    width = max(map(cell_width, names))
    return [
        _("Elo over the anchor, second half of the blocks less the first:"),
        *(
            f"{to_left(name, width)}  {each.difference:+7.1f}  p {each.p:.3f}"
            for name, each in zip(names, moved, strict=True)
        ),
    ]
