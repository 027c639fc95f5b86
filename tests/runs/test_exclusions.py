"""Excluded blocks and halves: p-values from scipy, bounds and drifts that were put in by hand."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from elometer.rating.options import FitOptions
from elometer.runs.exclusions import exclusions, rates_differ
from elometer.runs.halves import halves
from elometer.runs.journal import Outcome, OutcomeName

NAMES = ("sample_1", "sample_4")


def outcome(
    block: int, strategy: str, score: float | None, name: OutcomeName = "ok", *, tasks: int = 20
) -> Outcome:
    return Outcome(
        experiment_id="e",
        task=f"t{block % tasks}",
        run=1 + block // tasks,
        strategy=strategy,
        block=block,
        outcome=name,
        score=score,
    )


@settings(max_examples=60)
@given(st.integers(0, 20), st.integers(1, 30), st.integers(0, 20), st.integers(1, 30))
def test_two_groups_have_fishers_exact_p(bad: int, good: int, other_bad: int, other_good: int) -> None:
    test, p = rates_differ([bad, other_bad], [bad + good, other_bad + other_good])
    if bad + other_bad == 0:
        assert p is None
        return
    expected = stats.fisher_exact([[bad, good], [other_bad, other_good]]).pvalue
    assert test == "Fisher"
    assert p == pytest.approx(expected, abs=1e-9)


def test_several_groups_have_the_permutation_p_of_homogeneity() -> None:
    failed, tried = [30, 42, 55, 38], [400, 400, 400, 400]
    test, p = rates_differ(failed, tried)
    table = [failed, [all_ - bad for bad, all_ in zip(failed, tried, strict=True)]]
    expected = stats.chi2_contingency(table, correction=False).pvalue  # good for counts of this size
    assert test.startswith("chi-square")
    assert p == pytest.approx(expected, abs=0.01)
    assert rates_differ([0, 0, 0], [5, 5, 5]) == ("", None)
    assert rates_differ([5, 5, 5], [5, 5, 5]) == ("", None)


def test_bounds_are_the_fits_with_excluded_ones_won_and_lost() -> None:
    found = [outcome(block, name, float(block % 2)) for block in range(40) for name in NAMES]
    for block in range(6):
        found[2 * block + 1] = outcome(block, "sample_4", None, "infra_error")
    account = exclusions(found, NAMES, FitOptions(anchor="sample_1", experiment_id="e"))
    assert account.errors == {"sample_4": {"infra_error": 6}}
    assert account.blocks == {"sample_1": 40, "sample_4": 40}
    assert account.p == pytest.approx(stats.fisher_exact([[0, 40], [6, 34]]).pvalue)
    assert account.differ
    # 34 ties and 6 wins: half-win odds (17 + 6) / 17; the penalty draws Elo a little towards the anchor.
    won, lost = account.if_won["sample_4"], account.if_lost["sample_4"]
    assert won is not None
    assert lost is not None
    assert won - 1000 == pytest.approx(52.5, abs=2)
    assert lost - 1000 == pytest.approx(-52.5, abs=2)
    words = " ".join(account.lines({"sample_1": 1000.0, "sample_4": 1000.0}))
    assert "sample_4 6 of 40 (infra_error 6)" in words
    assert "p = 0.0255" in words


def test_each_strategy_has_its_own_worst_case() -> None:
    """sample_1 and sample_4 each lost ten of forty blocks to errors, and tied wherever both answered.

    For sample_4 the worst is that its ten lost while sample_1's ten won: 20 ties and 20 losses, odds 10 to 30.
    """
    found = [outcome(block, name, 1.0) for block in range(40) for name in NAMES]
    for block in range(10):
        found[2 * block] = outcome(block, "sample_1", None, "infra_error")
        found[2 * block + 21] = outcome(block + 10, "sample_4", None, "infra_error")
    account = exclusions(found, NAMES, FitOptions(anchor="sample_1", experiment_id="e"))
    expected = 400 * math.log10(3)  # 190.8; the penalty draws a little towards the anchor
    won, lost = account.if_won["sample_4"], account.if_lost["sample_4"]
    assert won is not None
    assert lost is not None
    assert won - 1000 == pytest.approx(expected, rel=0.04)
    assert lost - 1000 == pytest.approx(-expected, rel=0.04)
    assert account.if_won["sample_1"] == account.if_lost["sample_1"] == 1000  # the anchor


def test_what_a_stop_left_undone_is_no_error() -> None:
    found = [outcome(0, "sample_1", 1.0), outcome(0, "sample_4", None, "cancelled")]
    account = exclusions(found, NAMES, FitOptions(experiment_id="e"))
    assert account.errors == {}
    assert account.unfinished == {"sample_4": 1}
    assert account.p is None


def drifting(seed: int, late: float) -> list[Outcome]:
    """sample_4 is right with 0.7 in the first half and with `late` in the second; sample_1 with 0.5."""
    chance = random.Random(seed)
    found = []
    for block in range(240):
        right = 0.7 if block < 120 else late
        found.append(outcome(block, "sample_1", float(chance.random() < 0.5), tasks=30))
        found.append(outcome(block, "sample_4", float(chance.random() < right), tasks=30))
    return found


def test_a_drift_is_beyond_chance_and_no_drift_mostly_is_not() -> None:
    options = FitOptions(anchor="sample_1", experiment_id="e")
    alarms = [bool(halves(drifting(seed, 0.7), NAMES, options).differ) for seed in range(60)]
    assert sum(alarms) <= 7  # P(more than 7 of 60 at 5 %) = 0.007
    (change,) = halves(drifting(1, 0.1), NAMES, options).differ
    assert change.strategy == "sample_4"
    assert change.difference < -100


def test_halves_of_too_little_say_so() -> None:
    found = halves([outcome(0, "sample_1", 1.0), outcome(0, "sample_4", 1.0)], NAMES, FitOptions())
    assert found.changes == ()
    assert "too few" in found.line()
