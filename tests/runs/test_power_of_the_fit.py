"""The stated detectable ΔElo against the product's own fit: how often its interval of the difference leaves zero."""

from __future__ import annotations

import math

import numpy as np
import pytest

from elometer.rating.fit import fit
from elometer.rating.records import RecordSet
from elometer.runs.power import INTRA_TASK, SCORE_SD, SHARED_SD, detectable_delta_elo, score_sd

REPEATS = 400


def drawn(
    rng: np.random.Generator, clusters: int, runs: int, elo: float, at_null: float = SCORE_SD
) -> RecordSet:
    """Two strategies compared once in each (task, run), the second better by `elo`, alike within tasks."""
    score = 1 / (1 + 10 ** (-elo / 400)) - 0.5
    decisive = 4 * (score_sd(score, at_null) ** 2 + score**2)
    won, lost = decisive / 2 + score, decisive / 2 - score
    shape = (clusters, runs)
    common = rng.random((clusters, 1)) * np.ones(shape)
    # With probability √ρ a run takes its task's common draw.
    uniform = np.where(rng.random(shape) < math.sqrt(INTRA_TASK), common, rng.random(shape))
    second = (uniform < won).sum(axis=1).astype(float)
    first = ((uniform >= won) & (uniform < won + lost)).sum(axis=1).astype(float)
    task = np.arange(clusters)
    return RecordSet(
        experiment_id=None,
        strategies=("sample_1", "sample_2"),
        tasks=tuple(f"task-{t}" for t in range(clusters)),
        block_task=task,
        block_run=np.ones(clusters, dtype=int),
        block_order=task,
        cell_block=task,
        first=np.zeros(clusters, dtype=int),
        second=np.ones(clusters, dtype=int),
        first_wins=first,
        second_wins=second,
        ties=runs - first - second,
        records=np.full(clusters, runs),
        tied_records=(runs - first - second).astype(int),
    )


@pytest.mark.parametrize("at_null", [SCORE_SD, SHARED_SD])
@pytest.mark.parametrize(("clusters", "runs"), [(10, 3), (20, 3), (60, 1), (100, 3)])
def test_the_fit_resolves_the_stated_difference_in_about_80_of_100_experiments(
    clusters: int, runs: int, at_null: float
) -> None:
    elo = detectable_delta_elo(clusters, clusters * runs, at_null=at_null)
    assert elo is not None
    rng = np.random.default_rng([20261129, clusters, runs])
    found = [
        (row := fit(drawn(rng, clusters, runs, elo, at_null)).row("sample_2")).delta_lo is not None
        and row.delta_lo > 0
        for _ in range(REPEATS)
    ]
    assert 0.75 <= np.mean(found) <= 0.85, np.mean(found)


def test_without_a_difference_the_fit_resolves_none_more_often_than_it_says() -> None:
    rng = np.random.default_rng(5)
    found = []
    for _ in range(200):
        row = fit(drawn(rng, 20, 3, 0.0)).row("sample_2")
        found.append(row.delta_lo is not None and (row.delta_lo > 0 or (row.delta_hi or 0) < 0))
    # Two-sided 5 %: of 200 at most 19 with a chance of 99.7 %.
    assert sum(found) <= 19
