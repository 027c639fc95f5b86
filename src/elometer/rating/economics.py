"""What tokens buy: marginal Elo, the reference of best-of-n, curvature, the knee, and power.

Independent best-of-n under a perfect selector is exactly Bradley-Terry with strength n (P(n beats m) =
n / (n + m)), so that every doubling is worth 400 log10 2 = 120.412 Elo and Elo per token halves at each
doubling. Falling marginal Elo alone therefore says nothing; diminishing returns are read against that line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from elometer.rating.estimate import Estimate, Interval, contrast
from elometer.rating.records import Floats
from elometer.rating.student import NORMAL, t_quantile, t_tail, two_sided
from elometer.rating.tokens import TaskTokens

FIELLER_BELOW = 4.0  # standard errors of the token gap
POWER = 0.8
SIZE = 0.05  # two-sided


def best_of_n_doubling(elo_scale: float = 400.0) -> float:
    """Elo per doubling of independent samples under a perfect selector: 120.412 on the usual scale."""
    return elo_scale * math.log10(2.0)


@dataclass(frozen=True, slots=True)
class Marginal:
    """Elo per 1k further tokens of a task-run. `basis`: delta, fieller, fixed (tokens without
    spread), or why there is none.
    """

    value: float | None
    low: float | None
    high: float | None
    basis: str


def marginal(
    estimate: Estimate, tokens: TaskTokens, one: int, other: int, level: float, per_logit: float
) -> Marginal:
    """What `other` gains over `one` (indices) per 1k further tokens of a task-run, over tasks that hold both.

    Joint delta method on what each task contributes to the Elo gap and to the token gap; Fieller's set where
    the token gap is under four of its standard errors. None where tokens do not grow or nothing is bounded.
    """
    weights = np.zeros(len(estimate.theta))
    weights[one], weights[other] = -1.0, 1.0
    gain = contrast(estimate, weights, level)
    gaps = tokens.mean[:, other] - tokens.mean[:, one]
    both = ~np.isnan(gaps)
    if not both.any():
        return Marginal(None, None, None, "tokens unknown")
    gap = float(gaps[both].mean()) / 1000.0
    if gap <= 0:
        return Marginal(None, None, None, "no further tokens")
    value = per_logit * gain.value / gap
    if gain.error is None or gain.low is None or gain.high is None:
        return Marginal(value, None, None, gain.basis)
    clusters = int(both.sum())
    if gain.basis != "clusters" or estimate.stratified or not tokens.joined or clusters < 2:
        return Marginal(value, per_logit * gain.low / gap, per_logit * gain.high / gap, "fixed")
    elo = per_logit * (estimate.influence @ weights)
    spent = np.where(both, (gaps / 1000.0 - gap) / clusters, 0.0)
    reach = two_sided(level, gain.degrees)
    factor = estimate.cluster_factor(gain.degrees)
    gap_error = math.sqrt(factor * float(spent @ spent))
    if gap < FIELLER_BELOW * gap_error:
        return _fieller(per_logit * gain.value, gap, elo, spent, factor, reach)
    each = elo / gap - value * spent / gap
    error = math.sqrt(factor * float(each @ each))
    return Marginal(value, value - reach * error, value + reach * error, "delta")


def _fieller(gain: float, gap: float, elo: Floats, spent: Floats, factor: float, reach: float) -> Marginal:
    """The ratios m for which gain − m·gap lies within `reach` standard errors of zero (Fieller 1954)."""
    square = reach * reach * factor
    a = gap * gap - square * float(spent @ spent)
    b = gain * gap - square * float(elo @ spent)
    c = gain * gain - square * float(elo @ elo)
    value = gain / gap
    if a <= 0:
        return Marginal(value, None, None, "no extra cost measured")
    root = math.sqrt(max(b * b - a * c, 0.0))
    return Marginal(value, (b - root) / a, (b + root) / a, "fieller")


@dataclass(frozen=True, slots=True)
class Curvature:
    """Elo against log2 tokens: the quadratic coefficient, Elo per squared doubling, and a one-sided p value.

    Negative: returns fall faster than the logarithm. `points` budgets entered.
    """

    value: float
    low: float | None
    high: float | None
    p_diminishing: float | None
    points: int


def curvature(
    estimate: Estimate, per_task_run: Floats, rungs: list[int], level: float, per_logit: float
) -> Curvature | None:
    """The test of diminishing returns over strategies `rungs`; None with fewer than four budgets."""
    usable = [s for s in rungs if per_task_run[s] > 0]
    if len({float(per_task_run[s]) for s in usable}) < 4 or not estimate.same_component(np.array(usable)):
        return None
    x = np.log2(per_task_run[usable])
    design = np.stack([np.ones_like(x), x - x.mean(), (x - x.mean()) ** 2], axis=1)
    weights = np.zeros(len(estimate.theta))
    weights[usable] = np.linalg.pinv(design)[2]
    found = contrast(estimate, weights, level)
    p = None
    if found.error:
        p = t_tail(-found.value / found.error, found.degrees)
    return Curvature(
        per_logit * found.value,
        None if found.low is None else per_logit * found.low,
        None if found.high is None else per_logit * found.high,
        p,
        len(usable),
    )


@dataclass(frozen=True, slots=True)
class Knee:
    """The cheapest strategy that is not more than `margin` Elo below the best, if the data show one.

    `strategy` is None while that is undetermined; then `candidate` is the cheapest whose point estimate lies
    within the margin, and `tasks_needed` what it would take to confirm it.
    """

    strategy: int | None
    candidate: int | None
    best: int
    margin: float
    tasks_needed: int | None


def knee(
    estimate: Estimate, cost: Floats, rungs: list[int], margin: float, level: float, per_logit: float
) -> Knee | None:
    """By the one-sided upper bound of (best − s), never by overlap: overlap calls ignorance a knee."""
    known = [s for s in rungs if not math.isnan(cost[s])]
    if len(known) < 2 or not estimate.same_component(np.array(known)):
        return None
    known.sort(key=lambda s: (cost[s], s))
    best = max(known, key=lambda s: (estimate.theta[s], -cost[s]))
    shortfalls = {s: _shortfall(estimate, best, s, level) for s in known if s != best}
    cheaper = [s for s in known if s != best and cost[s] < cost[best]]
    for s in cheaper:
        gap, upper, _lower, _interval = shortfalls[s]
        if upper is not None and per_logit * upper <= margin:
            return Knee(s, s, best, margin, None)
    if cheaper and all(
        lower is not None and per_logit * lower > margin
        for _gap, _upper, lower, _interval in (shortfalls[s] for s in cheaper)
    ):
        return Knee(best, best, best, margin, None)
    within = [s for s in cheaper if per_logit * shortfalls[s][0] < margin]
    if not within:
        return Knee(None, None, best, margin, None)
    gap, _upper, _lower, interval = shortfalls[within[0]]
    needed = None
    if interval.error and interval.basis == "clusters":
        reach = t_quantile(level, interval.degrees) + NORMAL.inv_cdf(POWER)
        room = (margin - per_logit * gap) / (per_logit * interval.error)
        needed = math.ceil(estimate.clusters * (reach / room) ** 2)
    return Knee(None, within[0], best, margin, needed)


def _shortfall(
    estimate: Estimate, best: int, other: int, level: float
) -> tuple[float, float | None, float | None, Interval]:
    weights = np.zeros(len(estimate.theta))
    weights[best], weights[other] = 1.0, -1.0
    # Both one-sided bounds of `level` are the ends of the two-sided interval of 2·level − 1.
    interval = contrast(estimate, weights, max(2.0 * level - 1.0, 1e-6))
    return interval.value, interval.high, interval.low, interval


@dataclass(frozen=True, slots=True)
class Power:
    """For one difference: what these tasks would detect (ΔElo), and the tasks that this one needs."""

    detectable: float
    tasks_needed: int | None


def power_of(interval: Interval, clusters: int, per_logit: float) -> Power | None:
    """At 80 % power and two-sided 5 %, over tasks; `interval` in logits."""
    if not interval.error or interval.basis != "clusters":
        return None
    reach = t_quantile(1.0 - SIZE / 2.0, interval.degrees) + NORMAL.inv_cdf(POWER)
    needed = None
    if interval.value:
        needed = math.ceil(clusters * (reach * interval.error / abs(interval.value)) ** 2)
    return Power(per_logit * reach * interval.error, needed)


def detectable_before(task_runs: int, *, spread: float = 0.35, elo_scale: float = 400.0) -> float:
    """The smallest ΔElo that a design will detect (80 %, two-sided 5 %), before anything was run.

    `spread` is the standard deviation of a paired half-tie score, 0.35 for independent samples near accuracy
    one half (0.22 nested). A score gap of d is 4 d logits near ½.
    """
    reach = NORMAL.inv_cdf(1.0 - SIZE / 2.0) + NORMAL.inv_cdf(POWER)
    return 4.0 * elo_scale / math.log(10.0) * reach * spread / math.sqrt(max(task_runs, 1))


def comparisons_needed(gap: float, elo_scale: float = 400.0) -> int:
    """Decisive comparisons of one pair that tell a gap (Elo) from zero: 80 % power, two-sided 5 %."""
    theta = gap * math.log(10.0) / elo_scale
    chance = 1.0 / (1.0 + math.exp(-theta))
    reach = NORMAL.inv_cdf(1.0 - SIZE / 2.0) + NORMAL.inv_cdf(POWER)
    return math.ceil(reach**2 / (chance * (1.0 - chance) * theta**2) - 1e-9)
