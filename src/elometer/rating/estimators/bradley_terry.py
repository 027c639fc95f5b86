"""Bradley-Terry (1952): P(i beats j) = 1 / (1 + exp(θ_j − θ_i)); plain and penalised maximum likelihood.

`wins` is a batch of score matrices (B, K, K): `wins[b, i, j]` is what i scored against j, a tie half a win
for each. θ (B, K) is in logits (nats of odds), its sum zero in each island. Everything is batched because
replicates, tasks and the one fit a user sees are the same computation.

The penalty is Jeffreys' prior, ½ log |information| (Firth 1993, Biometrika 80): it takes away the first-order
bias, is finite on every connected graph, and adds h/2 wins to each side of a pair with leverage h, K − 1
comparisons in all. It has no constant to choose and does not depend on a reference strategy.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from elometer.rating.estimators.newton import (
    TOLERANCE,
    Floats,
    Maximum,
    Steps,
    Which,
    maximise,
)

MOST_BARE_STEPS = 12
LARGEST_BARE_STEP = 10.0  # logits, all strategies together: far from where e^θ overflows


def probabilities(theta: Floats) -> Floats:
    """(B, K, K): the probability that i beats j."""
    gaps = theta[..., :, None] - theta[..., None, :]
    # tanh saturates quietly where exp would overflow.
    result: Floats = 0.5 + 0.5 * np.tanh(0.5 * gaps)
    return result


def log_likelihood(theta: Floats, wins: Floats) -> Floats:
    """(B,): Σ wins_ij log P(i beats j), in nats."""
    gaps = theta[..., :, None] - theta[..., None, :]
    # log(1 + e^-x) = max(-x, 0) + log1p(e^-|x|): as exact as logaddexp, in a third of its time.
    size = np.abs(gaps)
    cost = np.log1p(np.exp(-size))
    cost += 0.5 * (size - gaps)
    return np.asarray(-np.einsum("...ij,...ij->...", wins, cost), dtype=np.float64)


def score(theta: Floats, wins: Floats) -> Floats:
    """(B, K): the gradient of the log-likelihood, wins minus expected wins."""
    games = wins + np.swapaxes(wins, -1, -2)
    value: Floats = (wins - games * probabilities(theta)).sum(axis=-1)
    return value


def information(theta: Floats, games: Floats) -> Floats:
    """(B, K, K): the negative Hessian, a weighted graph Laplacian; singular along the sum of an island."""
    chance = probabilities(theta)
    return _laplacian(games * chance * (1.0 - chance))


def _laplacian(weight: Floats) -> Floats:
    matrix = -weight
    size = matrix.shape[-1]
    matrix[..., np.arange(size), np.arange(size)] += weight.sum(axis=-1)
    return matrix


def gauge(islands: npt.NDArray[np.int64]) -> Floats:
    """(K, K): the projector onto what the data cannot tell, a common shift of each island (K numbers)."""
    same = islands[:, None] == islands[None, :]
    projector: Floats = same / same.sum(axis=1, keepdims=True)
    return projector


def covariance(matrix: Floats, shift: Floats) -> Floats:
    """(B, K, K): the pseudo-inverse of the information, θ being sum-zero in each island."""
    # Scaled to the matrix, so that the unit of the weights does not decide how well it can be inverted.
    size = np.trace(matrix, axis1=-2, axis2=-1)[..., None, None] / matrix.shape[-1]
    size = np.where(size > 0, size, 1.0)
    inverse: Floats = np.linalg.inv(matrix + size * shift) - shift / size
    return inverse


def record_sandwich(theta: Floats, wins: Floats, ties: Floats) -> Floats:
    """(K, K): the covariance of θ (K) when single records are independent; `ties` symmetric, each half a win.

    With half wins the model's own covariance is too wide, since a tie varies less than a win or a loss.
    """
    chance = probabilities(theta)
    games = wins + wins.T + ties
    shift = gauge(np.zeros(len(theta), dtype=np.int64))
    spread = covariance(information(theta, games), shift)
    squares = wins * (1.0 - chance) ** 2 + wins.T * chance**2 + ties * (0.5 - chance) ** 2
    middle = np.diag(squares.sum(axis=1)) - squares
    return np.asarray(spread @ middle @ spread, dtype=np.float64)


def leverage(theta: Floats, games: Floats, shift: Floats) -> Floats:
    """(B, K, K): the leverage of each pair; summed over pairs it is K minus the number of islands."""
    chance = probabilities(theta)
    return _leverage(games * chance * (1.0 - chance), shift)


def _leverage(weight: Floats, shift: Floats) -> Floats:
    spread = covariance(_laplacian(weight), shift)
    own = np.diagonal(spread, axis1=-2, axis2=-1)
    value: Floats = weight * (own[..., :, None] + own[..., None, :] - 2.0 * spread)
    return value


def penalty(theta: Floats, games: Floats, shift: Floats) -> Floats:
    """(B,): ½ log |information|, in nats."""
    matrix = information(theta, games) + shift
    _sign, value = np.linalg.slogdet(matrix)
    return np.asarray(0.5 * value, dtype=np.float64)


def penalised_score(theta: Floats, wins: Floats, shift: Floats) -> Floats:
    """(B, K): the gradient of log-likelihood plus penalty."""
    games = wins + np.swapaxes(wins, -1, -2)
    extra = leverage(theta, games, shift)
    value: Floats = (wins + 0.5 * extra - (games + extra) * probabilities(theta)).sum(axis=-1)
    return value


def fit_maximum_likelihood(
    wins: Floats, islands: npt.NDArray[np.int64], start: Floats | None = None
) -> Maximum:
    """θ (B, K) of the greatest likelihood; it exists where each island's win graph is strongly connected."""
    if len(wins) == 1 and start is None and not islands.any():
        found = _fit_one(wins[0])
        if found is not None:
            return found
    shift, games, won = gauge(islands), wins + np.swapaxes(wins, -1, -2), wins.sum(axis=-1)

    def objective(theta: Floats, which: Which) -> Floats:
        return log_likelihood(theta, wins[which])

    def climb(theta: Floats, which: Which) -> tuple[Floats, Steps]:
        played, chance = games[which], probabilities(theta)
        expected = played * chance
        slope = won[which] - expected.sum(axis=-1)

        def steps(rows: npt.NDArray[np.bool_]) -> Floats:
            weight = expected[rows] * (1.0 - chance[rows])
            return _solve(_laplacian(weight), shift, slope[rows])

        return slope, steps

    return maximise(objective, climb, _start(won, games, shift, start), games.sum(axis=(-2, -1)) / 2)


