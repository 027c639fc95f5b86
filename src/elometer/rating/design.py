"""What unequal tasks do to a fit in which records, not tasks, weigh the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elometer.rating.comparisons import difference
from elometer.rating.estimate import Estimate, contrast_error
from elometer.rating.options import FitOptions
from elometer.rating.pooled import weighted_cells
from elometer.rating.records import Floats, RecordSet, sums


@dataclass(frozen=True, slots=True)
class Design:
    """The task with the largest share of the weight, and the design effect of each neighbouring difference.

    A design effect (Kish 1965) is the variance with tasks as clusters over that of as many independent
    records: n records of a difference tell as much as n / effect. None where tasks do not tell of it.
    """

    largest_task: str
    largest_share: float
    effects: tuple[float | None, ...]


def design_of(
    records: RecordSet, options: FitOptions, estimate: Estimate, pairs: Sequence[tuple[int, int]]
) -> Design | None:
    """For fits with `task_weight` records; `pairs` are indices of (lower, higher) strategies.

    None for other fits. No effects for models other than Bradley-Terry, and where records rest on shared
    draws, which are no independent records to compare with.
    """
    if options.task_weight != "records" or options.aggregation != "pooled":
        return None
    weight = records.first_wins + records.second_wins
    if options.ties_used != "drop":
        weight = weight + records.ties
    per_task = sums(records.block_task[records.cell_block], weight, len(records.tasks))
    largest = int(per_task.argmax())
    share = float(per_task[largest] / per_task.sum())
    effects: tuple[float | None, ...] = (None,) * len(pairs)
    told = options.model == "bradley-terry" and options.generalise == "tasks" and not records.shared
    if told and estimate.clustered:
        residual = _independent(records, options, estimate)
        effects = tuple(_effect(estimate, residual, records, pair) for pair in pairs)
    return Design(records.tasks[largest], share, effects)


def _independent(records: RecordSet, options: FitOptions, estimate: Estimate) -> Floats:
    """(N,): the sum of squared residuals of the records of each cell, records of a cell weighing the same."""
    cells = weighted_cells(records, options)
    total = float(cells.games.sum())
    weight = records.first_wins + records.second_wins
    ties = np.zeros_like(records.ties) if options.ties_used == "drop" else records.ties
    count = records.records - (records.tied_records if options.ties_used == "drop" else 0)
    weight = weight + ties
    each = weight / np.maximum(count, 1) * (total / float(weight.sum()))
    gap = estimate.theta[records.first] - estimate.theta[records.second]
    chance = 0.5 + 0.5 * np.tanh(0.5 * gap)
    scale = total / float(weight.sum())
    squares: Floats = (
        scale
        * each
        * (
            records.first_wins * (1.0 - chance) ** 2
            + records.second_wins * chance**2
            + ties * (0.5 - chance) ** 2
        )
    )
    return squares


def _effect(estimate: Estimate, squares: Floats, records: RecordSet, pair: tuple[int, int]) -> float | None:
    weights = difference(len(estimate.theta), *pair)
    if not estimate.same_component(np.array(pair)):
        return None
    error, _degrees, basis = contrast_error(estimate, weights)
    if error is None or basis != "clusters":
        return None
    along = estimate.model_covariance @ weights
    alone = float((squares * (along[records.first] - along[records.second]) ** 2).sum())
    return error**2 / alone if alone > 0 else None
