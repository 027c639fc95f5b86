"""Tokens beside comparisons: what each strategy was charged, over the same task-runs that were compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.records import Floats, Integers, RecordSet

# Why a price is refused: see `TokenUse.comparable`.
LOCAL_COUNTS = "local counts of several models"


@dataclass(frozen=True)
class TokenUse:
    """What a ledger says of the tokens of one experiment.

    `charged`: tokens charged to a (strategy, task, run); a fit uses those of task-runs that were compared.
    `total_tokens`: tokens of all ledger lines of a strategy, failed attempts and excluded blocks among them.
    `calls`: calls per strategy. `estimated_tokens`: the part of `total_tokens` that no server counted.
    `uncached`: like `charged`, without what was read from a cache, where a cache was used.
    `models`: who answered each strategy. `local`: strategies with answers that no server counted.
    `unread_lines`: how many lines of the ledger were none and are not in these sums.
    """

    charged: Mapping[tuple[str, str, int], float]
    total_tokens: Mapping[str, int]
    calls: Mapping[str, int] = field(default_factory=dict)
    estimated_tokens: Mapping[str, int] = field(default_factory=dict)
    uncached: Mapping[tuple[str, str, int], float] | None = None
    models: Mapping[str, Collection[str]] = field(default_factory=dict)
    local: Collection[str] = ()
    unread_lines: int = 0

    def comparable(self, strategies: Iterable[str], *, totals: bool = False) -> bool:
        """Whether tokens of these strategies are one unit: one model's, or all counted by servers.

        Tokens of charged answers; with `totals` those of all lines, the estimates of cut ones among them.
        """
        names = set(strategies)
        local = {name for name, tokens in self.estimated_tokens.items() if tokens} if totals else self.local
        if names.isdisjoint(local):
            return True
        return len({model for name in names for model in self.models.get(name, ())}) < 2


@dataclass(frozen=True, slots=True)
class TaskTokens:
    """Mean charged tokens per task-run: `mean` (T, K), NaN where the strategy was not compared in the task.

    `counted` (K): tokens charged in task-runs that were compared. `uncompared` (K): charged task-runs that
    stand in no comparison of the strategy. `joined`: whether tasks of records and ledger are the same ones;
    records without tasks cannot be joined, then `mean` has one row over all task-runs.
    """

    mean: Floats
    counted: Floats
    uncompared: Integers
    joined: bool

    @property
    def per_task_run(self) -> Floats:
        """(K): the mean over tasks of the mean over runs, tokens per task-run; NaN where unknown."""
        known = ~np.isnan(self.mean)
        count = known.sum(axis=0)
        total = np.where(known, self.mean, 0.0).sum(axis=0)
        result: Floats = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        return result


def task_tokens(records: RecordSet, charged: Mapping[tuple[str, str, int], float]) -> TaskTokens:
    """Join charged tokens to the task-runs that were compared.

    Raises UsageError for a number of tokens that is negative, infinite or none.
    """
    _require_counts(charged)
    place = {name: index for index, name in enumerate(records.strategies)}
    if records.tasks == ("",):
        return _unjoined(place, charged)
    size, tasks = len(place), len(records.tasks)
    blocks = dict(
        zip(
            zip(records.block_task.tolist(), records.block_run.tolist(), strict=True),
            range(len(records.block_task)),
            strict=True,
        )
    )
    task_place = {name: index for index, name in enumerate(records.tasks)}
    tokens = np.full((len(records.block_task), size), np.nan)
    charged_runs = np.zeros(size, dtype=np.int64)
    for (strategy, task, run), spent in charged.items():
        column = place.get(strategy)
        if column is None:
            continue
        charged_runs[column] += 1
        block = blocks.get((task_place.get(task, -1), run))
        if block is not None:
            tokens[block, column] = spent
    compared = np.zeros(tokens.shape, dtype=bool)
    compared[records.counted[:, 0], records.counted[:, 1]] = True
    tokens[~compared] = np.nan
    known = ~np.isnan(tokens)
    runs, total = np.zeros((tasks, size)), np.zeros((tasks, size))
    np.add.at(runs, records.block_task, known.astype(np.float64))
    filled = np.where(known, tokens, 0.0)
    np.add.at(total, records.block_task, filled)
    mean = np.where(runs > 0, total / np.maximum(runs, 1.0), np.nan)
    return TaskTokens(mean, filled.sum(axis=0), charged_runs - known.sum(axis=0), True)


def _require_counts(charged: Mapping[tuple[str, str, int], float]) -> None:
    values = np.fromiter(charged.values(), dtype=np.float64, count=len(charged))
    wrong = ~((values >= 0) & np.isfinite(values))
    if not wrong.any():
        return
    strategy, task, run = list(charged)[int(wrong.argmax())]
    raise UsageError(
        _("{strategy}, task {task}, run {run}: no number of tokens.").format(
            strategy=strategy, task=task, run=run
        ),
        evidence=str(values[wrong.argmax()]),
        fix=_("Give numbers that are finite and not negative."),
    )


def _unjoined(place: Mapping[str, int], charged: Mapping[tuple[str, str, int], float]) -> TaskTokens:
    total, count = np.zeros(len(place)), np.zeros(len(place))
    for (strategy, _task, _run), spent in charged.items():
        column = place.get(strategy)
        if column is not None:
            total[column] += spent
            count[column] += 1
    mean = np.where(count > 0, total / np.maximum(count, 1.0), np.nan)
    return TaskTokens(mean[None, :], total, np.zeros(len(place), dtype=np.int64), False)
