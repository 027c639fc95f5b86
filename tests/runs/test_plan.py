"""Order of blocks and calls, what a plan costs, and the power it states."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from elometer.core.errors import UsageError
from elometer.runs.costs import Estimate, PilotLine, from_pilot, from_table, read_token_table
from elometer.runs.findings import lint
from elometer.runs.plan import Plan, block_order, call_order, make_plan
from elometer.runs.power import detectable_delta_elo, score_sd
from elometer.runs.sharing import calls_per_block, with_plan
from elometer.runs.spec import Experiment, load_experiment

FOUNDING = Path(__file__).parents[1] / "fixtures" / "founding"
BEFORE = datetime(2025, 12, 1, tzinfo=UTC)


@pytest.fixture
def founding() -> Experiment:
    return load_experiment(FOUNDING / "experiment.yaml")


def tasks(*names: str) -> list[Any]:
    return [SimpleNamespace(id=name) for name in names]


def plan_of(experiment: Experiment, estimate: Estimate | None, now: datetime = BEFORE) -> Plan:
    return make_plan(experiment, ["task-a", "task-b", "task-c"], 3, now, estimate)


def codes(plan: Plan) -> list[str]:
    return [finding.code for finding in plan.findings]


# ── order ──────────────────────────────────────────────────────────────────────────────────────────────


def test_every_block_stands_once_in_an_order_that_only_the_seed_decides(founding: Experiment) -> None:
    names = [f"t-{number}" for number in range(20)]
    order = block_order(founding, tasks(*names))
    assert [block.index for block in order] == list(range(60))
    assert {(block.task, block.run) for block in order} == {(t, run) for t in names for run in (1, 2, 3)}
    assert block_order(founding, tasks(*reversed(names))) == order
    assert block_order(replace(founding, seed=founding.seed + 1), tasks(*names)) != order
    assert [block.run for block in order] != sorted(block.run for block in order)


def test_the_calls_of_a_block(founding: Experiment) -> None:
    assert calls_per_block(founding) == {
        "sample_1": 1,
        "sample_2": 2,
        "sample_4": 4,
        "sample_8": 8,
        "sample_16": 16,
    }
    block = block_order(founding, tasks("a"))[0]
    calls = [(draw.owner.name, draw.sample) for draw in call_order(founding, block)]
    assert len(calls) == len(set(calls)) == 31
    for name, count in calls_per_block(founding).items():
        assert [sample for strategy, sample in calls if strategy == name] == list(range(1, count + 1))
    # Spread evenly: each half of the block holds about half of the samples of the large strategies.
    first_half = [strategy for strategy, _sample in calls[:16]]
    assert 7 <= first_half.count("sample_16") <= 9
    assert 3 <= first_half.count("sample_8") <= 5


def test_no_strategy_comes_first_more_often_than_by_chance(founding: Experiment) -> None:
    order = block_order(replace(founding, sampling=replace(founding.sampling, runs=500)), tasks("a", "b"))
    places = [[draw.owner.name for draw in call_order(founding, block)].index("sample_1") for block in order]
    # The mean of a uniform place among 31 is 15, its standard deviation about 8.9; 1000 blocks, 4 deviations.
    assert abs(np.mean(places) - 15) < 4 * 8.9 / math.sqrt(1000)


# ── tokens and days ────────────────────────────────────────────────────────────────────────────────────


def test_the_founding_table_does_not_fit_the_founding_budget(founding: Experiment) -> None:
    table = read_token_table(FOUNDING / "table.csv")
    plan = plan_of(founding, from_table(table, 9, "table.csv"))
    assert (plan.blocks, plan.calls) == (9, 279)
    # 12,000 + 23,000 + 45,000 + 89,000 + 178,000; with 20 % headroom 416,400, which is three days of 200,000.
    assert (plan.tokens_low, plan.tokens_high) == (347_000, 347_000)
    assert plan.days == 3
    assert plan.fits_budget is False
    finding = next(one for one in plan.findings if one.code == "over-budget")
    assert finding.message == "347,000 tokens do not fit 200,000 a day."
    assert "416,400" in finding.evidence
    # One run of three is 115,667; the three cheapest strategies are 80,000; four would be 169,000 · 1.2 > 200,000.
    assert "runs: 1 (115,667 tokens)" in finding.fix
    assert "leave out sample_8, sample_16 (80,000 tokens)" in finding.fix


def test_plans_that_share_calls_are_offered_with_what_holds_of_their_bias(founding: Experiment) -> None:
    table = read_token_table(FOUNDING / "table.csv")
    fix = next(
        one for one in plan_of(founding, from_table(table, 9, "t")).findings if one.code == "over-budget"
    ).fix
    # sample_16 holds all: 178,000; a pool of 16 + 8 draws takes 24 / 16 of that. With headroom two days each.
    assert "sampling.plan: nested (178,000 tokens, days: 2; no bias with scores of 0 and 1" in fix
    assert "sampling.plan: pool (267,000 tokens, days: 2; no bias, since strategies meet on disjoint" in fix
    dropped = replace(founding, eval=replace(founding.eval, ties="drop"))
    fix = next(
        one for one in plan_of(dropped, from_table(table, 9, "t")).findings if one.code == "over-budget"
    ).fix
    assert "nested (178,000 tokens, days: 2; no bias, since answers of different runs meet)" in fix
    single = replace(dropped, sampling=replace(founding.sampling, runs=1))
    fix = next(
        one for one in plan_of(single, from_table(table, 3, "t")).findings if one.code == "over-budget"
    ).fix
    assert "nested" not in fix
    assert "pool" in fix


def test_calls_tokens_and_days_under_each_plan(founding: Experiment) -> None:
    table = from_table(read_token_table(FOUNDING / "table.csv"), 9, "t")
    found = {}
    for plan in ("independent", "nested", "pool"):
        experiment = with_plan(founding, plan, within=True) if plan != "independent" else founding
        assert experiment is not None
        made = plan_of(experiment, table)
        found[plan] = (made.calls, made.tokens_high, made.days)
    # Three tasks, three runs: 31, 16 and 24 calls a block; × 1.2 over 200,000 a day.
    assert found == {
        "independent": (279, 347_000, 3),
        "nested": (144, 178_000, 2),
        "pool": (216, 267_000, 2),
    }
    # A pilot's ledger tells what calls took, each once.
    nested = with_plan(founding, "nested", within=True)
    assert nested is not None
    pilot = plan_of(nested, Estimate({"sample_16": (1000.0, 1200.0)}, "pilot"))
    assert (pilot.tokens_low, pilot.tokens_high) == (1000, 1200)


def test_a_plan_that_fits(founding: Experiment) -> None:
    estimate = Estimate(dict.fromkeys(calls_per_block(founding), (1000.0, 2000.0)), "pilot")
    plan = plan_of(founding, estimate)
    assert (plan.tokens_low, plan.tokens_high, plan.days, plan.fits_budget) == (5000, 10_000, 1, True)
    assert "over-budget" not in codes(plan)


def test_unknown_tokens_stay_unknown(founding: Experiment) -> None:
    plan = plan_of(founding, None)
    assert (plan.tokens_low, plan.tokens_high, plan.days, plan.fits_budget) == (None, None, None, None)
    partial = plan_of(founding, Estimate({"sample_1": (1.0, 1.0)}, "table.csv"))
    assert partial.tokens_low is None
    assert "tokens-unknown" in codes(partial)


def test_a_plan_that_outlives_its_key(founding: Experiment) -> None:
    estimate = from_table(read_token_table(FOUNDING / "table.csv"), 9, "t")
    # Three days from the 30th reach the 1st of January; the key ends with the 31st of December.
    assert "outlives-key" in codes(plan_of(founding, estimate, datetime(2025, 12, 30, 12, tzinfo=UTC)))
    assert "outlives-key" not in codes(plan_of(founding, estimate, datetime(2025, 12, 29, 12, tzinfo=UTC)))


def test_tokens_per_task_run_scale_with_the_plan(tmp_path: Path) -> None:
    file = tmp_path / "elo_result.csv"
    file.write_text("strategy,total_tokens,elo,tokens_per_task_run\nsample_1,900,1000,100.5\nsample_2,,,\n")
    with pytest.raises(UsageError, match="line of the token table"):
        read_token_table(file)
    file.write_text("strategy,total_tokens,elo,tokens_per_task_run\nsample_1,900,1000,100.5\n")
    assert from_table(read_token_table(file), 20, "t").by_strategy == {"sample_1": (2010.0, 2010.0)}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "a,b\n1,2\n",
        "strategy,total_tokens\ns,-1\n",
        "strategy,total_tokens\ns,1\ns,2\n",
        "strategy,total_tokens\n,1\n",
        "\x00",
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, content: str) -> None:
    file = tmp_path / "table.csv"
    file.write_text(content)
    with pytest.raises(UsageError) as caught:
        read_token_table(file)
    assert len(caught.value.lines()) == 3


def test_missing_tables(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.csv"):
        with pytest.raises(UsageError):
            read_token_table(path)


def test_a_pilot_gives_low_and_high_and_leaves_out_what_is_half_done() -> None:
    lines = [PilotLine("sample_1", f"t-{number}", 1, number * 100, True) for number in range(1, 12)]
    lines += [
        PilotLine("sample_2", "t-1", 1, 50, True),
        PilotLine("sample_2", "t-1", 1, 10, False),  # a failed attempt is paid for with its call
        PilotLine("sample_2", "t-1", 1, 70, True),
        PilotLine("sample_2", "t-2", 1, 5, True),  # one answer of two
    ]
    estimate = from_pilot(lines, {"sample_1": 1, "sample_2": 2}, 10, "ledger")
    assert estimate is not None
    # Of 100, 200 … 1100 the 10th percentile is 200 and the 90th 1000.
    assert estimate.by_strategy == {"sample_1": (2000.0, 10_000.0), "sample_2": (1300.0, 1300.0)}
    assert from_pilot([], {}, 10, "ledger") is None


# ── findings ───────────────────────────────────────────────────────────────────────────────────────────


def lint_codes(folder: Path, text: str) -> list[str]:
    file = folder / "experiment.yaml"
    file.write_text(text)
    return [finding.code for finding in lint(load_experiment(file), BEFORE)]


def test_the_founding_file_has_expired(founding: Experiment) -> None:
    finding = next(one for one in lint(founding, datetime(2026, 11, 29, tzinfo=UTC)) if one.code == "expired")
    assert "experiment.yaml:10" in finding.evidence
    assert "expired" not in [one.code for one in lint(founding, datetime(2025, 12, 31, 23, 59, tzinfo=UTC))]
    assert "expired" in [one.code for one in lint(founding, datetime(2026, 1, 1, tzinfo=UTC))]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://g.example/api", []),
        ("https://g.example/api/", ["url-slash"]),
        ("https://g.example/api/v1", ["url-v1"]),
        ("https://g.example/api?key=planted-value", ["url-query"]),
        ("https://g.example/v1/?a=1", ["url-query", "url-v1"]),
        ("https://g.example/v1/chat/completions", ["url-path"]),
        ("http://g.example", ["url-plain"]),
        ("http://127.0.0.1:8080", []),
        ("http://localhost:8080", []),
    ],
)
def test_base_urls(tmp_path: Path, url: str, expected: list[str]) -> None:
    text = f"experiment_id: e\ngateway: {{base_url: '{url}'}}\nagent: {{model: m, params: {{temperature: 0.8}}}}\n"
    assert lint_codes(tmp_path, text) == expected
    findings = lint(load_experiment(tmp_path / "experiment.yaml"), BEFORE)
    assert "planted-value" not in " ".join(f"{one.message}{one.evidence}{one.fix}" for one in findings)


def test_other_findings(tmp_path: Path) -> None:
    head = "experiment_id: e\ngateway:\n  base_url: https://g.example\n"
    assert lint_codes(tmp_path, head + "agent: {model: m}\n") == ["temperature-unset"]
    only = "agent: {model: m, strategies: [sample_1, oracle_4], params: {temperature: 1}}\n"
    assert lint_codes(tmp_path, head + only) == ["few-contestants"]
    many = "  key_boundary: {max_concurrency: 32}\nagent: {model: your-model, k_values: [1]}\n"
    assert lint_codes(tmp_path, head + many) == ["placeholder-model", "concurrency-high", "few-contestants"]


# ── power ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_score_deviation_at_its_ends() -> None:
    assert score_sd(0.0) == pytest.approx(0.35)
    assert score_sd(0.5) == pytest.approx(0.0, abs=1e-9)
    # Without ties a score is a coin with probability 1/2 + d.
    assert score_sd(0.2, at_null=0.5) == pytest.approx(math.sqrt(0.7 * 0.3))


def test_many_tasks_give_the_normal_formula() -> None:
    # 695 · (1.960 + 0.8416) · 0.35 / √n, one run a task: for n = 20,000 4.82 Elo.
    expected = 1600 / math.log(10) * (1.959964 + 0.841621) * 0.35 / math.sqrt(20_000)
    assert detectable_delta_elo(20_000, 20_000) == pytest.approx(expected, rel=0.01)
    assert detectable_delta_elo(20_000, 20_000, elo_scale=200) == pytest.approx(expected / 2, rel=0.01)


def test_more_tasks_beat_more_runs() -> None:
    by_tasks, by_runs = detectable_delta_elo(60, 60), detectable_delta_elo(20, 60)
    assert by_tasks is not None
    assert by_runs is not None
    assert by_tasks < by_runs
    assert detectable_delta_elo(1, 100) is None


def test_parameters_that_a_protocol_cannot_carry_are_named(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text(
        "experiment_id: e\n"
        "taotoken: {base_url: 'https://g.example', key_label: k, key_boundary: {allowed_models: [m]}}\n"
        "agent: {protocol: responses, params: {temperature: 1, stop: ['x']}, k_values: [1, 2]}\n"
        "eval: {tasks: ['*']}\n"
    )
    experiment = load_experiment(tmp_path / "experiment.yaml")
    found = {finding.code: finding for finding in lint(experiment, datetime(2026, 11, 29, tzinfo=UTC))}
    assert found["params-unsent"].evidence.endswith("agent.params: stop")
