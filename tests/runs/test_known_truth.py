"""The demo's truth in closed form against what selection, grading, pairing and fit measure.

Answers come from the gateway's own pure function under the seeds that a start would send, so this is a
start without the wire. Right values: exact sums over multinomial counts, and n / (n + m) for best-of-n.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import binomtest

from elometer.core.attempt import Attempt
from elometer.gateway.demo.experiment import continuous_experiment, demo_experiment
from elometer.gateway.demo.tasks import continuous_tasks, short_tasks
from elometer.gateway.demo.truth import answer, strategy_truths, true_accuracy
from elometer.rating.fit import FitOptions, fit
from elometer.rating.records import RecordSet
from elometer.runs.block import settle
from elometer.runs.graders import extract, grade
from elometer.runs.journal import Outcome, Sample
from elometer.runs.plan import block_order
from elometer.runs.result import pair_outcomes
from elometer.runs.spec import Experiment, load_experiment
from elometer.runs.strategies import sample_seed
from elometer.runs.tasks import Task, load_tasks

SEEDS = 100


def loaded(folder: Path, spec: str, tasks: str) -> tuple[Experiment, list[Task]]:
    (folder / "experiment.yaml").write_text(spec)
    (folder / "tasks.jsonl").write_text(tasks)
    experiment = load_experiment(folder / "experiment.yaml")
    return experiment, load_tasks(experiment, folder)


def measured(
    experiment: Experiment, tasks: list[Task], truths: dict[str, object]
) -> dict[tuple[str, int, str], Outcome]:
    """Outcomes of all blocks, as a start derives them from answers."""
    known = {task.id: task for task in tasks}
    outcomes = {}
    for block in block_order(experiment, tasks):
        for strategy in experiment.strategies:
            samples = {}
            for number in range(1, strategy.samples + 1):
                seed = sample_seed(experiment.seed, block.task, block.run, strategy.name, number)
                line = Attempt(
                    experiment_id="e", strategy=strategy.name, task=block.task, run=block.run, model="m", timestamp=""
                )  # fmt: skip
                text = answer(truths[block.task], seed)  # type: ignore[arg-type]
                samples[number] = Sample(
                    call_id=f"{block.task}{block.run}{strategy.name}{number}",
                    strategy=strategy.name,
                    task=block.task,
                    run=block.run,
                    sample=number,
                    text=text,
                    extracted=extract(known[block.task], text),
                    attempt=line,
                )
            found = settle(experiment, known[block.task], block.run, block.index, strategy, samples)
            outcomes[block.task, block.run, strategy.name] = found
    return outcomes


def test_true_accuracy_lies_in_the_measured_interval_for_at_least_90_of_100_seeds(tmp_path: Path) -> None:
    covered = dict.fromkeys(("sample_1", "sample_2", "sample_4", "sample_8", "sample_16"), 0)
    for seed in range(SEEDS):
        spec, lines = demo_experiment(seed, experiment_id="truth", tasks=12, runs=3)
        experiment, tasks = loaded(tmp_path, spec, lines)
        truths = short_tasks(seed, 12)
        outcomes = measured(
            experiment, tasks, {task.id: known for task, known in zip(tasks, truths, strict=True)}
        )
        for name, accuracy in true_accuracy(truths).items():
            scores = [item.score for (_t, _r, strategy), item in outcomes.items() if strategy == name]
            # With fixed tasks of different difficulty the number of right answers varies less than a binomial
            # one (Hoeffding 1956), so the exact binomial interval covers at least what it says.
            exact = binomtest(int(sum(score or 0 for score in scores)), len(scores)).proportion_ci(0.95)
            covered[name] += exact.low <= accuracy <= exact.high
    assert min(covered.values()) >= 90, covered


def test_the_closed_forms_marginal_elo_falls_with_k() -> None:
    for seed in range(20):
        prices = [truth.marginal_elo_per_1k for truth in strategy_truths(short_tasks(seed, 20))]
        assert prices[0] is None
        falling = [price for price in prices if price is not None]
        assert falling == sorted(falling, reverse=True), (seed, falling)


def test_oracle_best_of_n_gains_120_elo_a_doubling(tmp_path: Path) -> None:
    truths = continuous_tasks(5, 60)
    spec, lines = continuous_experiment(5, experiment_id="oracle", tasks=60, runs=6)
    experiment, tasks = loaded(tmp_path, spec, lines)
    outcomes = measured(
        experiment, tasks, {task.id: known for task, known in zip(tasks, truths, strict=True)}
    )
    records = RecordSet.from_records(pair_outcomes(experiment, outcomes))
    result = fit(records, None, FitOptions(anchor="best_1"))
    assert result.tie_rate == 0
    for row in result.strategies[1:]:
        assert row.delta_lo is not None
        assert row.delta_hi is not None
        assert row.delta_lo <= 120.411998 <= row.delta_hi, row
    last = result.row("best_16")
    assert last.elo == pytest.approx(1000 + 4 * 120.411998, abs=60)
    assert grade(tasks[0], "1", "1").score < 0
