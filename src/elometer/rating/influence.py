"""What a result hangs on: single tasks, single pairs, the first half in time, and the choices of the fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.bootstrap import pair_sums, refit
from elometer.rating.fit import FitResult, fit
from elometer.rating.options import FitOptions
from elometer.rating.pooled import graph_of, weighted_cells
from elometer.rating.records import Floats, RecordSet
from elometer.rating.result import take_apart
from elometer.rating.rows import predecessors
from elometer.rating.student import t_tail

TASKS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class LeftOut:
    """ΔElo of each strategy to the row before it in `delta` (K, NaN in first rungs), without one task."""

    task: str
    delta: Floats


def leave_one_task_out(records: RecordSet, options: FitOptions | None = None) -> list[LeftOut]:
    """Refit without each task in turn, all refits in one batch. Pooled Bradley-Terry only."""
    options = options or FitOptions()
    if options.model != "bradley-terry" or options.aggregation != "pooled":
        raise UsageError(
            _("Leaving tasks out is for pooled Bradley-Terry fits."),
            fix=_("Use ties half or drop without a position term, pooled."),
        )
    size = len(records.strategies)
    graph = graph_of(records, options)
    counts = pair_sums(weighted_cells(records, options), size)
    tasks = np.arange(len(counts.games))
    try:
        theta = np.concatenate(
            [
                refit(
                    counts,
                    (tasks != left[:, None]).astype(np.float64),
                    size,
                    graph,
                    penalised=options.penalised,
                )
                for left in np.array_split(tasks, max(1, len(tasks) // TASKS_AT_ONCE))
            ]
        )
    except np.linalg.LinAlgError:
        raise UsageError(
            _("Without one of the tasks there is no finite maximum."),
            fix=_("Use --estimator firth, whose penalty keeps every number finite."),
        ) from None
    before = predecessors(tuple(take_apart(name) for name in records.strategies))
    delta = np.full(theta.shape, np.nan)
    for s, b in enumerate(before):
        if b is not None:
            delta[:, s] = options.per_logit * (theta[:, s] - theta[:, b])
    return [LeftOut(name, delta[t]) for t, name in enumerate(records.tasks)]


@dataclass(frozen=True, slots=True)
class WithoutOne:
    """The least and the greatest ΔElo of a strategy to the row before it, each without one task."""

    strategy: str
    delta: float
    low: float
    low_task: str
    high: float
    high_task: str


def ranges_without_one(result: FitResult) -> list[WithoutOne]:
    """How far any one task moves each ΔElo that the data bound. Raises UsageError as leave_one_task_out."""
    left_out = leave_one_task_out(result.records, result.options)
    found = []
    for s, row in enumerate(result.strategies):
        if row.delta_elo is None or not row.delta_bounded or len(left_out) < 2:
            continue
        low = min(left_out, key=lambda each: each.delta[s])
        high = max(left_out, key=lambda each: each.delta[s])
        ends = float(low.delta[s]), low.task, float(high.delta[s]), high.task
        found.append(WithoutOne(row.strategy, row.delta_elo, *ends))
    return found


@dataclass(frozen=True, slots=True)
class TaskShare:
    """How far one task moves a difference, in Elo, and its share of the squared contributions."""

    task: str
    moves: float
    share: float


def most_influential_tasks(result: FitResult, one: str, other: str, most: int = 5) -> list[TaskShare]:
    """The tasks that move Elo(other) − Elo(one) the most, by their contributions to the estimate."""
    names = [row.strategy for row in result.strategies]
    weights = np.zeros(len(names))
    weights[names.index(one)] -= 1.0
    weights[names.index(other)] += 1.0
    each = result.options.per_logit * (result.estimate.influence @ weights)
    if len(each) != len(result.records.tasks):
        summed = np.zeros(len(result.records.tasks))
        np.add.at(summed, result.records.block_task, each)
        each = summed
    total = float(each @ each)
    order = np.argsort(-np.abs(each), kind="stable")[:most]
    return [
        TaskShare(result.records.tasks[t], float(each[t]), float(each[t] ** 2 / total) if total > 0 else 0.0)
        for t in order.tolist()
    ]


@dataclass(frozen=True, slots=True)
class PairResidual:
    """A pair whose direct comparisons differ from what the ratings of both say: `z` in standard errors."""

    one: str
    other: str
    observed: float
    expected: float
    comparisons: int
    z: float


def surprising_pairs(result: FitResult, most: int = 5) -> list[PairResidual]:
    """Observed against expected score of each pair, the largest standardised residuals first.

    With several pairs above 3 the strategies do not lie on one line (A beats B beats C beats A).
    """
    records, theta = result.records, result.estimate.theta
    size = len(theta)
    count = np.zeros((size, size))
    np.add.at(count, (records.first, records.second), records.records)
    count = count + count.T
    found = []
    for i in range(size):
        for j in range(i + 1, size):
            won, lost = result.estimate.scores[i, j], result.estimate.scores[j, i]
            if won + lost <= 0 or not result.estimate.same_island(i, j):
                continue
            observed = float(won / (won + lost))
            expected = 1.0 / (1.0 + math.exp(theta[j] - theta[i]))
            error = math.sqrt(expected * (1.0 - expected) / count[i, j])
            if error <= 0.0:
                continue
            z = (observed - expected) / error
            names = records.strategies[i], records.strategies[j]
            found.append(PairResidual(*names, observed, expected, int(count[i, j]), z))
    return sorted(found, key=lambda pair: -abs(pair.z))[:most]


@dataclass(frozen=True, slots=True)
class HalfDifference:
    """A strategy's Elo over the anchor in the second half of the blocks less that in the first."""

    strategy: str
    first: float | None
    second: float | None
    difference: float | None
    p: float | None


