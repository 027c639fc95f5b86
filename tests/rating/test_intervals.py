"""Intervals against closed forms, the jackknife and resampling."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from simulated import PER_LOGIT, games, record_set, scored_tasks

from elometer.rating import influence
from elometer.rating.bootstrap import drawn, task_bootstrap
from elometer.rating.comparisons import difference, pair_errors, probability_better, rank_ranges
from elometer.rating.fit import FitOptions, fit
from elometer.rating.influence import (
    halves_in_time,
    leave_one_task_out,
    most_influential_tasks,
    sensitivity,
    surprising_pairs,
)
from elometer.rating.pairs import BlockScores, pair_blocks
from elometer.rating.records import PairRecord, RecordSet
from elometer.rating.student import t_quantile, t_tail

MLE = FitOptions(estimator="mle")


@given(st.floats(1e-6, 1 - 1e-6), st.one_of(st.integers(1, 400), st.floats(0.5, 2000)))
def test_quantiles_of_t_are_those_of_scipy(probability: float, degrees: float) -> None:
    expected = float(special.stdtrit(degrees, probability))
    assert t_quantile(probability, degrees) == pytest.approx(expected, rel=1e-8, abs=1e-10)
    assert t_tail(expected, degrees) == pytest.approx(1 - probability, abs=1e-9)


@pytest.mark.parametrize(
    ("degrees", "table"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (29, 2.045), (math.inf, 1.960)]
)
def test_quantiles_of_t_are_those_of_the_printed_table(degrees: float, table: float) -> None:
    assert t_quantile(0.975, degrees) == pytest.approx(table, abs=5e-4)


def two_by_tasks(won: list[int], played: list[int]) -> RecordSet:
    wins = np.zeros((len(won), 2, 2))
    wins[:, 0, 1] = np.array(played) - won
    wins[:, 1, 0] = won
    return record_set(wins)


def test_cluster_interval_of_two_strategies_in_closed_form() -> None:
    """With equal task weights θ = logit of the mean rate, and its error that of a mean by the delta method."""
    won, played = [7, 1, 12, 4, 3], [10, 5, 15, 12, 4]
    row = fit(two_by_tasks(won, played), None, MLE).strategies[1]
    rates = np.array(won) / np.array(played)
    mean = rates.mean()
    error = rates.std(ddof=1) / math.sqrt(5) / (mean * (1 - mean))
    assert row.theta == pytest.approx(math.log(mean / (1 - mean)), abs=1e-8)
    assert row.se == pytest.approx(error, abs=1e-8)
    assert row.delta_lo == pytest.approx(PER_LOGIT * (row.theta - 2.7764451 * error), abs=1e-4)
    assert row.delta_hi == pytest.approx(PER_LOGIT * (row.theta + 2.7764451 * error), abs=1e-4)


def test_weight_by_records_and_over_runs() -> None:
    won, played = [7, 1, 12, 4, 3], [10, 5, 15, 12, 4]
    row = fit(two_by_tasks(won, played), None, FitOptions(estimator="mle", task_weight="records")).strategies[
        1
    ]
    assert row.theta == pytest.approx(math.log(27 / 19), abs=1e-8)


def blocks(tasks: int, runs: int, seed: int) -> RecordSet:
    rng = np.random.default_rng(seed)
    made = []
    for t in range(tasks):
        level = rng.normal()
        for r in range(runs):
            scores = {f"sample_{k}": float(level + 0.2 * math.log2(k) + rng.normal()) for k in (1, 2, 4)}
            made.append(BlockScores(f"t{t}", r, t * runs + r, scores))
    return RecordSet.from_records(pair_blocks("e", made))


def test_over_runs_each_task_is_a_stratum() -> None:
    """Two strategies, tasks fixed: the error of a stratified mean of block results."""
    rng = np.random.default_rng(3)
    made, results = [], np.zeros((4, 6))
    for t in range(4):
        for r in range(6):
            results[t, r] = rng.random() < 0.2 + 0.2 * t
            made.append(
                BlockScores(f"t{t}", r, 6 * t + r, {"sample_1": 0.5, "sample_2": float(results[t, r])})
            )
    records = RecordSet.from_records(pair_blocks("e", made))
    row = fit(records, None, FitOptions(estimator="mle", generalise="runs")).strategies[1]
    mean = results.mean()
    squares = ((results - results.mean(axis=1, keepdims=True)) ** 2).sum() / 24**2
    assert row.se == pytest.approx(math.sqrt(squares * 6 / 5) / (mean * (1 - mean)), rel=1e-6)


def test_one_task_is_the_models_and_says_so() -> None:
    result = fit(two_by_tasks([7], [10]), None, MLE)
    assert result.interval_basis == "model"
    assert result.strategies[1].se == pytest.approx(0.690066, abs=1e-6)
    assert any(each.code == "this_task_only" for each in result.warnings)


def test_tasks_that_all_say_the_same_give_no_interval_of_width_zero() -> None:
    result = fit(two_by_tasks([6, 6, 6, 6], [10, 10, 10, 10]), None, MLE)
    assert result.strategies[1].se == pytest.approx(math.sqrt(1 / 24 + 1 / 16), abs=1e-8)
    assert any(each.code == "no_spread" for each in result.warnings)


def test_a_strategy_in_one_task_only_has_no_interval_over_tasks() -> None:
    made = [BlockScores(f"t{n}", 1, n, {"a": n % 2, "b": (n + 1) % 3}) for n in range(6)]
    made += [BlockScores("t0", run, 100 + run, {"a": run % 2, "c": 0.5}) for run in range(2, 8)]
    result = fit(RecordSet.from_records(pair_blocks("e", made)), None, FitOptions(anchor="a"))
    assert result.row("c").identified
    assert result.row("c").gain_lo is None
    assert result.row("b").gain_lo is not None


def heterogeneous(tasks: int, size: int, each: int, seed: int = 1) -> RecordSet:
    rng = np.random.default_rng(seed)
    theta = 0.3 * np.arange(size) + 0.5 * rng.standard_normal((tasks, size))
    return record_set(games(rng, theta, each))


def test_cluster_errors_agree_with_jackknife_and_bootstrap() -> None:
    records = heterogeneous(60, 4, 8)
    result = fit(records, None, MLE)
    errors, degrees = pair_errors(result.estimate)
    assert (degrees[~np.eye(4, dtype=bool)] == 59).all()
    left_out = np.stack([each.delta for each in leave_one_task_out(records, MLE)])[:, 1:] / PER_LOGIT
    spread = left_out - left_out.mean(axis=0)
    jackknife = np.sqrt(59 / 60 * (spread**2).sum(axis=0))
    replicates = task_bootstrap(records, MLE, replicates=4000, seed=5)
    for s in (1, 2, 3):
        assert jackknife[s - 1] == pytest.approx(errors[s - 1, s], rel=0.03)
        resampled = replicates.standard_error(difference(4, s - 1, s)) * math.sqrt(60 / 59)
        assert resampled == pytest.approx(errors[s - 1, s], rel=0.06)
        assert result.strategies[s].delta_lo == pytest.approx(
            result.strategies[s].delta_elo - PER_LOGIT * 2.000995 * errors[s - 1, s], abs=1e-2
        )


@pytest.mark.parametrize("runs", [1, 3])
def test_errors_with_a_position_term_agree_with_the_jackknife_over_tasks(runs: int) -> None:
    """Who is shown first wins with a chance of 2 in 3 among equals, and tasks differ."""
    rng = np.random.default_rng(8)
    strength = np.array([0.0, 0.4, 0.8]) + 0.8 * rng.standard_normal((40, 3))
    lines = []
    for task, run, a, b in itertools.product(range(40), range(runs), range(3), range(3)):
        first = rng.random(6 // runs) < 1 / (1 + np.exp(strength[task, b] - strength[task, a] - math.log(2)))
        pair = {"experiment_id": "x", "task": f"t{task:02}", "run": run + 1, "a": f"s{a}", "b": f"s{b}"}
        for won in first.tolist() if a != b else []:
            winner, loser = (pair["a"], pair["b"]) if won else (pair["b"], pair["a"])
            lines.append(PairRecord(**pair, winner=winner, loser=loser, outcome="a" if won else "b"))
    records = RecordSet.from_records(lines)
    options = FitOptions(estimator="mle", position=True)
    result = fit(records, None, options)
    assert result.position is not None
    assert result.position[0] == pytest.approx(math.log(2), abs=0.2)
    assert not {"no_spread", "this_task_only"} & {each.code for each in result.warnings}
    errors, degrees = pair_errors(result.estimate)
    assert (degrees[~np.eye(3, dtype=bool)] == 39).all()
    without = [fit(records.restricted(records.block_task != t), None, options) for t in range(40)]
    left_out = np.array([[row.theta for row in each.strategies] for each in without])
    terms = np.array([each.position[0] for each in without])
    jackknife = np.sqrt(39 / 40 * ((terms - terms.mean()) ** 2).sum())
    assert result.position[1] == pytest.approx(jackknife, rel=0.04)
    for s in (1, 2):
        gap = left_out[:, s] - left_out[:, s - 1]
        jackknife = np.sqrt(39 / 40 * ((gap - gap.mean()) ** 2).sum())
        assert errors[s - 1, s] == pytest.approx(jackknife, rel=0.04)


def test_errors_under_davidson_agree_with_the_jackknife_over_tasks() -> None:
    rng = np.random.default_rng(3)
    chance = rng.beta(2, 2, (50, 1)) * np.array([[0.5, 0.7, 0.9]])
    records, options = record_set(*scored_tasks(rng, chance, 8)), FitOptions(estimator="davidson")
    result = fit(records, None, options)
    errors, _degrees = pair_errors(result.estimate)
    without = [fit(records.restricted(records.block_task != t), None, options) for t in range(50)]
    theta = np.array([[row.theta for row in each.strategies] for each in without])
    for found, error in (
        (theta[:, 1] - theta[:, 0], errors[0, 1]),
        (theta[:, 2] - theta[:, 1], errors[1, 2]),
        (np.array([each.log_nu[0] for each in without]), result.log_nu[1]),
    ):
        jackknife = np.sqrt(49 / 50 * ((found - found.mean()) ** 2).sum())
        assert error == pytest.approx(jackknife, rel=0.04)


def test_leaving_a_task_out_is_a_fit_without_it() -> None:
    records = heterogeneous(12, 4, 6)
    left_out = leave_one_task_out(records, MLE)
    for t in (0, 7):
        rest = fit(records.restricted(np.arange(12) != t), None, MLE)
        expected = [row.delta_elo for row in rest.strategies[1:]]
        np.testing.assert_allclose(left_out[t].delta[1:], expected, atol=1e-3)


def test_leaving_tasks_out_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    records = heterogeneous(11, 3, 6)
    whole = [each.delta for each in leave_one_task_out(records)]
    monkeypatch.setattr(influence, "TASKS_AT_ONCE", 3)
    np.testing.assert_array_equal(whole, [each.delta for each in leave_one_task_out(records)])


def test_bootstrap_is_seeded_and_finite_where_a_strategy_hardly_wins() -> None:
    wins = np.zeros((8, 3, 3))
    wins[:, 0, 1] = wins[:, 1, 0] = 3
    wins[:, 0, 2] = wins[:, 1, 2] = 4
    wins[0, 2, 0] = 1  # the only win of the third: absent from a third of the replicates
    records = record_set(wins)
    one, again, other = (task_bootstrap(records, replicates=300, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.theta, again.theta)
    assert not np.array_equal(one.theta, other.theta)
    assert np.abs(one.theta).max() < 8


def test_bootstrap_of_runs_within_tasks_is_wider_than_nothing_and_seeded() -> None:
    records = blocks(12, 5, seed=2)
    both = task_bootstrap(records, replicates=2000, seed=1, runs_within_tasks=True)
    tasks = task_bootstrap(records, replicates=2000, seed=1)
    weights = difference(3, 0, 2)
    assert both.standard_error(weights) > tasks.standard_error(weights)
    assert both.standard_error(weights) < 2 * tasks.standard_error(weights)
    low, high = both.percentiles(weights, 0.95)
    assert low < fit(records).estimate.theta @ weights < high


def test_bootstrap_replicates_are_the_fits_of_their_tasks() -> None:
    records = heterogeneous(9, 4, 10)
    times = drawn(np.random.default_rng(11), 5, 9)
    assert (times.sum(axis=1) == 9).all()
    made = task_bootstrap(records, MLE, replicates=5, seed=11)
    for replicate, counts in enumerate(times):
        wins = np.repeat(records.wins, counts, axis=0)
        again = fit(record_set(wins), None, MLE)
        expected = [row.theta for row in again.strategies]
        np.testing.assert_allclose(made.theta[replicate] - made.theta[replicate, 0], expected, atol=1e-5)


def test_simultaneous_intervals_are_wider_and_bounded_by_bonferroni() -> None:
    result = fit(heterogeneous(40, 5, 6))
    for row in result.strategies[1:]:
        half = (row.delta_hi - row.delta_lo) / 2
        together = (row.delta_simultaneous_hi - row.delta_simultaneous_lo) / 2
        bonferroni = half * t_quantile(1 - 0.025 / 4, 39) / t_quantile(0.975, 39)
        assert half < together < bonferroni * 1.03


def test_rank_ranges_and_probability_better() -> None:
    clear = fit(record_set(games(np.random.default_rng(1), np.tile([0.0, 3.0, 6.0], (30, 1)), 20)))
    assert [(row.rank_lo, row.rank_hi) for row in clear.strategies] == [(3, 3), (2, 2), (1, 1)]
    equal = fit(record_set(games(np.random.default_rng(1), np.zeros((30, 3)), 20)))
    assert [(row.rank_lo, row.rank_hi) for row in equal.strategies] == [(1, 3)] * 3
    better = probability_better(clear.estimate)
    assert better[2, 0] > 0.999
    np.testing.assert_allclose(better + better.T, 1.0)
    row = equal.strategies[1]
    expected = 1 - t_tail(row.theta / row.se, 29)
    assert probability_better(equal.estimate)[1, 0] == pytest.approx(expected)
    assert rank_ranges(clear.estimate, 0.95, 0) == [(3, 3), (2, 2), (1, 1)]


def test_most_influential_tasks_and_pairs() -> None:
    wins = np.zeros((10, 3, 3))
    wins[:, 0, 1] = wins[:, 1, 0] = wins[:, 1, 2] = wins[:, 2, 1] = wins[:, 0, 2] = wins[:, 2, 0] = 5
    wins[4, 1, 0], wins[4, 0, 1] = 10, 0
    result = fit(record_set(wins))
    first = most_influential_tasks(result, "sample_1", "sample_2")[0]
    assert first.task == "task-4"
    assert first.moves > 0
    assert first.share > 0.85
    cycle = np.zeros((1, 3, 3))
    cycle[0, 0, 1] = cycle[0, 1, 2] = cycle[0, 2, 0] = 30
    cycle[0, 1, 0] = cycle[0, 2, 1] = cycle[0, 0, 2] = 10
    pairs = surprising_pairs(fit(record_set(cycle)))
    assert len(pairs) == 3
    assert all(abs(pair.z) == pytest.approx(0.25 / math.sqrt(0.25 / 40), abs=1e-6) for pair in pairs)


def test_halves_in_time_see_a_drift_and_no_other() -> None:
    rng = np.random.default_rng(8)
    made = []
    for n in range(400):
        gain = 1.5 if n >= 200 else 0.0
        made.append(
            BlockScores(
                f"t{n % 20}", n, n,
                {"sample_1": rng.normal(), "sample_2": rng.normal(), "sample_4": gain + rng.normal()},
            )
        )  # fmt: skip
    rows = halves_in_time(RecordSet.from_records(pair_blocks("e", made)))
    assert rows[0].difference == 0.0
    assert rows[1].p > 0.05
    assert rows[2].p < 0.001
    assert rows[2].difference > 100


def test_sensitivity_names_what_cannot_be_had() -> None:
    strip = {each.label: each for each in sensitivity(blocks(10, 3, seed=4))}
    assert strip["ties half"].elo == pytest.approx(strip["as fitted"].elo)
    assert strip["ties davidson"].elo == (None,) * 3  # continuous scores have no ties
    assert "ties" in strip["ties davidson"].why_not
    assert strip["mean of tasks"].elo[0] == 1000.0
