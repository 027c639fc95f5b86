"""Redraws from a pool against enumeration of all subsets and closed forms."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations
from statistics import fmean, stdev

import numpy as np
import pytest

from elometer.rating.fit import FitOptions, fit
from elometer.rating.records import PairRecord, RecordSet
from elometer.rating.redraws import NO_VOTE, Pool, Rule, judged, win_shares

MANY = 40_000


def pool(votes: list[int], scores: list[float], verified: list[float] | None = None) -> Pool:
    return Pool(np.array(votes), np.array(scores, dtype=float), np.array(verified or scores, dtype=float))


def majority_right(votes: tuple[int, ...], right: int) -> Fraction:
    """The chance that the plurality of these votes is `right`, ties broken evenly, silence never right."""
    counts = Counter(vote for vote in votes if vote != NO_VOTE)
    if not counts:
        return Fraction(0)
    tied = [code for code, count in counts.items() if count == max(counts.values())]
    return Fraction(int(right in tied), len(tied))


def test_the_mean_of_majority_votes_is_that_over_all_subsets() -> None:
    votes = [0, 0, 1, 2, NO_VOTE, 0, 1, NO_VOTE, 3]
    draws = pool(votes, [float(vote == 0) for vote in votes])
    for k in (1, 2, 4):
        exact = fmean(majority_right(chosen, 0) for chosen in combinations(votes, k))
        found = judged(draws, Rule(k, "majority"), seed=3, redraws=MANY).mean_score
        assert found == pytest.approx(float(exact), abs=4 * 0.5 / math.sqrt(MANY))


@pytest.mark.parametrize("rule", ["first", "random", "oracle", "verifier"])
def test_the_mean_of_other_rules_is_that_over_all_subsets(rule: str) -> None:
    scores = [0.1, 0.7, 0.3, 0.9, 0.2]
    draws = pool([0] * 5, scores, [5.0, 1.0, 2.0, 0.0, 3.0])  # what is visible prefers 0.1, then 0.2, 0.3, …
    by_rule = {"oracle": max, "verifier": lambda chosen: min(chosen, key=[0.1, 0.2, 0.3, 0.7, 0.9].index)}
    exact = fmean(by_rule.get(rule, fmean)(chosen) for chosen in combinations(scores, 3))
    if rule == "first":  # the lowest index of three of five, not a random one
        exact = fmean(scores[min(chosen)] for chosen in combinations(range(5), 3))
    found = judged(draws, Rule(3, rule), seed=5, redraws=MANY).mean_score
    assert found == pytest.approx(exact, abs=4 * 0.3 / math.sqrt(MANY))


def test_shares_are_those_over_all_disjoint_subsets() -> None:
    scores = [0.0, 1.0, 1.0, 0.0, 2.0, 1.0]
    draws = pool([0] * 6, scores)
    won = lost = count = 0
    for one in combinations(range(6), 1):
        for other in combinations(set(range(6)) - set(one), 3):
            best = max(scores[index] for index in other)
            won += scores[one[0]] > best
            lost += scores[one[0]] < best
            count += 1
    found = win_shares(draws, Rule(1, "oracle"), Rule(3, "oracle"), seed=1, redraws=MANY)
    assert found == pytest.approx((won / count, lost / count), abs=4 * 0.5 / math.sqrt(MANY))
    # Within a margin of one point only 2 against 0 is decided.
    close = win_shares(draws, Rule(1, "oracle"), Rule(3, "oracle"), seed=1, redraws=MANY, tie_epsilon=1.0)
    assert close is not None
    assert close[0] == 0.0  # a single 2 meets no three zeros: there are two of them


def test_a_pool_that_is_too_small_and_graders_that_failed() -> None:
    draws = pool([0, 0, 0], [1.0, math.nan, 0.0])
    with pytest.raises(ValueError, match="disjoint"):
        win_shares(draws, Rule(2, "first"), Rule(2, "first"), seed=1)
    assert win_shares(pool([0, 0], [math.nan] * 2), Rule(1, "first"), Rule(1, "first"), seed=1) is None
    found = judged(draws, Rule(1, "random"), seed=1, redraws=MANY)
    assert found.mean_score == pytest.approx(0.5, abs=0.02)  # of the two that were graded
    assert judged(pool([NO_VOTE] * 2, [0.0, 0.0]), Rule(2, "majority"), seed=1).mean_score == 0.0


def test_best_of_k_from_a_pool_gains_482_elo_from_1_to_16_with_less_spread() -> None:
    """P(k beats m) = k / (k + m) for disjoint subsets of independent scores: 400 · log10(16)."""
    sizes = (1, 2, 4, 8, 16)
    gaps = []
    for seed in range(16):
        rng = np.random.default_rng([7, seed])
        records = []
        for task in range(40):
            draws = pool([0] * 24, rng.standard_normal(24).tolist())
            for k, m in combinations(sizes, 2):
                shares = win_shares(draws, Rule(k, "oracle"), Rule(m, "oracle"), seed=task, redraws=200)
                assert shares is not None
                records.append(
                    PairRecord(
                        experiment_id="e", task=f"t{task}", run=1, winner=None, loser=None, a=f"s_{k}",
                        b=f"s_{m}", outcome="tie", share_a=shares[0], share_b=shares[1], block=task,
                    )
                )  # fmt: skip
        result = fit(RecordSet.from_records(records), None, FitOptions())
        gaps.append((result.row("s_16").elo or 0) - (result.row("s_1").elo or 0))
    error = stdev(gaps) / math.sqrt(len(gaps))
    assert abs(fmean(gaps) - 400 * math.log10(16)) < 2 * error + 10, (fmean(gaps), error)
    assert stdev(gaps) < 60  # independent draws of 31 scatter by 68 in the same design
