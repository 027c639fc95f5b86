"""Many differences at once: simultaneous intervals, rank ranges, the P(better) matrix."""

from __future__ import annotations

import math

import numpy as np

from elometer.rating.estimate import NO_SPREAD, Estimate, contrast_error
from elometer.rating.records import Floats
from elometer.rating.student import t_tail, two_sided

DRAWS = 10_000
# With fewer degrees of freedom the correlations are known too badly: drawn intervals cover 81 to 93 %.
BONFERRONI_BELOW = 10
MOST_DRAWN = 60  # strategies; beyond, Bonferroni costs little width and no draws


def difference(size: int, one: int, other: int) -> Floats:
    """The contrast θ_other − θ_one."""
    weights = np.zeros(size)
    weights[one] -= 1.0
    weights[other] += 1.0
    return weights


def simultaneous_reach(estimate: Estimate, weights: Floats, level: float, seed: int) -> float:
    """The half-width, in standard errors, that holds for all contrasts (M, K) together (max-t).

    The quantile of the largest |t| of a multivariate t with the correlations of the contrasts, from seeded
    draws; the same seed gives the same answer.
    """
    errors, degrees = _errors(estimate, weights)
    kept = ~np.isnan(errors) & (errors > 0)
    if not kept.any():
        return math.nan
    lowest = float(degrees[kept].min())
    if kept.sum() == 1:
        return two_sided(level, lowest)
    if lowest < BONFERRONI_BELOW or kept.sum() > MOST_DRAWN:
        return two_sided(1.0 - (1.0 - level) / int(kept.sum()), lowest)
    root = _root(estimate, weights[kept])
    norms = np.sqrt((root**2).sum(axis=1))
    root = root / np.where(norms > 0, norms, 1.0)[:, None]
    rng = np.random.default_rng(seed)
    draws = np.abs(rng.standard_normal((DRAWS, root.shape[1])) @ root.T).max(axis=1)
    if math.isfinite(lowest):
        draws /= np.sqrt(rng.chisquare(lowest, DRAWS) / lowest)
    return max(float(np.quantile(draws, level)), two_sided(level, lowest))


def _root(estimate: Estimate, weights: Floats) -> Floats:
    """(M, R) with R Rᵀ the covariance of the contrasts, R as small as can be."""
    covariance = _clustered(estimate) if estimate.clustered else estimate.model_covariance
    matrix = weights @ covariance @ weights.T
    values, vectors = np.linalg.eigh(matrix)
    keep = values > 1e-12 * max(values.max(), 1e-300)
    root: Floats = vectors[:, keep] * np.sqrt(values[keep])
    return root


def _errors(estimate: Estimate, weights: Floats) -> tuple[Floats, Floats]:
    found = []
    for row in weights:
        involved = np.flatnonzero(row)
        if not estimate.same_component(involved):
            found.append((math.nan, math.nan))
            continue
        error, degrees, _basis = contrast_error(estimate, row)
        found.append((math.nan if error is None else error, degrees))
    pairs = np.array(found, dtype=np.float64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def pair_errors(estimate: Estimate) -> tuple[Floats, Floats]:
    """(K, K) standard errors of θ_i − θ_j in logits, and their degrees of freedom; NaN where unbounded."""
    size = len(estimate.theta)
    model = _spread(estimate.model_covariance)
    degrees = np.full((size, size), np.inf)
    errors = model
    if estimate.clustered:
        own = estimate.own_degrees
        degrees = np.minimum(own[:, None], own[None, :]).astype(np.float64)
        clustered = _spread(_clustered(estimate))
        usable = degrees >= 1
        factor = np.ones_like(degrees)
        if not estimate.stratified:
            factor = np.where(usable, (degrees + 1) / np.where(usable, degrees, 1.0), np.nan)
        factor = np.where(usable, factor, np.nan)
        clustered = np.sqrt(factor) * clustered
        flat = usable & (clustered <= NO_SPREAD * model)
        errors = np.where(flat, model, clustered)
        degrees = np.where(flat, np.inf, degrees)
    component = estimate.graph.component_of
    errors = np.where(component[:, None] == component[None, :], errors, np.nan)
    np.fill_diagonal(errors, 0.0)
    return errors, degrees


def _clustered(estimate: Estimate) -> Floats:
    """(K, K): the clusters' sum of squares of contributions to θ."""
    return np.asarray(
        (estimate.influence * estimate.correction[:, None]).T @ estimate.influence, dtype=np.float64
    )


def _spread(matrix: Floats) -> Floats:
    own = np.diag(matrix)
    result: Floats = np.sqrt(np.maximum(own[:, None] + own[None, :] - 2.0 * matrix, 0.0))
    return result


def probability_better(estimate: Estimate) -> Floats:
    """(K, K): how sure the data are that i is better than j, P(T < t) of the difference; ½ on the diagonal.

    A difference that the data do not bound is NaN.
    """
    errors, degrees = pair_errors(estimate)
    size = len(errors)
    result = np.full((size, size), np.nan)
    np.fill_diagonal(result, 0.5)
    for i in range(size):
        for j in range(i + 1, size):
            if errors[i, j] > 0:
                statistic = (estimate.theta[i] - estimate.theta[j]) / errors[i, j]
                result[i, j] = 1.0 - t_tail(float(statistic), float(degrees[i, j]))
                result[j, i] = 1.0 - result[i, j]
    return result


def rank_ranges(estimate: Estimate, level: float, seed: int) -> list[tuple[int, int]]:
    """(best, worst) rank that each strategy may have, from simultaneous intervals of all differences.

    A strategy is surely above another if the data order their components, or the interval excludes zero.
    """
    errors, degrees = pair_errors(estimate)
    size = len(errors)
    above = np.zeros((size, size), dtype=bool)
    pairs = [(i, j) for i in range(size) for j in range(i + 1, size) if errors[i, j] > 0]
    lowest = min((float(degrees[pair]) for pair in pairs), default=math.inf)
    if pairs and lowest >= BONFERRONI_BELOW and size <= MOST_DRAWN:
        reach = _pairs_reach(estimate, pairs, lowest, level, seed)
    elif pairs:
        reach = two_sided(1.0 - (1.0 - level) / len(pairs), lowest)
    if pairs:
        gaps = estimate.theta[:, None] - estimate.theta[None, :]
        above = (errors > 0) & (gaps > reach * errors)
    return [(1 + int(above[:, s].sum()), size - int(above[s].sum())) for s in range(size)]


def _pairs_reach(
    estimate: Estimate, pairs: list[tuple[int, int]], lowest: float, level: float, seed: int
) -> float:
    """The max-t half-width, in standard errors, over all differences of two."""
    matrix = _clustered(estimate) if estimate.clustered else estimate.model_covariance
    values, vectors = np.linalg.eigh(matrix)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((DRAWS // 2, len(root))) @ root.T
    largest = np.zeros(len(points))
    spread = _spread(matrix)
    for i, j in pairs:
        if spread[i, j] > 0:
            np.maximum(largest, np.abs(points[:, i] - points[:, j]) / spread[i, j], out=largest)
    if math.isfinite(lowest):
        largest /= np.sqrt(rng.chisquare(lowest, len(points)) / lowest)
    return max(float(np.quantile(largest, level)), two_sided(level, lowest))
