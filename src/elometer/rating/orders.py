"""Whether the order of strategies hangs on how ties are counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elometer.rating.estimate import Booleans
from elometer.rating.estimators import bradley_terry, davidson
from elometer.rating.graph import WinGraph, win_graph
from elometer.rating.options import FitOptions, Ties
from elometer.rating.records import Floats, RecordSet, sums

SAME = 1e-9  # logits: below, two strategies are level and have no order to change
MOST_BY_DAVIDSON = 60  # strategies; beyond, his model costs more than the rest of the fit


@dataclass(frozen=True, slots=True)
class OrderChange:
    """Two strategies, `higher` above `lower` as fitted, that change places with ties counted otherwise."""

    higher: int
    lower: int
    ties: tuple[Ties, ...]


def order_changes(
    records: RecordSet, options: FitOptions, theta: Floats, graph: WinGraph
) -> list[OrderChange]:
    """The pairs whose order in `theta` (K) another way to count ties turns round; for pooled fits.

    Only pairs count that the data bound both ways; a way that has no fit changes nothing.
    """
    if not records.tie_rate or options.aggregation != "pooled" or options.position:
        return []
    standing = (theta[:, None] - theta[None, :] > SAME) & _bounded(graph)
    turned: dict[tuple[int, int], list[Ties]] = {}
    for ties in ("half", "drop", "davidson"):
        if ties == options.ties_used or (ties == "davidson" and len(theta) > MOST_BY_DAVIDSON):
            continue
        found, bounded = _ability(records, options, ties)
        changed = standing & (found[None, :] - found[:, None] > SAME) & bounded
        for pair in np.argwhere(changed).tolist():
            turned.setdefault((pair[0], pair[1]), []).append(ties)
    return [OrderChange(higher, lower, tuple(ways)) for (higher, lower), ways in turned.items()]


def _ability(records: RecordSet, options: FitOptions, ties: Ties) -> tuple[Floats, Booleans]:
    """θ (K) with ties counted so, and the pairs that the data bound then (none where there is no fit)."""
    wins, tied = _matrices(records, options, drop=ties == "drop")
    graph = win_graph(wins + tied)
    size = len(wins)
    nothing = np.zeros(size), np.zeros((size, size), dtype=bool)
    penalised = options.estimator != "mle"
    if not wins.any() or not (penalised or graph.strongly_connected):
        return nothing
    if ties == "davidson":
        theta = davidson.fit_davidson(wins, tied, graph.island_of, penalised=penalised).theta[0, :size]
    else:
        fit = bradley_terry.fit_firth if penalised else bradley_terry.fit_maximum_likelihood
        theta = fit((wins + 0.5 * tied)[None], graph.island_of).theta[0]
    return theta, _bounded(graph)


def _matrices(records: RecordSet, options: FitOptions, *, drop: bool) -> tuple[Floats, Floats]:
    """(K, K) decisive wins and, symmetric, ties, with the task weights of the fit."""
    pairs, size = records.pair_counts, len(records.strategies)
    ties = np.zeros(0) if drop else pairs.ties
    games = pairs.low_wins + pairs.high_wins
    games = games if drop else games + ties
    sample = records.comparisons - (int(records.tied_records.sum()) if drop else 0)
    scale: Floats | float = sample / max(float(games.sum()), 1e-300)
    if options.task_weight == "equal":
        per_task = sums(pairs.task, games, len(records.tasks))
        held = per_task > 0
        factor = np.zeros(len(per_task))
        factor[held] = sample / (held.sum() * per_task[held])
        scale = factor[pairs.task]
    place = pairs.low * size + pairs.high

    def matrix(values: Floats) -> Floats:
        return sums(place, scale * values, size * size).reshape(size, size)

    wins = matrix(pairs.low_wins) + matrix(pairs.high_wins).T
    tied = np.zeros((size, size)) if drop else matrix(ties)
    return wins, tied + tied.T


def _bounded(graph: WinGraph) -> Booleans:
    return np.asarray(graph.component_of[:, None] == graph.component_of[None, :])
