"""Redraws from a pool: strategies judged on disjoint random subsets of the draws of one task-run.

Two subsets that share no draw are independent given the task, so comparing them is unbiased; averaging over
many redraws takes the luck of the subset out of the comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from elometer.rating.records import Floats, Integers

REDRAWS = 400
NO_VOTE = -1


@dataclass(frozen=True, slots=True)
class Pool:
    """The draws of one task-run, arrays of one length n.

    `votes`: a code for each answer, equal for equal ones, NO_VOTE for none. `scores`: what a draw scores,
    higher being better, NaN where its grader failed. `verified`: what the task's visible check says.
    """

    votes: Integers
    scores: Floats
    verified: Floats


@dataclass(frozen=True, slots=True)
class Rule:
    """How many draws a strategy takes, and by which rule it keeps one of them."""

    samples: int
    select: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What a strategy came to over redraws: its mean score (None where every kept draw's grader failed), the
    draw that it kept first (index from 0), and whether an even vote decided there."""

    mean_score: float | None
    first: int
    tied: bool


def judged(pool: Pool, rule: Rule, seed: int, redraws: int = REDRAWS) -> Kept:
    """A strategy by itself over redraws."""
    rng = np.random.default_rng(seed)
    kept, tied = _kept(pool, rule, _subsets(pool, (rule.samples,), redraws, rng)[0], rng)
    scores = pool.scores[kept]
    known = ~np.isnan(scores)
    mean = float(scores[known].mean()) if known.any() else None
    return Kept(mean, int(kept[0]), bool(tied[0]))


def win_shares(
    pool: Pool, one: Rule, other: Rule, seed: int, *, tie_epsilon: float = 0.0, redraws: int = REDRAWS
) -> tuple[float, float] | None:
    """How often each of two strategies scores more than the other on disjoint subsets; the rest are ties.

    A difference of at most `tie_epsilon` is a tie. Redraws in which a grader failed are left out; None where
    that leaves nothing. Raises ValueError where the pool is too small for both.
    """
    rng = np.random.default_rng(seed)
    mine, theirs = _subsets(pool, (one.samples, other.samples), redraws, rng)
    first = pool.scores[_kept(pool, one, mine, rng)[0]]
    second = pool.scores[_kept(pool, other, theirs, rng)[0]]
    known = ~(np.isnan(first) | np.isnan(second))
    if not known.any():
        return None
    with np.errstate(invalid="ignore"):
        difference = np.where(first == second, 0.0, first - second)[known]
    return float((difference > tie_epsilon).mean()), float((difference < -tie_epsilon).mean())


def _subsets(
    pool: Pool, sizes: tuple[int, ...], redraws: int, rng: np.random.Generator
) -> tuple[Integers, ...]:
    """Disjoint random subsets of these sizes: (redraws, size) indices, ascending in each row."""
    if sum(sizes) > len(pool.scores):
        raise ValueError(f"{len(pool.scores)} draws hold no disjoint subsets of {sizes}")
    order = np.argsort(rng.random((redraws, len(pool.scores))), axis=1)
    ends = np.cumsum((0, *sizes))
    return tuple(np.sort(order[:, start:end], axis=1) for start, end in pairwise(ends))


def _kept(
    pool: Pool, rule: Rule, subsets: Integers, rng: np.random.Generator
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """The draw that each subset keeps, and where an even vote decided."""
    rows, never = np.arange(len(subsets)), np.zeros(len(subsets), dtype=bool)
    match rule.select:
        case "first":
            return subsets[:, 0], never
        case "random":
            return subsets[rows, rng.integers(0, subsets.shape[1], len(subsets))], never
        case "oracle":
            scores = np.where(np.isnan(pool.scores), -np.inf, pool.scores)
            return subsets[rows, scores[subsets].argmax(axis=1)], never
        case "verifier":
            return subsets[rows, pool.verified[subsets].argmax(axis=1)], never
        case "majority" | "auto":
            return _majority(pool, subsets, rng)
        case other:
            raise ValueError(f"no selection rule {other} for a pool")


def _majority(
    pool: Pool, subsets: Integers, rng: np.random.Generator
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """The first draw of the answer with most votes, a seeded draw among equals; the first without votes."""
    votes = pool.votes[subsets]
    counts = (votes[:, :, None] == np.arange(max(int(votes.max()), 0) + 1)).sum(axis=1)
    most = counts.max(axis=1)
    # Less than half a vote, so that it decides among equals alone.
    winner = (counts + 0.5 * rng.random(counts.shape)).argmax(axis=1)
    place = np.where(most > 0, (votes == winner[:, None]).argmax(axis=1), 0)
    tied = (most > 0) & ((counts == most[:, None]).sum(axis=1) > 1)
    return subsets[np.arange(len(subsets)), place], tied
