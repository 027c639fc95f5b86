"""The task bootstrap by reweighting counts: all replicates are one batch of small fits.

Counts are sufficient, so a replicate is a weight per task: one matrix product gives the counts of all
replicates, and Newton steps with the information of the full fit, whose inverse is known, solve them
together. The penalty of the full fit is kept in every replicate (h/2 wins to each side of a pair), so that
a strategy without a win in a replicate stays finite. Point estimates never come from here: they would move
with the seed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.estimators import bradley_terry
from elometer.rating.graph import WinGraph
from elometer.rating.options import FitOptions
from elometer.rating.pooled import Cells, graph_of, weighted_cells
from elometer.rating.records import Floats, RecordSet

CHUNK_NUMBERS = 2_000_000  # 16 MB of float64: stays near the cache
TOLERANCE = 1e-7  # of the gradient, per comparison: 1e-5 Elo, far below the noise of resampling
MOST_STEPS = 60
SMALL = 24  # strategies up to which exact Newton steps are cheaper than more steps with one inverse


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """θ (B, K) of every replicate, sum zero, and the seed that gave them."""

    theta: Floats
    seed: int

    def standard_error(self, weights: Floats) -> float:
        """Of the contrast Σ weights_k θ_k, in logits."""
        return float((self.theta @ weights).std(ddof=1))

    def percentiles(self, weights: Floats, level: float) -> tuple[float, float]:
        """The percentile interval, in logits. It covers 81 to 90 % at 95 % with ten tasks or fewer."""
        low, high = np.quantile(self.theta @ weights, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)


def task_bootstrap(
    records: RecordSet,
    options: FitOptions | None = None,
    *,
    replicates: int = 1000,
    seed: int = 0,
    runs_within_tasks: bool = False,
) -> Bootstrap:
    """Resample tasks, and then runs within each drawn task where asked; one seed gives one set of replicates.

    Each replicate weighs its tasks equally, as the fit does. Raises UsageError for models other than
    Bradley-Terry with ties half or dropped.
    """
    options = options or FitOptions()
    if options.model != "bradley-terry" or options.aggregation != "pooled":
        raise UsageError(
            _("The bootstrap resamples pooled Bradley-Terry fits."),
            evidence=_("Asked for {model}, {aggregation}.").format(
                model=options.model, aggregation=options.aggregation
            ),
            fix=_("Use ties half or drop without a position term, pooled."),
        )
    graph = graph_of(records, options)
    rng = np.random.default_rng(seed)
    size = len(records.strategies)
    if runs_within_tasks:
        counts, weights = _by_runs(records, options, replicates, rng)
    else:
        counts = cluster_scores(weighted_cells(records, options), size)
        held = np.flatnonzero(counts.any(axis=1))
        counts = counts[held]
        drawn = rng.multinomial(len(held), np.full(len(held), 1.0 / len(held)), size=replicates)
        weights = drawn.astype(np.float64)
    return Bootstrap(refit(counts, weights, size, graph, penalised=options.penalised), seed)


def cluster_scores(cells: Cells, size: int) -> Floats:
    """(C, K·K): what i scored against j in each cluster, weighted."""
    flat = np.zeros((len(cells.stratum), size * size))
    np.add.at(flat, (cells.cluster, cells.first * size + cells.second), cells.first_score)
    np.add.at(flat, (cells.cluster, cells.second * size + cells.first), cells.games - cells.first_score)
    return flat


def _by_runs(
    records: RecordSet, options: FitOptions, replicates: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Counts per block, and weights: tasks drawn, then as many runs of each as it has."""
    cells = weighted_cells(records, replace(options, generalise="runs"))
    counts = cluster_scores(cells, len(records.strategies))
    held = np.flatnonzero(counts.any(axis=1))
    task = records.block_task[held]
    tasks = np.unique(task)
    drawn = rng.multinomial(len(tasks), np.full(len(tasks), 1.0 / len(tasks)), size=replicates)
    weights = np.zeros((replicates, len(held)))
    for place, name in enumerate(tasks.tolist()):
        mine = np.flatnonzero(task == name)
        shares = np.full(len(mine), 1.0 / len(mine))
        # A task drawn n times has its runs drawn n times over, each time as many as it has.
        weights[:, mine] = rng.multinomial(drawn[:, place] * len(mine), shares)
    return counts[held], weights


def refit(counts: Floats, weights: Floats, size: int, graph: WinGraph, *, penalised: bool = True) -> Floats:
    """(B, K): θ of the fits whose counts are weights (B, C) @ counts (C, K·K)."""
    full = counts.sum(axis=0).reshape(size, size)
    fit = bradley_terry.fit_firth if penalised else bradley_terry.fit_maximum_likelihood
    start = fit(full[None], graph.island_of).theta[0]
    shift = bradley_terry.gauge(graph.island_of)
    games = full + full.T
    extra = bradley_terry.leverage(start, games, shift) if penalised else np.zeros_like(games)
    matrix = bradley_terry.information(start, games + extra)
    inverse = bradley_terry.covariance(matrix, shift)
    chunk = max(1, CHUNK_NUMBERS // (size * size))
    parts = []
    for at in range(0, len(weights), chunk):
        scores = (weights[at : at + chunk] @ counts).reshape(-1, size, size)
        scores += 0.5 * extra
        parts.append(_solve(scores, start, inverse, shift, float(games.sum() / 2)))
    return np.concatenate(parts)


def _solve(scores: Floats, start: Floats, inverse: Floats, shift: Floats, comparisons: float) -> Floats:
    games = scores + np.swapaxes(scores, 1, 2)
    won = scores.sum(axis=2)
    theta = np.repeat(start[None], len(scores), axis=0)
    size = scores.shape[-1]
    for step in range(MOST_STEPS):
        chance = bradley_terry.probabilities(theta)
        slope = won - np.einsum("bij,bij->bi", games, chance)
        if np.abs(slope).max() <= TOLERANCE * comparisons:
            break
        if size <= SMALL or step >= MOST_STEPS // 3:
            move = _newton_step(games, chance, shift, slope)
        else:
            move = slope @ inverse
        longest = np.abs(move).max(axis=1, keepdims=True)
        theta += move * np.minimum(1.0, 2.0 / np.maximum(longest, 1e-300))
    return theta


def _newton_step(games: Floats, chance: Floats, shift: Floats, slope: Floats) -> Floats:
    weight = games * chance
    weight *= 1.0 - chance
    diagonal = weight.sum(axis=2)
    matrix = shift * (diagonal.mean(axis=1)[:, None, None]) - weight
    size = matrix.shape[-1]
    matrix[:, np.arange(size), np.arange(size)] += diagonal
    return np.asarray(np.linalg.solve(matrix, slope[..., None])[..., 0], dtype=np.float64)
