"""From columns of coded records to counts per block and ordered pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from elometer.rating.marks import SHARED_MEASURED
from elometer.rating.records import (
    FIRST,
    NO_BLOCK,
    SECOND,
    TIE,
    RecordSet,
    natural_order,
    require_two_strategies,
    sums,
)

Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class CodedNames:
    """What the codes in the columns stand for: strategies (None: absent), tasks, and all experiments."""

    strategies: Sequence[str | None]
    tasks: Sequence[str]
    experiments: Sequence[str]


def record_set(columns: Columns, coded: CodedNames, where: str, ordered: bool) -> RecordSet:
    """The counts of all records. Raises UsageError that names `where` for one strategy only."""
    names, tasks = coded.strategies, coded.tasks
    used = np.unique(np.concatenate([columns["first"], columns["second"]]))
    strategies = natural_order(names[code] for code in used.tolist())
    require_two_strategies(strategies, where)
    used_tasks = np.unique(columns["task"])
    task_names = natural_order({tasks[code] for code in used_tasks.tolist()})
    strategy_place = _places(names, strategies)
    task_place = _places(tasks, task_names)
    task = task_place[columns["task"]]
    both_runs = np.concatenate([columns["run"], columns.get("run_b", columns["run"][:0])])
    both_tasks = np.concatenate([task, task]) if "run_b" in columns else task
    runs, run = _distinct(both_runs)
    blocks, blocks_of = _distinct(both_tasks * len(runs) + run)
    block_of, other_block = blocks_of[: len(task)], blocks_of[len(task) :]
    first, second = strategy_place[columns["first"]], strategy_place[columns["second"]]
    count = len(strategies)
    keys = (block_of * count + first) * count + second
    cells, place = _distinct(keys)
    size = len(cells)
    outcome, weight = columns["outcome"], columns["weight"]

    def won(share: str, code: int) -> npt.NDArray[np.float64]:
        if share in columns:
            return sums(place, weight * columns[share], size)
        mask = outcome == code
        return sums(place[mask], weight[mask], size)

    across = None
    tied: npt.NDArray[Any] = np.bincount(place[outcome == TIE], minlength=size)
    if "run_b" in columns and (other_block != block_of).any():
        keys = np.union1d(block_of * count + first, other_block * count + second)
        across = np.stack([keys // count, keys % count], axis=1)
    if "tied" in columns:
        tied = sums(place, columns["tied"], size)
    shared = columns.get("shared", outcome[:0])
    return RecordSet(
        experiment_id=coded.experiments[0] if coded.experiments else None,
        strategies=strategies,
        tasks=task_names,
        block_task=blocks // len(runs),
        block_run=runs[blocks % len(runs)],
        block_order=_block_order(block_of, columns["block"], len(blocks)),
        cell_block=cells // (count * count),
        first=cells // count % count,
        second=cells % count,
        first_wins=won("share_a", FIRST),
        second_wins=won("share_b", SECOND),
        ties=won("tied", TIE),
        records=np.bincount(place, minlength=size),
        tied_records=tied,
        across_runs=across,
        shared=int((shared != 0).sum()),
        shared_measured=int((shared == SHARED_MEASURED).sum()),
        ordered=ordered,
    )


def _distinct(keys: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distinct keys in order, and the place of each key among them; files in order need no sorting."""
    step = np.diff(keys)
    if not len(keys) or (step < 0).any():
        distinct, place = np.unique(keys, return_inverse=True)
        return distinct, place
    place = np.zeros(len(keys), dtype=np.int64)
    np.cumsum(step > 0, out=place[1:])
    return keys[np.append(True, step > 0)], place


def _places(names: Sequence[str | None], ordered: Sequence[str]) -> npt.NDArray[np.int64]:
    place = {name: index for index, name in enumerate(ordered)}
    return np.array([place.get(name, 0) if name is not None else 0 for name in names], dtype=np.int64)


def _block_order(
    block_of: npt.NDArray[np.int64], number: npt.NDArray[np.int64], size: int
) -> npt.NDArray[np.int64]:
    """The place of each block in time: its number, or where it first stands in the file."""
    seen = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(seen, block_of, number if (number != NO_BLOCK).all() else np.arange(len(block_of)))
    return np.argsort(np.argsort(seen, kind="stable"), kind="stable")
