"""Coverage by simulation: `pytest -m slow tests/rating/test_coverage.py` (about two minutes on one core)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from simulated import PER_LOGIT, games, ladder, marginal_target, record_set, scored_tasks

from elometer.rating.estimators import bradley_terry, position
from elometer.rating.fit import FitOptions, fit
from elometer.rating.records import RecordSet
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


def ordered_set(rng: np.random.Generator, theta: np.ndarray, first: float, each: int) -> RecordSet:
    """`each` games of every ordered pair in every task, being shown first worth `first` logits."""
    tasks, size = theta.shape
    one, two = (side.ravel() for side in np.where(~np.eye(size, dtype=bool)))
    chance = 1 / (1 + np.exp(theta[:, two] - theta[:, one] - first))
    won = rng.binomial(each, chance).ravel().astype(float)
    task = np.repeat(np.arange(tasks), len(one))
    nothing = np.zeros(len(task))
    return RecordSet(
        None, ladder(size), tuple(f"task-{t}" for t in range(tasks)), np.arange(tasks),
        np.ones(tasks, dtype=int), np.arange(tasks), task, np.tile(one, tasks), np.tile(two, tasks),
        won, each - won, nothing, np.full(len(task), each), nothing.astype(int), ordered=True,
    )  # fmt: skip


@pytest.mark.parametrize("tasks", [5, 10, 30])
@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_intervals_with_a_position_term_cover_their_level(tasks: int, spread: float) -> None:
    base, first = GAP * np.arange(4), 0.5
    many = base + spread * np.random.default_rng(99).standard_normal((100_000, 4))
    expected = np.zeros((4, 4))
    for i, j in itertools.permutations(range(4), 2):
        expected[i, j] = (1 / (1 + np.exp(many[:, j] - many[:, i] - first))).mean() * 1000
    played = 1000.0 * (1 - np.eye(4))
    truth = PER_LOGIT * np.diff(position.fit_position(expected, played, penalised=False).theta[0, :4])
    rng = np.random.default_rng([11, tasks, int(10 * spread)])
    hits = []
    for _ in range(400):
        theta = base + spread * rng.standard_normal((tasks, 4))
        rows = fit(ordered_set(rng, theta, first, 3), None, FitOptions(position=True)).strategies[1:]
        hits.extend(row.delta_lo <= d <= row.delta_hi for row, d in zip(rows, truth, strict=True))
    assert 0.93 <= share(hits) <= 0.97, share(hits)


@pytest.mark.parametrize("tasks", [5, 10, 30])
def test_pairs_broken_from_rankings_are_covered(tasks: int) -> None:
    """PlackettLuce #45: pairs of one ranking are not independent. Those of Luce's model are Bradley-Terry's.

    θ plus a standard Gumbel number each, sorted, is a ranking by Luce's model (Yellott 1977).
    """
    base = GAP * np.arange(5)
    rng = np.random.default_rng([45, tasks])
    hits = []
    for _ in range(REPEATS):
        worth = base + rng.gumbel(size=(tasks, 5, 5))  # task, ranking, strategy
        wins = (worth[..., :, None] > worth[..., None, :]).sum(axis=1).astype(float)
        rows = fit(record_set(wins)).strategies[1:]
        hits.extend(
            row.delta_lo <= PER_LOGIT * GAP <= row.delta_hi for row in rows if row.delta_lo is not None
        )
    assert len(hits) > 0.98 * 4 * REPEATS
    assert 0.93 <= share(hits) <= 0.97, share(hits)
