"""Nested samples: what they do to Elo, how records tell of them, and the ways out.

Right values: for best-of-k by an independent continuous score P(k beats m) = k / (k + m), so sixteen samples
lie 400 · log10(16) = 481.65 Elo above one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest

from elometer.core.errors import UsageError
from elometer.rating.fit import FitOptions, fit
from elometer.rating.pairs import BlockScores, pair_across_runs, pair_blocks
from elometer.rating.records import PairRecord, RecordSet, read_records

K = (1, 2, 4, 8, 16)
NAMES = tuple(f"sample_{k}" for k in K)
TRUE_GAP = 400 * math.log10(16)
TASKS, RUNS, REPEATS = 40, 2, 24


def gap(records: list[PairRecord], options: FitOptions | None = None) -> float:
    """Elo of sample_16 over sample_1."""
    result = fit(RecordSet.from_records(records), None, options or FitOptions())
    return (result.row("sample_16").elo or 0) - (result.row("sample_1").elo or 0)


def best_of(rng: np.random.Generator, *, nested: bool) -> list[BlockScores]:
    """Blocks in which each strategy keeps the best of its scores."""
    blocks = []
    for task in range(TASKS):
        for run in range(1, RUNS + 1):
            stock = rng.standard_normal(16)
            scores = {
                name: float((stock[:k] if nested else rng.standard_normal(k)).max())
                for name, k in zip(NAMES, K, strict=True)
            }
            blocks.append(BlockScores(f"t{task}", run, task * RUNS + run, dict(scores)))
    return blocks


def simulate(make: Callable[[np.random.Generator], float]) -> tuple[float, float]:
    """Mean over seeds and its standard error."""
    found = [make(np.random.default_rng([20261129, seed])) for seed in range(REPEATS)]
    return fmean(found), stdev(found) / math.sqrt(len(found))


def test_independent_draws_and_nested_ones_across_runs_find_the_closed_form() -> None:
    for make in (
        lambda rng: gap(pair_blocks("e", best_of(rng, nested=False))),
        lambda rng: gap(pair_across_runs("e", best_of(rng, nested=True), RUNS)),
    ):
        mean, error = simulate(make)
        assert abs(mean - TRUE_GAP) < 2 * error + 0.02 * TRUE_GAP, (mean, error)


def test_nested_draws_within_a_run_are_biased_by_two_fifths() -> None:
    # P(16 beats 8 | nested) is P(the best lies among the last eight) with ties as halves: 3/4 for 2/3.
    mean, error = simulate(lambda rng: gap(pair_blocks("e", best_of(rng, nested=True))))
    assert mean - 4 * error > 1.25 * TRUE_GAP, (mean, error)
    assert mean == pytest.approx(677, rel=0.08)  # the figure that the method's study printed


def test_shared_draws_move_no_elo_where_scores_are_0_and_1_and_ties_are_halves() -> None:
    """Expected results depend on the margins alone: P(right) of 1 − 0.8^k, the same under both designs."""

    def passes(rng: np.random.Generator, *, nested: bool) -> list[PairRecord]:
        blocks = best_of(rng, nested=nested)
        for block in blocks:
            block.scores.update({name: float((block.scores[name] or 0) > 0.8416) for name in NAMES})
        return pair_blocks("e", blocks)

    one, error_one = simulate(lambda rng: gap(passes(rng, nested=False)))
    other, error_other = simulate(lambda rng: gap(passes(rng, nested=True)))
    assert abs(one - other) < 2 * math.hypot(error_one, error_other)
    drop = FitOptions(ties="drop")
    loose, _error = simulate(lambda rng: gap(passes(rng, nested=False), drop))
    tight, _error = simulate(lambda rng: gap(passes(rng, nested=True), drop))
    assert tight > 1.3 * loose  # the superset never loses


def test_across_runs_each_run_meets_the_next_and_the_last_the_first() -> None:
    blocks = [
        BlockScores("t", run, run, {"sample_1": float(run), "sample_2": 10.0 * run}) for run in (1, 2, 3)
    ]
    blocks[1].scores["sample_2"] = None
    records = pair_across_runs("e", blocks, 3)
    told = [(one.run, one.run_a, one.run_b, one.score_a, one.score_b, one.winner) for one in records]
    assert told == [(2, 2, 3, 2.0, 30.0, "sample_2"), (3, 3, 1, 3.0, 10.0, "sample_2")]
    assert pair_across_runs("e", blocks[:1], 1) == []
    found = RecordSet.from_records(records)
    # Tokens are counted where answers were: sample_1 of runs 2 and 3, sample_2 of runs 3 and 1.
    assert found.counted_task_runs == {
        ("sample_1", "t", 2),
        ("sample_1", "t", 3),
        ("sample_2", "t", 3),
        ("sample_2", "t", 1),
    }


def codes(path: Path, *records: dict[str, object], ties: str = "half") -> set[str]:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = fit(read_records(path), None, FitOptions(ties=ties))  # type: ignore[arg-type]
    return {warning.code for warning in result.warnings}


def record(task: str, a: str, b: str, outcome: str, **more: object) -> dict[str, object]:
    winner = {"a": (a, b), "b": (b, a), "tie": (None, None)}[outcome]
    return {"task": task, "run": 1, "a": a, "b": b, "outcome": outcome, "winner": winner[0], "loser": winner[1]} | more  # fmt: skip


def test_records_that_rest_on_shared_draws_are_told(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    plain = [record("t", "x", "y", "a"), record("u", "x", "y", "b"), record("v", "x", "y", "tie")]
    assert "shared_draws" not in codes(path, *plain)
    ours = [{**one, "shared": 2, "score_a": 0.25, "score_b": 0.5} for one in plain]
    assert "shared_draws" in codes(path, *ours)
    assert "shared_draws" in codes(path, *plain[:2], ours[2])
    binary = [{**one, "shared": 2, "score_a": 1.0, "score_b": 0} for one in plain]
    assert "shared_draws" not in codes(path, *binary)
    assert "shared_draws" in codes(path, *binary, ties="drop")
    assert "shared_draws" not in codes(path, *({**one, "shared": 0} for one in ours))


def test_strangers_records_that_name_the_same_session_are_told(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    plain = [record("t", "x", "y", "a"), record("u", "x", "y", "b")]
    assert "shared_draws" in codes(path, *({**one, "run_a": "r7", "run_b": "r7"} for one in plain))
    assert "shared_draws" not in codes(path, *({**one, "run_a": "r7", "run_b": "r8"} for one in plain))
    assert "shared_draws" in codes(path, *({**one, "run_a": ["c1"], "run_b": ["c2", "c1"]} for one in plain))
    # Numbers are repetitions of a task: the same one is what a comparison within a run has.
    assert "shared_draws" not in codes(path, *({**one, "run_a": 1, "run_b": 1} for one in plain))


def test_shares_of_wins_count_as_shares(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    told = [record("t", "x", "y", "a", share_a=0.5, share_b=0.2), record("u", "x", "y", "b")]
    path.write_text("".join(json.dumps(one) + "\n" for one in told))
    found = read_records(path)
    assert found.comparisons == 2
    assert found.first_wins.tolist() == pytest.approx([0.5, 0.0])
    assert found.second_wins.tolist() == pytest.approx([0.2, 1.0])
    assert found.ties.tolist() == pytest.approx([0.3, 0.0])
    assert found.tie_rate == pytest.approx(0.15)


def test_runs_that_records_join_are_no_units_of_their_own() -> None:
    rng = np.random.default_rng(1)
    records = RecordSet.from_records(pair_across_runs("e", best_of(rng, nested=True), RUNS))
    with pytest.raises(UsageError, match="two runs"):
        fit(records, None, FitOptions(generalise="runs"))
    within = RecordSet.from_records(pair_blocks("e", best_of(rng, nested=True)))
    assert fit(within, None, FitOptions(generalise="runs")).interval_basis == "runs"


def test_a_csv_tells_the_same(tmp_path: Path) -> None:
    rows = ["task,run,a,b,outcome,run_a,run_b,shared,share_a,share_b,score_a,score_b"]
    rows += ["t,1,x,y,a,,,2,,,0.25,0.1", "u,1,x,y,b,1,2,,,,0.1,0.2", "v,1,x,y,a,,,,0.5,0.2,0.5,0.2"]
    path = tmp_path / "records.csv"
    path.write_text("\n".join(rows) + "\n")
    found = read_records(path)
    assert (found.shared, found.shared_measured) == (1, 1)
    assert ("y", "u", 2) in found.counted_task_runs
    assert found.ties.sum() == pytest.approx(0.3)


@pytest.mark.parametrize("shares", [{"share_a": 0.7, "share_b": 0.4}, {"share_a": "x"}, {"share_a": 0.2}])
def test_shares_that_are_none_are_refused_with_their_line(tmp_path: Path, shares: dict[str, object]) -> None:
    path = tmp_path / "records.jsonl"
    told = [record("t", "x", "y", "a"), record("u", "x", "y", "b", **shares)]
    path.write_text("".join(json.dumps(one) + "\n" for one in told))
    with pytest.raises(UsageError, match="line 2"):
        read_records(path)


def test_a_strangers_field_of_the_same_name_harms_nothing(tmp_path: Path) -> None:
    plain = [
        record("t", "x", "y", "a", shared="no", run_b=None, score_a=[1], run_a={"x": 1}),
        record("u", "x", "y", "b", shared=None),
    ]
    assert "shared_draws" not in codes(tmp_path / "records.jsonl", *plain)
