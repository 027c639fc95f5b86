"""Bradley-Terry with a position term: logit P(first beats second) = θ_first − θ_second + δ.

The home effect of Agresti's baseball table (Categorical Data Analysis, 2nd ed., 10.6); for a judge, what
being shown first is worth. Parameters (θ_1 … θ_K, δ), shape (K + 1,). `first_score` (K, K) is what i, shown
first, scored against j; `games` (K, K) how often they met in that order.
"""

from __future__ import annotations

import numpy as np

from elometer.rating.estimators.davidson import covariance, gauge
from elometer.rating.estimators.newton import Floats, Maximum, Steps, maximise

__all__ = ["covariance", "fit_position", "information", "log_likelihood", "penalty_score", "score"]


def _gaps(parameters: Floats) -> Floats:
    gaps: Floats = parameters[:-1, None] - parameters[None, :-1] + parameters[-1]
    return gaps


def probabilities(parameters: Floats) -> Floats:
    """(K, K): the probability that i, shown first, beats j."""
    chance: Floats = 0.5 + 0.5 * np.tanh(0.5 * _gaps(parameters))
    return chance


def log_likelihood(parameters: Floats, first_score: Floats, games: Floats) -> float:
    """In nats."""
    gaps = _gaps(parameters)
    return float((first_score * gaps - games * np.logaddexp(0.0, gaps)).sum())


def _collect(pairs: Floats) -> Floats:
    return np.append(pairs.sum(axis=1) - pairs.sum(axis=0), pairs.sum())


def score(parameters: Floats, first_score: Floats, games: Floats) -> Floats:
    """(K + 1,): the gradient of the log-likelihood."""
    return _collect(first_score - games * probabilities(parameters))


def information(parameters: Floats, games: Floats) -> Floats:
    """(K + 1, K + 1): the negative Hessian."""
    chance = probabilities(parameters)
    weight = games * chance * (1.0 - chance)
    size = len(games)
    matrix = np.zeros((size + 1, size + 1))
    both = weight + weight.T
    matrix[:size, :size] = np.diag(both.sum(axis=1)) - both
    matrix[:size, size] = matrix[size, :size] = weight.sum(axis=1) - weight.sum(axis=0)
    matrix[size, size] = weight.sum()
    return matrix


def penalty_score(parameters: Floats, games: Floats) -> Floats:
    """(K + 1,): the gradient of ½ log |information|."""
    chance = probabilities(parameters)
    spread = covariance(information(parameters, games))
    size = len(games)
    own, cross = np.diag(spread)[:size], spread[:size, size]
    variance = (
        own[:, None]
        + own[None, :]
        - 2.0 * spread[:size, :size]
        + 2.0 * (cross[:, None] - cross[None, :])
        + spread[size, size]
    )
    return _collect(0.5 * games * chance * (1.0 - chance) * (1.0 - 2.0 * chance) * variance)


def fit_position(first_score: Floats, games: Floats, *, penalised: bool) -> Maximum:
    """(1, K + 1) parameters of the greatest (penalised) likelihood."""
    shift = gauge(len(games))

    def objective(parameters: Floats, _which: object) -> Floats:
        value = log_likelihood(parameters[0], first_score, games)
        if penalised:
            value += 0.5 * float(np.linalg.slogdet(information(parameters[0], games) + shift)[1])
        return np.array([value])

    def climb(parameters: Floats, _which: object) -> tuple[Floats, Steps]:
        slope = score(parameters[0], first_score, games)
        if penalised:
            slope = slope + penalty_score(parameters[0], games)

        def steps(_rows: object) -> Floats:
            matrix = information(parameters[0], games)
            scale = max(float(np.trace(matrix)) / len(matrix), 1e-300)
            return np.asarray(np.linalg.solve(matrix + scale * shift, slope)[None], dtype=np.float64)

        return slope[None], steps

    return maximise(objective, climb, np.zeros((1, len(games) + 1)), np.array([games.sum()]))
