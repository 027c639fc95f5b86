"""Fits of their own in every task, then their mean: the conditional target, and the unitless profile."""

from __future__ import annotations

import numpy as np

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.estimate import Estimate, centred
from elometer.rating.estimators import bradley_terry
from elometer.rating.graph import WinGraph
from elometer.rating.options import FitOptions
from elometer.rating.pooled import fit_pooled
from elometer.rating.records import Floats, Integers, RecordSet

CHUNK_NUMBERS = 4_000_000


def task_scores(records: RecordSet, options: FitOptions) -> Floats:
    """(T, K, K): what i scored against j in task t; a task weighs what it has records."""
    scores = records.win_counts
    if options.ties_used != "drop":
        scores = scores + 0.5 * records.tie_counts
    total = scores.sum(axis=(1, 2), keepdims=True)
    kept = records.records - (records.tied_records if options.ties_used == "drop" else 0)
    count = np.bincount(records.block_task[records.cell_block], kept, len(records.tasks))
    result: Floats = scores * np.where(total > 0, count[:, None, None] / np.where(total > 0, total, 1.0), 0.0)
    return result


def connected_tasks(scores: Floats) -> Integers:
    """Indices of the tasks in which a chain of comparisons joins all strategies."""
    linked = (scores + np.swapaxes(scores, 1, 2)) > 0
    seen = np.zeros(scores.shape[:2], dtype=bool)
    seen[:, 0] = True
    for _step in range(scores.shape[1]):
        wider = seen | (seen[:, :, None] & linked).any(axis=1)
        if (wider == seen).all():
            break
        seen = wider
    result: Integers = np.flatnonzero(seen.all(axis=1))
    return result


def fit_each_task(scores: Floats) -> Floats:
    """(T, K): the penalised θ of every task, sum zero; every task must be connected."""
    size = scores.shape[-1]
    islands = np.zeros(size, dtype=np.int64)
    chunk = max(1, CHUNK_NUMBERS // (size * size))
    parts = [
        bradley_terry.fit_firth(scores[at : at + chunk], islands).theta for at in range(0, len(scores), chunk)
    ]
    theta = np.concatenate(parts)
    centred_theta: Floats = theta - theta.mean(axis=1, keepdims=True)
    return centred_theta


def standardised(theta: Floats) -> Floats:
    """(T, K): each task's θ with mean 0 and deviation 1; all zero where it tells nothing apart."""
    centre = theta - theta.mean(axis=1, keepdims=True)
    spread = np.sqrt((centre**2).mean(axis=1, keepdims=True))
    scores: Floats = np.where(spread > 1e-9, centre / np.where(spread > 1e-9, spread, 1.0), 0.0)
    return scores


def fit_per_task(
    records: RecordSet, options: FitOptions, graph: WinGraph
) -> tuple[Estimate, tuple[str, ...]]:
    """The mean over tasks, and the names of tasks that could not be fitted.

    Davidson and position terms are not fitted per task: a task alone rarely tells them.
    """
    if options.model != "bradley-terry" or not options.penalised:
        raise UsageError(
            _("A fit per task is penalised, with ties half or dropped."),
            evidence=_("One task alone rarely has a finite maximum."),
            fix=_("Use --estimator firth, or --aggregation pooled."),
        )
    scores = task_scores(records, options)
    usable = connected_tasks(scores)
    if not len(usable):
        raise UsageError(
            _("No task compares all strategies."),
            evidence=_("A fit per task needs a task in which comparisons join them all."),
            fix=_("Use --aggregation pooled."),
        )
    theta = fit_each_task(scores[usable])
    if options.aggregation == "per-task-standardised":
        theta = standardised(theta)
    size = len(records.strategies)
    mean = theta.mean(axis=0)
    influence = np.zeros((len(records.tasks), size))
    influence[usable] = (theta - mean) / len(usable)
    present = np.zeros(influence.shape, dtype=bool)
    present[usable] = True
    stratum = np.zeros(len(records.tasks), dtype=np.int64)
    pooled = fit_pooled(records, FitOptions(ties=options.ties, task_weight=options.task_weight), graph)
    left_out = tuple(name for index, name in enumerate(records.tasks) if index not in set(usable.tolist()))
    estimate = Estimate(
        theta=mean,
        influence=centred(influence, present, stratum),
        present=present,
        stratum=stratum,
        model_covariance=_model_covariance(theta, scores[usable]),
        scores=pooled.scores,
        graph=graph,
        converged=True,
    )
    return estimate, left_out


def _model_covariance(theta: Floats, scores: Floats) -> Floats:
    islands = np.zeros(theta.shape[1], dtype=np.int64)
    games = scores + np.swapaxes(scores, 1, 2)
    each = bradley_terry.covariance(bradley_terry.information(theta, games), bradley_terry.gauge(islands))
    mean: Floats = each.sum(axis=0) / len(theta) ** 2
    return mean