def _fit_one(wins: Floats) -> Maximum | None:
    """One plain fit of one island by bare Newton steps, as long as each at least halves the gradient.

    That proves them; what needs shorter steps, or has no maximum, gets None and is left to `maximise`. With
    odds e^θ no probability is computed: P(i beats j) = odds_i / (odds_i + odds_j).
    """
    size = len(wins)
    one = np.ones(size)
    games, won = wins + wins.T, wins.dot(one)
    lost = one.dot(wins)
    if not (won * lost).all():
        return None
    both, weight = np.empty((2, size, size))
    theta = np.log(_near(wins, (won + 0.5) / (lost + 0.5), both, weight, one))
    diagonal = weight.reshape(-1)[:: size + 1]
    enough, last = (TOLERANCE * max(float(won.dot(one)), 1.0)) ** 2, math.inf
    for steps in range(MOST_BARE_STEPS):
        odds = np.exp(theta)
        column = odds[:, None]
        np.add(column, odds, out=both)
        np.divide(games, both, out=weight)
        slope = won - odds * weight.dot(one)
        steepness = float(slope.dot(slope))  # squared, never less than that of the steepest alone
        if steepness <= enough:
            return Maximum((theta - theta.dot(one) / size)[None], np.ones(1, dtype=bool), steps)
        if not steepness <= 0.25 * last:
            return None
        last = steepness
        weight /= both
        weight *= odds
        weight *= column
        own = weight.dot(one)
        np.subtract(own.dot(one) / size**2, weight, out=weight)
        diagonal += own
        taken = np.linalg.solve(weight, slope)
        if not float(taken.dot(taken)) <= LARGEST_BARE_STEP**2:
            return None
        theta += taken
    return None


def _near(wins: Floats, odds: Floats, both: Floats, weight: Floats, one: Floats) -> Floats:
    """Odds after two steps of Newman's iteration (2023, Journal of Machine Learning Research 24)."""
    for _step in range(2):
        np.add(odds[:, None], odds, out=both)
        np.divide(wins, both, out=weight)
        odds = weight.dot(odds) / one.dot(weight)
    return odds


def fit_firth(wins: Floats, islands: npt.NDArray[np.int64], start: Floats | None = None) -> Maximum:
    """θ (B, K) of the greatest penalised likelihood; finite wherever the comparisons connect an island."""
    shift, games, won = gauge(islands), wins + np.swapaxes(wins, -1, -2), wins.sum(axis=-1)

    def objective(theta: Floats, which: Which) -> Floats:
        return log_likelihood(theta, wins[which]) + penalty(theta, games[which], shift)

    def climb(theta: Floats, which: Which) -> tuple[Floats, Steps]:
        played, chance = games[which], probabilities(theta)
        weight = played * chance * (1.0 - chance)
        extra = _leverage(weight, shift)
        slope = won[which] + (0.5 * extra - (played + extra) * chance).sum(axis=-1)

        def steps(rows: npt.NDArray[np.bool_]) -> Floats:
            # With the games that the penalty adds, the step is that of a plain fit of the augmented counts.
            added = extra[rows] * chance[rows] * (1.0 - chance[rows])
            return _solve(_laplacian(weight[rows] + added), shift, slope[rows])

        return slope, steps

    return maximise(objective, climb, _start(won, games, shift, start), games.sum(axis=(-2, -1)) / 2)


def _start(won: Floats, games: Floats, shift: Floats, start: Floats | None) -> Floats:
    """Where the search begins: the log odds of each strategy's win rate, unless told."""
    if start is not None:
        return start
    rate = (won + 0.5) / (games.sum(axis=-1) + 1.0)
    theta = np.log(rate / (1.0 - rate))
    return np.asarray(theta - theta @ shift, dtype=np.float64)


def _solve(matrix: Floats, shift: Floats, slope: Floats) -> Floats:
    size = np.trace(matrix, axis1=-2, axis2=-1)[..., None, None] / matrix.shape[-1]
    size = np.where(size > 0, size, 1.0)
    step = np.linalg.solve(matrix + size * shift, slope[..., None])[..., 0]
    return np.asarray(step, dtype=np.float64)