def halves_in_time(records: RecordSet, options: FitOptions | None = None) -> list[HalfDifference]:
    """Fit the first and the second half of the blocks apart; a small p says that something drifted.

    Halves share tasks, so the test treats them as independent, which errs on the side of silence where tasks
    move both halves alike.
    """
    options = options or FitOptions()
    early = records.block_order < len(records.block_order) / 2
    first, second = (fit(records.restricted(half), None, options) for half in (early, ~early))
    found = []
    for one, other in zip(first.strategies, second.strategies, strict=True):
        bounded = one.identified and other.identified and one.gain is not None and other.gain is not None
        difference = p = None
        if bounded and one.se is not None and other.se is not None:
            assert one.gain is not None
            assert other.gain is not None
            difference = other.gain - one.gain
            error = options.per_logit * math.hypot(one.se, other.se)
            degrees = min(first.estimate.clusters, second.estimate.clusters) - 1
            if error > 0 and degrees >= 1:
                p = 2.0 * t_tail(abs(difference) / error, degrees)
        found.append(HalfDifference(one.strategy, one.gain, other.gain, difference, p))
    return found


@dataclass(frozen=True, slots=True)
class Variant:
    """One cell of the sensitivity strip: Elo per strategy under another choice; None where it is not bounded.

    `order_changed`: two strategies stand the other way round than in the first variant.
    """

    label: str
    elo: tuple[float | None, ...]
    order_changed: bool
    why_not: str = ""


VARIANTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("as fitted", {}),
    ("ties half", {"ties": "half", "estimator": "firth"}),
    ("ties dropped", {"ties": "drop", "estimator": "firth"}),
    ("ties davidson", {"ties": "davidson", "estimator": "firth"}),
    ("plain likelihood", {"estimator": "mle", "ties": "half"}),
    ("records weigh equally", {"task_weight": "records"}),
    ("mean of tasks", {"aggregation": "per-task", "ties": "half", "estimator": "firth"}),
)


def sensitivity(records: RecordSet, options: FitOptions | None = None) -> list[Variant]:
    """The same data under other choices of ties, penalty, weights and aggregation.

    `order_changed`: two strategies stand the other way round than in the first variant.
    """
    options = options or FitOptions()
    strip: list[Variant] = []
    for label, change in VARIANTS:
        try:
            rows = fit(records, None, replace(options, **change)).strategies  # type: ignore[arg-type]
        except UsageError as error:
            strip.append(Variant(label, (None,) * len(records.strategies), False, error.message))
            continue
        elo = tuple(row.elo if row.identified else None for row in rows)
        strip.append(Variant(label, elo, bool(strip) and _order_changed(strip[0].elo, elo)))
    return strip


def _order_changed(one: tuple[float | None, ...], other: tuple[float | None, ...]) -> bool:
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    return any((a - c) * (b - d) < 0 for a, b in pairs for c, d in pairs)
