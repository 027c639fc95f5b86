"""Coverage by simulation: `pytest -m slow tests/rating/test_coverage.py` (about two minutes on one core)."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import PER_LOGIT, games, ladder, marginal_target, record_set, scored_tasks

from elometer.rating.estimators import bradley_terry
from elometer.rating.fit import fit
from elometer.rating.tokens import TokenUse

pytestmark = pytest.mark.slow

GAP = 0.3  # logits between rungs
REPEATS = 800


def share(hits: list[bool]) -> float:
    return sum(hits) / len(hits)


@pytest.mark.parametrize("tasks", [5, 10, 30, 100])
@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_default_interval_covers_its_level(tasks: int, spread: float) -> None:
    base = GAP * np.arange(5)
    truth = np.diff(marginal_target(base, spread))
    rng = np.random.default_rng([2026, tasks, int(10 * spread)])
    hits, together = [], []
    for _ in range(REPEATS):
        theta = base + spread * rng.standard_normal((tasks, 5))
        rows = fit(record_set(games(rng, theta, 5))).strategies[1:]
        if any(row.delta_lo is None for row in rows):
            continue
        hits.extend(row.delta_lo <= d <= row.delta_hi for row, d in zip(rows, truth, strict=True))
        together.append(
            all(
                row.delta_simultaneous_lo <= d <= row.delta_simultaneous_hi
                for row, d in zip(rows, truth, strict=True)
            )
        )
    assert len(hits) > 0.98 * 4 * REPEATS
    assert 0.93 <= share(hits) <= 0.97, share(hits)
    # Bonferroni, used with few tasks, errs on the side of width.
    assert 0.92 <= share(together) <= 0.99, share(together)


@pytest.mark.parametrize("tasks", [2, 3, 4])
def test_even_two_to_four_tasks_are_covered(tasks: int) -> None:
    base = GAP * np.arange(5)
    truth = np.diff(marginal_target(base, 0.7))
    rng = np.random.default_rng([7, tasks])
    hits = []
    for _ in range(REPEATS):
        rows = fit(record_set(games(rng, base + 0.7 * rng.standard_normal((tasks, 5)), 5))).strategies[1:]
        hits.extend(
            row.delta_lo <= d <= row.delta_hi
            for row, d in zip(rows, truth, strict=True)
            if row.delta_lo is not None
        )
    assert 0.93 <= share(hits) <= 0.97, share(hits)


@pytest.mark.parametrize("tasks", [10, 30, 100])
def test_a_null_strategy_covers_zero(tasks: int) -> None:
    """random_8 draws one of eight answers: the accuracy of sample_1 by construction."""
    rng = np.random.default_rng([8, tasks])
    names = ("random_8", "sample_1", "sample_8")
    hits = []
    for _ in range(REPEATS):
        single = rng.beta(0.8, 0.8, tasks)
        chance = np.stack([single, single, np.clip(single + 0.15 * rng.random(tasks), 0, 1)], axis=1)
        wins, ties = scored_tasks(rng, chance, runs=3)
        row = fit(record_set(wins, ties, names)).row("random_8")
        assert row.gain_lo is not None
        hits.append(row.gain_lo <= 0.0 <= row.gain_hi)
    assert 0.93 <= share(hits) <= 0.98, share(hits)


@pytest.mark.parametrize("tasks", [8, 20, 60])
def test_marginal_interval_covers_its_level(tasks: int) -> None:
    """Tokens are log-normal and grow with a task's difficulty, which also narrows what a rung gains."""
    size, each = 5, 5
    rungs = 2.0 ** np.arange(size)
    many = np.random.default_rng(5)
    hard = many.standard_normal(20_000)
    gains = _abilities(hard, many)
    expected = bradley_terry.probabilities(gains).mean(axis=0) * 1000.0
    np.fill_diagonal(expected, 0.0)
    elo = bradley_terry.fit_maximum_likelihood(expected[None], np.zeros(size, dtype=int)).theta[0] * PER_LOGIT
    mean_tokens = 100.0 * np.exp(0.5 * hard).mean() * np.exp(0.02) * rungs
    truth = 1000.0 * np.diff(elo) / np.diff(mean_tokens)
    rng = np.random.default_rng([17, tasks])
    hits = []
    for _ in range(REPEATS):
        hard = rng.standard_normal(tasks)
        records = record_set(games(rng, _abilities(hard, rng), each))
        tokens = (
            100.0 * np.exp(0.5 * hard)[:, None] * rungs * np.exp(0.2 * rng.standard_normal((tasks, size)))
        )
        use = TokenUse(
            charged={
                (name, f"task-{t}", 1): tokens[t, s]
                for t in range(tasks)
                for s, name in enumerate(ladder(size))
            },
            total_tokens=dict(zip(ladder(size), tokens.sum(axis=0).astype(int).tolist(), strict=True)),
        )
        for row, m in zip(fit(records, use).strategies[1:], truth, strict=True):
            if row.marginal_lo is None:  # Fieller's set is the whole line: it covers
                hits.append(True)
            else:
                hits.append(row.marginal_lo <= m <= row.marginal_hi)
    assert 0.93 <= share(hits) <= 0.97, share(hits)


def _abilities(hard: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    rung = np.arange(5)
    return rung * (0.3 - 0.1 * hard)[:, None] + 0.4 * rng.standard_normal((len(hard), 5))
