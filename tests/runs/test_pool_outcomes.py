"""Outcomes of a pool by hand: graders and visible checks that fail, shares, ceilings."""

from __future__ import annotations

from pathlib import Path

import pytest

from elometer.ledger.charged import TokenSums
from elometer.runs.ceilings import ceilings
from elometer.runs.graders import Grade
from elometer.runs.journal import Outcome, OutcomeName
from elometer.runs.pairing import Pairing
from elometer.runs.pool import pool_outcomes, shares_of
from elometer.runs.spec import Experiment, load_experiment
from elometer.runs.strategies import SampleAnswer

SPEC = """\
experiment_id: e
taotoken: {base_url: 'http://127.0.0.1:1'}
agent:
  model: m
  strategies: [sample_1, {name: checked_2, samples: 2, select: verifier}, oracle_2]
sampling: {plan: pool}
"""
RIGHT, WRONG, BROKEN = Grade(1.0, "ok"), Grade(0.0, "wrong"), Grade(0.0, "grader_error", "it fell over")


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    (tmp_path / "experiment.yaml").write_text(SPEC)
    return load_experiment(tmp_path / "experiment.yaml")


def settled(
    experiment: Experiment, grades: list[Grade], verified: list[Grade], run: int = 1
) -> dict[str, Outcome]:
    unscored = [
        Outcome(experiment_id="e", task="t", run=run, strategy=one.name, block=run, outcome="infra_error", score=None)
        for one in experiment.strategies
    ]  # fmt: skip
    answers = [SampleAnswer(number, str(number), str(number), str(number)) for number in (1, 2, 3, 4)]
    named: list[tuple[Grade, OutcomeName]] = [(one, one.status) for one in grades]
    return {one.strategy: one for one in pool_outcomes(experiment, unscored, answers, named, verified)}


def test_a_check_that_picks_the_right_answer_wins_what_it_must(experiment: Experiment) -> None:
    assert experiment.sampling.pool_size == 4
    found = settled(experiment, [RIGHT, WRONG, WRONG, WRONG], [RIGHT, WRONG, WRONG, WRONG])
    # One of four is right: a single draw has it in 1/4, the better of two in 1/2 of the redraws.
    assert found["sample_1"].score == pytest.approx(1 / 4, abs=0.08)
    assert found["checked_2"].score == pytest.approx(1 / 2, abs=0.1)
    # Disjoint: the one that is right is with the pair in 1/2, with the single in 1/4, with neither in 1/4.
    shares = shares_of(found["checked_2"], found["sample_1"])
    assert shares == pytest.approx((1 / 2, 1 / 4), abs=0.1)
    assert shares_of(found["sample_1"], found["checked_2"]) == (shares[1], shares[0])


def test_a_check_that_always_fails_leaves_its_strategy_out(experiment: Experiment) -> None:
    found = settled(experiment, [RIGHT, WRONG, WRONG, WRONG], [BROKEN] * 4)
    assert found["checked_2"].outcome == "grader_error"
    assert found["checked_2"].detail == "verify: it fell over"
    assert not found["checked_2"].counted
    assert found["sample_1"].counted
    assert shares_of(found["sample_1"], found["checked_2"]) is None


def test_draws_whose_grader_failed_are_left_out_of_the_redraws(experiment: Experiment) -> None:
    found = settled(experiment, [RIGHT, RIGHT, BROKEN, BROKEN], [WRONG] * 4)
    assert found["sample_1"].score == 1.0
    assert found["sample_1"].counted
    nothing = settled(experiment, [BROKEN] * 4, [WRONG] * 4)
    assert {one.outcome for one in nothing.values()} == {"grader_error"}
    assert not any(one.counted for one in nothing.values())
    assert Pairing.of(experiment).records(nothing.values()) == []


def test_the_ceiling_meets_the_anchor_on_disjoint_subsets(experiment: Experiment) -> None:
    found = settled(experiment, [RIGHT, WRONG, WRONG, WRONG], [WRONG] * 4)
    outcomes = {(one.task, one.run, one.strategy): one for one in found.values()}
    sums = TokenSums({}, {}, {}, {}, {}, {}, {}, set(), [])
    (ceiling,) = ceilings(experiment, outcomes, sums, "sample_1")
    # Won 1/2, lost 1/4, tied 1/4.
    assert ceiling.win_rate_vs_anchor == pytest.approx(1 / 2 + 1 / 8, abs=0.08)
    assert {(one.a, one.b) for one in Pairing.of(experiment).records(found.values())} == {
        ("checked_2", "sample_1")
    }
