"""What tokens buy: marginals, the reference of best-of-n, curvature, knee, power."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated import PER_LOGIT, games, ladder, record_set

from elometer.rating.economics import (
    best_of_n_doubling,
    comparisons_needed,
    detectable_before,
)
from elometer.rating.fit import FitOptions, FitResult, TokenUse, fit
from elometer.rating.pairs import BlockScores, pair_blocks
from elometer.rating.records import RecordSet


def use_of(tokens: np.ndarray, totals: dict[str, int] | None = None) -> TokenUse:
    """Tokens (T, K) of one run per task of a ladder."""
    names = ladder(tokens.shape[1])
    return TokenUse(
        charged={
            (name, f"task-{t}", 1): float(tokens[t, s])
            for t in range(len(tokens))
            for s, name in enumerate(names)
        },
        total_tokens=totals or dict(zip(names, tokens.sum(axis=0).astype(int).tolist(), strict=True)),
        calls=dict.fromkeys(names, len(tokens)),
    )


def plateau(tasks: int = 60, elo: tuple[float, ...] = (0, 120, 180, 200, 200), seed: int = 2) -> RecordSet:
    rng = np.random.default_rng(seed)
    theta = np.array(elo) / PER_LOGIT + 0.3 * rng.standard_normal((tasks, len(elo)))
    return record_set(games(rng, theta, 5))


def constant(tasks: int, size: int, each: float = 500.0) -> np.ndarray:
    return np.tile(each * 2.0 ** np.arange(size), (tasks, 1))


def test_the_reference_line() -> None:
    assert best_of_n_doubling() == pytest.approx(120.411998, abs=1e-6)


def test_exact_best_of_n_marginals() -> None:
    """Expected shares n/(n+m): Elo 400 log10 n, marginal 120.412 / (n c) for c thousand tokens per sample."""
    rungs = np.array([1.0, 2, 4, 8, 16])
    wins = 400 * rungs[:, None] / (rungs[:, None] + rungs[None, :])
    np.fill_diagonal(wins, 0)
    wins = np.tile(wins, (3, 1, 1))
    result = fit(record_set(wins), use_of(constant(3, 5)), FitOptions(estimator="mle"))
    for n, row in zip(rungs[:-1], result.strategies[1:], strict=True):
        assert row.delta_elo == pytest.approx(120.411998, abs=1e-5)
        assert row.elo_per_doubling == pytest.approx(120.411998, abs=1e-5)
        assert row.marginal_per_1k_task_run == pytest.approx(120.411998 / (0.5 * n), abs=1e-5)
        assert row.elo_per_1k == pytest.approx(400 * math.log10(2 * n) / (0.5 * (2 * n - 1)), abs=1e-5)
    assert result.curvature is not None
    assert result.curvature.value == pytest.approx(0.0, abs=1e-6)


def test_founding_column_is_on_total_tokens_and_the_other_on_task_runs() -> None:
    records = plateau()
    totals = {"sample_1": 12000, "sample_2": 23000, "sample_4": 45000, "sample_8": 89000, "sample_16": 178000}
    result = fit(records, use_of(constant(60, 5), totals))
    row = result.row("sample_4")
    assert row.delta_token == 22000
    assert row.marginal_elo_per_1k == pytest.approx(1000 * row.delta_elo / 22000)
    assert row.marginal_per_1k_task_run == pytest.approx(row.delta_elo / 1.0)
    assert row.tokens_per_task_run == 2000


def test_tokens_without_spread_leave_the_interval_of_the_difference() -> None:
    result = fit(plateau(), use_of(constant(60, 5)))
    for row in result.strategies[1:]:
        gap = (row.tokens_per_task_run - result.row(row.compared_with).tokens_per_task_run) / 1000
        assert row.marginal_basis == "delta"
        assert row.marginal_lo == pytest.approx(row.delta_lo / gap)
        assert row.marginal_hi == pytest.approx(row.delta_hi / gap)


def test_fieller_set_is_the_set_of_ratios_that_are_not_refused() -> None:
    records = plateau(tasks=12)
    rng = np.random.default_rng(1)
    tokens = constant(12, 5) * np.exp(rng.normal(0, 0.9, (12, 5)))
    result = fit(records, use_of(tokens))
    tested = 0
    for s, row in enumerate(result.strategies):
        if row.marginal_basis != "fieller":
            continue
        tested += 1
        weights = np.zeros(5)
        weights[s], weights[s - 1] = 1, -1
        elo = PER_LOGIT * (result.estimate.influence @ weights)
        gaps = (tokens[:, s] - tokens[:, s - 1]) / 1000
        for ratio in np.linspace(row.marginal_lo - 300, row.marginal_hi + 300, 4001):
            each = elo - ratio * (gaps - gaps.mean()) / 12
            error = math.sqrt(12 / 11 * (each @ each))
            inside = abs(row.delta_elo - ratio * gaps.mean()) <= 2.200985 * error
            near = min(abs(ratio - row.marginal_lo), abs(ratio - row.marginal_hi)) < 0.5
            assert near or inside == (row.marginal_lo <= ratio <= row.marginal_hi)
    assert tested


def test_a_token_gap_that_may_be_zero_has_no_interval() -> None:
    tokens = constant(10, 5)
    tokens[:, 1] = tokens[:, 0] + np.array([500, -400] * 5)
    result = fit(plateau(tasks=10), use_of(tokens))
    row = result.row("sample_2")
    assert row.marginal_basis == "no extra cost measured"
    assert (row.marginal_lo, row.marginal_hi) == (None, None)
    assert any(each.code == "no_extra_cost_measured" for each in result.warnings)


def test_fewer_tokens_have_no_price_and_may_dominate() -> None:
    tokens = constant(60, 5)
    tokens[:, 1] = tokens[:, 0] - 1
    result = fit(plateau(), use_of(tokens))
    row = result.row("sample_2")
    assert row.marginal_per_1k_task_run is None
    assert row.marginal_elo_per_1k is None
    assert any("dominates" in each.message for each in result.warnings)


def test_tokens_of_excluded_blocks_are_shown_apart() -> None:
    made = [BlockScores(f"t{n}", 1, n, {"sample_1": n % 2, "sample_2": (n + 1) % 3}) for n in range(5)]
    made.append(BlockScores("t9", 1, 9, {"sample_1": None, "sample_2": 1.0}))
    charged = {
        (s, f"t{n}", 1): 100.0 * k
        for n in (0, 1, 2, 3, 4, 9)
        for k, s in enumerate(("sample_1", "sample_2"), 1)
    }
    totals = {"sample_1": 650, "sample_2": 1200}
    result = fit(
        RecordSet.from_records(pair_blocks("e", made)),
        TokenUse(charged, totals, calls={"sample_1": 7, "sample_2": 12}, estimated_tokens={"sample_2": 300}),
    )
    one, two = result.strategies
    assert (one.excluded, two.excluded) == (1, 1)
    assert one.unused_token_share == pytest.approx(150 / 650)
    assert two.unused_token_share == pytest.approx(200 / 1200)
    assert two.estimated_token_share == 0.25
    assert one.tokens_per_task_run == 100
    assert (one.total_tokens, one.calls, one.tasks, one.runs) == (650, 7, 5, 5)


def test_both_token_axes_where_a_cache_was_used() -> None:
    full = use_of(constant(60, 5))
    use = TokenUse(full.charged, full.total_tokens, uncached={k: v / 4 for k, v in full.charged.items()})
    row = fit(plateau(), use).row("sample_8")
    assert row.uncached_per_task_run == pytest.approx(row.tokens_per_task_run / 4)
    assert row.marginal_per_1k_uncached == pytest.approx(4 * row.marginal_per_1k_task_run)


def test_records_without_tasks_are_priced_without_spread() -> None:
    from elometer.rating.reading import RecordReader

    reader = RecordReader()
    reader.add_jsonl(b'["sample_1","sample_2"]\n["sample_2","sample_1"]\n["sample_2","sample_1"]\n')
    result = fit(reader.finish(), TokenUse({("sample_1", "x", 1): 100.0, ("sample_2", "x", 1): 250.0}, {}))
    row = result.row("sample_2")
    assert row.marginal_per_1k_task_run == pytest.approx(row.delta_elo / 0.15)
    assert row.marginal_basis == "fixed"
    assert any(each.code == "tokens_not_joined" for each in result.warnings)


def test_diminishing_returns_are_seen_on_a_plateau_and_not_on_the_reference_line() -> None:
    flat = fit(plateau(tasks=100), use_of(constant(100, 5)))
    assert flat.curvature is not None
    assert flat.curvature.p_diminishing < 0.001
    assert "diminish faster than the logarithm" in " ".join(flat.returns)
    straight = fit(plateau(100, tuple(120.412 * n for n in range(5)), seed=5), use_of(constant(100, 5)))
    assert straight.curvature is not None
    assert straight.curvature.p_diminishing > 0.01
    assert straight.curvature.low < 0 < straight.curvature.high or straight.curvature.low > 0


def test_curvature_needs_four_budgets() -> None:
    result = fit(plateau(elo=(0, 100, 150)), use_of(constant(60, 3)))
    assert result.curvature is None
    assert "not tested" in " ".join(result.returns)


def test_a_knee_needs_a_margin_and_enough_tasks() -> None:
    """With few tasks an overlap rule would call sample_2 the knee, 80 Elo short of the best."""
    few = knee_of(fit(plateau(tasks=10), use_of(constant(10, 5))))
    assert few[0] is None
    assert few[2] is None or few[2] > 10
    many = knee_of(fit(plateau(tasks=2000), use_of(constant(2000, 5))))
    assert many[0] == "sample_4"


def test_the_best_is_the_knee_where_all_cheaper_ones_are_surely_worse() -> None:
    result = fit(plateau(tasks=200, elo=(0, 200, 400, 600, 800)), use_of(constant(200, 5)))
    assert knee_of(result)[0] == "sample_16"
    assert "Knee: sample_16, the best; all that are cheaper lie more than 25 Elo below it." in result.returns


def knee_of(result: FitResult) -> tuple[str | None, str | None, int | None]:
    knee = result.knee
    assert knee is not None
    names = ladder(5)
    return (
        None if knee.strategy is None else names[knee.strategy],
        None if knee.candidate is None else names[knee.candidate],
        knee.tasks_needed,
    )


@pytest.mark.parametrize(
    ("gap", "needed"),
    [(10, 9483), (20, 2377), (35, 782), (50, 387), (75, 177), (100, 103), (120.4, 74), (200, 33)],
)
def test_comparisons_needed_for_one_pair(gap: float, needed: int) -> None:
    assert comparisons_needed(gap) == needed


def test_power_of_a_measured_difference() -> None:
    result = fit(plateau(tasks=30))
    row = result.row("sample_4")
    error = (row.delta_hi - row.delta_lo) / 2 / 2.0452296
    assert row.detectable_delta_elo == pytest.approx((2.0452296 + 0.8416212) * error, rel=1e-6)
    expected = 30 * ((2.0452296 + 0.8416212) * error / row.delta_elo) ** 2
    assert row.tasks_needed == math.ceil(expected)


def test_detectable_before_a_run() -> None:
    """4 · 173.72 Elo per unit of score, (1.96 + 0.8416) standard errors of a paired score."""
    assert detectable_before(290) == pytest.approx(694.87 * 2.80159 * 0.35 / math.sqrt(290), rel=1e-4)


def test_controls_and_ceilings_are_no_rungs() -> None:
    made = [
        BlockScores(
            f"t{n}", 1, n, {"oracle_8": 1.0, "random_8": n % 2, "sample_1": n % 3 > 0, "sample_8": n % 5 > 0}
        )
        for n in range(30)
    ]
    result = fit(RecordSet.from_records(pair_blocks("e", made)))
    assert [row.role for row in result.strategies] == ["ceiling", "control", "strategy", "strategy"]
    assert result.anchor == "sample_1"
    assert [row.compared_with for row in result.strategies] == [None, None, None, "sample_1"]
    assert result.row("sample_8").k == 8
