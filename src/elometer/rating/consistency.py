"""What one number per strategy cannot say: preferences in a circle, and the worth of being shown first."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from elometer.core.errors import UsageError
from elometer.rating.options import FitOptions
from elometer.rating.pooled import fit_pooled, graph_of
from elometer.rating.records import Floats, RecordSet, sums
from elometer.rating.student import t_quantile

Booleans = npt.NDArray[np.bool_]

UNEVEN = 0.1  # how far from one half the share of being shown first may be
UNEVEN_ERRORS = 3.0  # and by how many standard errors, before it is told


def surely_better(records: RecordSet, error: float, options: FitOptions) -> Booleans:
    """(K, K): whether i scores more than half against j, one-sided, with this chance of error.

    The score is that of direct comparisons, a tie half a win, with the task weights of the fit. Its standard
    error is the greater of that between tasks (Student's t with one degree less than there are tasks) and
    that of fair coins: tasks that happen to agree make nothing sure.
    """
    pairs, size = records.pair_counts, len(records.strategies)
    ties = np.zeros_like(pairs.ties) if options.ties_used == "drop" else pairs.ties
    games = pairs.low_wins + pairs.high_wins + ties
    weight = np.ones_like(games)
    if options.task_weight == "equal":
        played_in = sums(pairs.task, games, len(records.tasks))  # none where all its ties are dropped
        weight = np.where(played_in > 0, 1.0 / np.where(played_in > 0, played_in, 1.0), 0.0)[pairs.task]
    key, cells = pairs.low * size + pairs.high, size * size

    def total(values: Floats) -> Floats:
        return sums(key, values, cells)

    played = total(weight * games)
    ahead = total(weight * (pairs.low_wins - pairs.high_wins)) / 2
    share = 0.5 + ahead / np.where(played > 0, played, 1.0)
    residual = weight * (pairs.low_wins + 0.5 * ties - games * share[key])
    tasks = total((games > 0).astype(np.float64))
    between = total(residual**2) * tasks / np.maximum(tasks - 1, 1)
    # The records, not the weights on them, are the sample.
    scale = records.comparisons / max(float(games.sum()), 1e-300)
    spread = np.sqrt(np.maximum(between, total(weight**2 * games) / (4 * scale)))
    quantile = {
        count: t_quantile(1.0 - error, count - 1 if count > 1 else math.inf)
        for count in np.unique(tasks[played > 0]).tolist()
    }
    reach = np.array([quantile.get(count, 0.0) for count in tasks.tolist()])
    needed = np.where(played > 0, reach * spread, math.inf).reshape(size, size)
    ahead = ahead.reshape(size, size)
    result: Booleans = (ahead > needed) | (-ahead > needed).T
    return result


def circle(records: RecordSet, options: FitOptions, scores: Floats) -> tuple[int, int, int] | None:
    """Three strategies of which each surely beats the next, in a circle; None where there are none.

    The level holds for all circles of three together (Bonferroni): each of the three must be sure at
    (1 − level) / number of circles, so that where an order exists one is found with at most 1 − level.
    `scores` (K, K) are what i scored against j; most often no circle is in them, and that is soon seen.
    """
    size = len(records.strategies)
    if size < 3 or not _closing(scores > scores.T).any():
        return None
    better = surely_better(records, (1.0 - options.level) / (size * (size - 1) * (size - 2) / 3), options)
    closing = _closing(better)
    if not closing.any():
        return None
    first, third = (int(index) for index in np.argwhere(closing)[0])
    second = int(np.flatnonzero(better[first] & better[:, third])[0])
    return first, second, third


def _closing(better: Booleans) -> Booleans:
    """(K, K): whether i is better than one who is better than j, and j better than i."""
    matrix = better.astype(np.float32)  # sums of zeros and ones, exact
    result: Booleans = (matrix @ matrix > 0) & better.T
    return result


@dataclass(frozen=True, slots=True)
class Position:
    """Being shown first: its worth in logits with its error, clustered by task; who is shown first too often.

    `degrees` are those of Student's t, infinite where one task leaves the model's error. `uneven` (index,
    share of its comparisons in which it stood first).
    """

    effect: float
    error: float
    degrees: float
    uneven: tuple[tuple[int, float], ...]


def position_of(records: RecordSet, options: FitOptions) -> Position | None:
    """What standing first is worth. None where records do not say it, or each pair has one order only."""
    if not records.ordered or options.model != "bradley-terry" or options.aggregation != "pooled":
        return None
    size = len(records.strategies)
    met = np.zeros((size, size), dtype=bool)
    met[records.first, records.second] = True
    if not (met & met.T).any():
        return None
    oriented = replace(options, position=True, generalise="tasks")
    try:
        estimate = fit_pooled(records, oriented, graph_of(records, oriented))
    except UsageError:
        return None  # the orders are explained by the strategies
    extra = estimate.extra
    if extra is None:
        return None
    degrees = estimate.clusters - 1.0 if estimate.clustered else math.inf
    stood = sums(records.first, records.records.astype(np.float64), size)
    count = records.records_of.astype(np.float64)
    share = stood / np.maximum(count, 1.0)
    off = np.abs(share - 0.5)
    uneven = np.flatnonzero((off > UNEVEN) & (2.0 * off * np.sqrt(count) > UNEVEN_ERRORS))
    return Position(extra[1], extra[2], degrees, tuple((s, float(share[s])) for s in uneven.tolist()))
