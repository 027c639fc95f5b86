"""Controls against the demo's truth: a random choice gains nothing, an oracle's ceiling is the closed form."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runs.test_known_truth import loaded, measured

from elometer.gateway.demo.experiment import demo_experiment
from elometer.gateway.demo.tasks import short_tasks
from elometer.rating.fit import FitOptions, fit
from elometer.rating.records import RecordSet
from elometer.runs.result import pair_outcomes

SEEDS = 60
LISTED = "strategies: [sample_1, random_4, oracle_4]"


def test_a_random_choice_covers_zero_and_the_ceiling_is_any_of_four(tmp_path: Path) -> None:
    covered = 0
    measured_score = expected_score = 0.0
    for seed in range(SEEDS):
        spec, lines = demo_experiment(seed, experiment_id="controls", tasks=12, runs=3, k_values=[1, 2])
        old = "strategy: sample_k              # k separate answers to each task, then a majority vote"
        assert old in spec
        spec = spec.replace(old, LISTED).replace("  k_values: [1, 2]\n", "")
        experiment, tasks = loaded(tmp_path, spec, lines)
        truths = short_tasks(seed, 12)
        known = {task.id: truth for task, truth in zip(tasks, truths, strict=True)}
        outcomes = measured(experiment, tasks, known)  # type: ignore[arg-type]
        result = fit(
            RecordSet.from_records(pair_outcomes(experiment, outcomes)), None, FitOptions(anchor="sample_1")
        )
        assert [row.strategy for row in result.strategies] == ["random_4", "sample_1"]
        row = result.row("random_4")
        assert row.gain_lo is not None
        assert row.gain_hi is not None
        covered += row.gain_lo <= 0 <= row.gain_hi
        scores = [item.score or 0.0 for (_t, _r, name), item in outcomes.items() if name == "oracle_4"]
        measured_score += sum(scores) / len(scores) / SEEDS
        # One of four independent replies is right: 1 - (1 - p)^4 with p the chance of a single one.
        chances = [(1 - truth.silent) * truth.probabilities[0] for truth in truths]
        expected_score += sum(1 - (1 - p) ** 4 for p in chances) / len(chances) / SEEDS
    assert covered >= 52, covered  # P(fewer than 52 of 60 at 95 %) = 0.004
    # 2,160 blocks: a standard error below 0.011.
    assert measured_score == pytest.approx(expected_score, abs=0.035)
