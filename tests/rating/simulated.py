"""Simulated experiments with a known truth, for tests of coverage and speed."""

from __future__ import annotations

import numpy as np

from elometer.rating.estimators import bradley_terry
from elometer.rating.records import RecordSet

PER_LOGIT = 400.0 / np.log(10.0)


def ladder(size: int) -> tuple[str, ...]:
    """sample_1, sample_2, sample_4 …"""
    return tuple(f"sample_{2**k}" for k in range(size))


def record_set(wins: np.ndarray, ties: np.ndarray | None = None, names: tuple[str, ...] = ()) -> RecordSet:
    """(T, K, K) wins and (T, K, K) symmetric ties, one block per task."""
    tasks, size, _ = wins.shape
    low, high = np.triu_indices(size, 1)
    task = np.repeat(np.arange(tasks), len(low))
    low, high = np.tile(low, tasks), np.tile(high, tasks)
    ties = np.zeros_like(wins) if ties is None else ties
    first, second, tied = wins[task, low, high], wins[task, high, low], ties[task, low, high]
    return RecordSet(
        experiment_id=None,
        strategies=names or ladder(size),
        tasks=tuple(f"task-{t}" for t in range(tasks)),
        block_task=np.arange(tasks),
        block_run=np.ones(tasks, dtype=int),
        block_order=np.arange(tasks),
        cell_block=task,
        first=low,
        second=high,
        first_wins=first.astype(float),
        second_wins=second.astype(float),
        ties=tied.astype(float),
        records=(first + second + tied).astype(int),
        tied_records=tied.astype(int),
    )


def games(rng: np.random.Generator, theta: np.ndarray, each: int) -> np.ndarray:
    """(T, K, K) wins of `each` comparisons per pair and task, task t with abilities theta[t]."""
    chance = bradley_terry.probabilities(theta)
    wins = np.zeros(chance.shape)
    low, high = np.triu_indices(theta.shape[1], 1)
    drawn = rng.binomial(each, chance[:, low, high])
    wins[:, low, high], wins[:, high, low] = drawn, each - drawn
    return wins


def marginal_target(base: np.ndarray, spread: float, draws: int = 20_000) -> np.ndarray:
    """Elo that a pooled fit of endlessly many tasks gives: the fit of the expected scores on a random task."""
    rng = np.random.default_rng(99)
    size = len(base)
    expected = np.zeros((size, size))
    for _chunk in range(10):
        theta = base + spread * rng.standard_normal((draws // 10, size))
        expected += bradley_terry.probabilities(theta).sum(axis=0)
    expected = expected / draws * 1000.0
    np.fill_diagonal(expected, 0.0)
    found = bradley_terry.fit_maximum_likelihood(expected[None], np.zeros(size, dtype=int))
    return PER_LOGIT * (found.theta[0] - found.theta[0, 0])


def scored_tasks(rng: np.random.Generator, chance: np.ndarray, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """0/1 scores of each strategy in `runs` runs of each task (chance (T, K)), paired inside runs."""
    tasks, size = chance.shape
    right = rng.random((tasks, runs, size)) < chance[:, None, :]
    wins = (right[:, :, :, None] & ~right[:, :, None, :]).sum(axis=1).astype(float)
    ties = (right[:, :, :, None] == right[:, :, None, :]).sum(axis=1).astype(float)
    ties[:, np.arange(size), np.arange(size)] = 0.0
    return wins, ties
