"""Davidson's ties (1970, JASA 65): a tie has the odds ν √(π_i π_j) beside π_i and π_j.

Parameters φ = (θ_1 … θ_K, log ν), shape (K + 1,). Per pair with x = θ_i − θ_j the three outcomes (win, tie,
loss) form an exponential family in (score, tie) with natural parameters (x, log ν), the score of a tie being
½; gradient and Hessian are its first two cumulants, the gradient of Jeffreys' penalty uses the third.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elometer.rating.estimators import bradley_terry
from elometer.rating.estimators.newton import Floats, Maximum, Steps, maximise

SCORES = (1.0, 0.5, 0.0)
TIES = (0.0, 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """(K, K) each: the probabilities that i wins, ties, loses against j."""

    win: Floats
    tie: Floats
    loss: Floats

    @property
    def expected_score(self) -> Floats:
        """A tie counts ½."""
        return self.win + 0.5 * self.tie

    def moment(self, scores: int, ties: int) -> Floats:
        """The central moment E[(score − e)^scores (tie − t)^ties]; of order 2 and 3 a cumulant."""
        total = np.zeros_like(self.win)
        for chance, score, tie in zip((self.win, self.tie, self.loss), SCORES, TIES, strict=True):
            total += chance * (score - self.expected_score) ** scores * (tie - self.tie) ** ties
        return total


def outcomes(parameters: Floats) -> Outcomes:
    """Probabilities of the outcomes of every pair."""
    half = 0.5 * (parameters[:-1, None] - parameters[None, :-1])
    logs = np.stack([half, np.broadcast_to(parameters[-1], half.shape), -half])
    logs -= logs.max(axis=0)
    weights = np.exp(logs)
    weights /= weights.sum(axis=0)
    return Outcomes(weights[0], weights[1], weights[2])


def log_likelihood(parameters: Floats, wins: Floats, ties: Floats) -> float:
    """In nats. `wins` (K, K) are decisive, `ties` (K, K) symmetric."""
    half = 0.5 * (parameters[:-1, None] - parameters[None, :-1])
    log_nu = parameters[-1]
    norm = np.logaddexp(np.logaddexp(half, -half), log_nu)
    return float((wins * (half - norm)).sum() + 0.5 * (ties * (log_nu - norm)).sum())


def score(parameters: Floats, wins: Floats, ties: Floats) -> Floats:
    """(K + 1,): observed minus expected scores of each strategy, and ties."""
    chance = outcomes(parameters)
    games = wins + wins.T + ties
    strengths = (wins + 0.5 * ties - games * chance.expected_score).sum(axis=1)
    return np.append(strengths, 0.5 * (ties - games * chance.tie).sum())


def information(parameters: Floats, games: Floats) -> Floats:
    """(K + 1, K + 1): the negative Hessian."""
    chance = outcomes(parameters)
    size = len(games)
    matrix = np.zeros((size + 1, size + 1))
    weight = games * chance.moment(2, 0)
    matrix[:size, :size] = np.diag(weight.sum(axis=1)) - weight
    cross = (games * chance.moment(1, 1)).sum(axis=1)
    matrix[:size, size] = matrix[size, :size] = cross
    matrix[size, size] = 0.5 * (games * chance.moment(0, 2)).sum()
    return matrix


def gauge(size: int, islands: npt.NDArray[np.int64] | None = None) -> Floats:
    """(K + 1, K + 1): the projector onto what the data cannot tell, a common shift of each island (K)."""
    shift = np.zeros((size + 1, size + 1))
    shift[:size, :size] = bradley_terry.gauge(np.zeros(size, dtype=np.int64) if islands is None else islands)
    return shift


def covariance(matrix: Floats, shift: Floats | None = None) -> Floats:
    """The pseudo-inverse of the information, θ being sum-zero in each island (`shift`, by default one)."""
    shift = gauge(len(matrix) - 1) if shift is None else shift
    scale = max(float(np.trace(matrix)) / len(matrix), 1e-300)
    inverse: Floats = np.linalg.inv(matrix + scale * shift) - shift / scale
    return inverse


def penalty(parameters: Floats, games: Floats, shift: Floats | None = None) -> float:
    """½ log |information|, in nats."""
    shift = gauge(len(games)) if shift is None else shift
    _sign, value = np.linalg.slogdet(information(parameters, games) + shift)
    return float(0.5 * value)


def penalty_score(parameters: Floats, games: Floats, shift: Floats | None = None) -> Floats:
    """(K + 1,): the gradient of the penalty, ½ tr(V ∂information)."""
    chance = outcomes(parameters)
    spread = covariance(information(parameters, games), shift)
    size = len(games)
    own = np.diag(spread)[:size]
    gap = own[:, None] + own[None, :] - 2.0 * spread[:size, :size]
    cross = spread[:size, size][:, None] - spread[:size, size][None, :]
    nu = spread[size, size]

    def along(scores: int, ties: int) -> Floats:
        value: Floats = games * (
            gap * chance.moment(2 + scores, ties)
            + 2.0 * cross * chance.moment(1 + scores, 1 + ties)
            + nu * chance.moment(scores, 2 + ties)
        )
        return value

    return np.append(0.5 * along(1, 0).sum(axis=1), 0.25 * along(0, 1).sum())


def fit_davidson(
    wins: Floats, ties: Floats, islands: npt.NDArray[np.int64] | None = None, *, penalised: bool
) -> Maximum:
    """(1, K + 1) parameters of the greatest (penalised) likelihood. Needs a tie and a decisive comparison.

    `islands` (K) numbers the parts that comparisons join, all of which share one ν; by default there is one.
    """
    games = wins + wins.T + ties
    size = len(games)
    tied, decisive = max(0.5 * ties.sum(), 0.25), max(wins.sum(), 0.25)
    start = np.append(np.zeros(size), np.log(2.0 * tied / decisive))[None]
    shift = gauge(size, islands)

    def objective(parameters: Floats, _which: object) -> Floats:
        value = log_likelihood(parameters[0], wins, ties)
        return np.array([value + (penalty(parameters[0], games, shift) if penalised else 0.0)])

    def climb(parameters: Floats, _which: object) -> tuple[Floats, Steps]:
        slope = score(parameters[0], wins, ties)
        if penalised:
            slope = slope + penalty_score(parameters[0], games, shift)

        def steps(_rows: object) -> Floats:
            matrix = information(parameters[0], games)
            scale = max(float(np.trace(matrix)) / len(matrix), 1e-300)
            return np.asarray(np.linalg.solve(matrix + scale * shift, slope)[None], dtype=np.float64)

        return slope[None], steps

    return maximise(objective, climb, start, np.array([games.sum() / 2]))
