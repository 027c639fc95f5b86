"""How small a difference a plan can show: power 80 %, two-sided 5 %, over tasks."""

from __future__ import annotations

import math

POWER = 0.80
LEVEL = 0.05
# Assumptions until an experiment has its own numbers: the standard deviation of one comparison of equal
# strategies with ties as half wins (simulated majority votes gave 0.35), and how alike a task's runs are.
SCORE_SD = 0.35
INTRA_TASK = 0.1
# … and where both answers share draws, or are averaged over subsets of a pool, so that their luck cancels.
SHARED_SD = 0.22


def score_sd(difference: float, at_null: float = SCORE_SD) -> float:
    """The standard deviation of a half-tie score with mean 1/2 + difference.

    With a share q of decisive comparisons its variance is q/4 - difference². At no difference q follows from
    `at_null`; it is taken to grow in proportion, to 1 where one strategy always wins.
    """
    tied = 1 - 4 * at_null**2
    decisive = 1 - tied * (1 - 2 * difference)
    return math.sqrt(max(0.0, decisive / 4 - difference**2))


def detectable_delta_elo(
    clusters: int,
    task_runs: int,
    *,
    elo_scale: float = 400.0,
    intra_task: float = INTRA_TASK,
    at_null: float = SCORE_SD,
) -> float | None:
    """The true ΔElo of two strategies at which the test finds a difference in 80 of 100 experiments.

    Over `clusters` independent tasks with `task_runs` (task, run) pairs in all. The mean score 1/2 + d that
    is found so often solves P(T > t_crit) = 0.8 for T noncentral t with clusters - 1 degrees of freedom and
    noncentrality d / SE, where SE = score_sd(d, at_null) · √(design / task_runs) and design = 1 + (runs per
    task - 1) · intra_task. ΔElo = elo_scale · log10((1/2 + d) / (1/2 - d)) · f(d), which is 695 · d for
    small d at scale 400.

    f(d) = 1 + 8/3 d² + 352/15 d⁴ is the fit's: its interval is symmetric in Elo, so with p = 1/2 + d the
    distance from zero is, by the delta method, logit p · p (1 - p) = d - 8/3 d³ - 32/15 d⁵ … over the SE of a
    score instead of d; f inverts the series. Simulated with the fit itself, 75 to 85 of 100 hold from 10
    tasks on; with fewer no difference at all is found so often.

    None for a single task, whose differences say nothing about others.
    """
    if clusters < 2 or task_runs < clusters:
        return None
    # The two functions alone: scipy.stats takes a second to import.
    from scipy.special import nctdtrinc, stdtrit

    critical = float(stdtrit(clusters - 1, 1 - LEVEL / 2))
    noncentrality = float(nctdtrinc(clusters - 1, 1 - POWER, critical))
    design = 1 + (task_runs / clusters - 1) * intra_task
    factor = noncentrality * math.sqrt(design / task_runs)
    low, high = 0.0, 0.5
    for _step in range(60):
        middle = (low + high) / 2
        if middle < factor * score_sd(middle, at_null):
            low = middle
        else:
            high = middle
    return elo_scale * math.log10((0.5 + low) / (0.5 - low)) * (1 + 8 / 3 * low**2 + 352 / 15 * low**4)
