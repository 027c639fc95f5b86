"""From scores of a block to pair records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from msgspec.structs import replace

from elometer.rating.records import Floats, PairRecord, RecordSet, natural_order, require_two_strategies


@dataclass(frozen=True, slots=True)
class BlockScores:
    """What each strategy scored in one (task, run); higher is better, None excludes the strategy pairwise."""

    task: str
    run: int
    block: int
    scores: dict[str, float | None]


def pair_blocks(
    experiment_id: str, blocks: Iterable[BlockScores], *, tie_epsilon: float = 0.0
) -> list[PairRecord]:
    """One record for each pair of strategies of each block, strategies in natural order.

    A difference of at most `tie_epsilon` (in units of the score) is a tie: one comparison. A score that is
    not a number excludes the strategy as None does.
    """
    records = []
    for block in blocks:
        scored = {name: score for name, score in block.scores.items() if score is not None and score == score}
        for a, b in combinations(natural_order(scored), 2):
            records.append(_pair(experiment_id, block, a, b, scored[a], scored[b], tie_epsilon))
    return records


def pair_across_runs(
    experiment_id: str, blocks: Iterable[BlockScores], runs: int, *, tie_epsilon: float = 0.0
) -> list[PairRecord]:
    """Like `pair_blocks`, each strategy's answer meeting the others' of the next run of the task.

    Run r meets run r + 1, the last one (`runs`) meets run 1. With two runs or more the two answers share no
    draw, and there are as many records as within runs. A pair is left out where either answer is missing.
    """
    kept = {(block.task, block.run): block for block in blocks}
    names = natural_order({name for block in kept.values() for name in block.scores})
    records = []
    for (task, run), block in kept.items():
        other = kept.get((task, run % runs + 1))
        if other is None or other is block:
            continue
        for a, b in combinations(names, 2):
            score_a, score_b = _score(block.scores.get(a)), _score(other.scores.get(b))
            if score_a == score_a and score_b == score_b:
                record = _pair(experiment_id, block, a, b, score_a, score_b, tie_epsilon)
                records.append(replace(record, run_a=run, run_b=other.run))
    return records


def _pair(
    experiment_id: str, block: BlockScores, a: str, b: str, score_a: float, score_b: float, tie_epsilon: float
) -> PairRecord:
    # Two infinite scores of one sign are equal, and their difference is not a number.
    difference = 0.0 if score_a == score_b else score_a - score_b
    tie = math.fabs(difference) <= tie_epsilon
    a_wins = difference > 0
    return PairRecord(
        experiment_id=experiment_id,
        task=block.task,
        run=block.run,
        winner=None if tie else (a if a_wins else b),
        loser=None if tie else (b if a_wins else a),
        a=a,
        b=b,
        outcome="tie" if tie else ("a" if a_wins else "b"),
        score_a=score_a,
        score_b=score_b,
        block=block.block,
    )


def count_blocks(experiment_id: str, blocks: Iterable[BlockScores], *, tie_epsilon: float = 0.0) -> RecordSet:
    """The counts of `pair_blocks` without a record per pair: for fits that are repeated while blocks finish.

    Raises UsageError where no block holds two scored strategies.
    """
    # One block per (task, run), as everywhere; natural order of tasks as in a set read from a file.
    kept = list({(block.task, block.run): block for block in blocks}.values())
    strategies = natural_order({name for block in kept for name in block.scores})
    scores = np.array(
        [[_score(block.scores.get(name)) for name in strategies] for block in kept], dtype=np.float64
    ).reshape(len(kept), len(strategies))
    known = ~np.isnan(scores)
    usable = known.sum(axis=1) >= 2
    names = [name for name, met in zip(strategies, known[usable].any(axis=0), strict=True) if met]
    require_two_strategies(names, experiment_id)
    tasks = natural_order({block.task for block, paired in zip(kept, usable, strict=True) if paired})
    place = {name: index for index, name in enumerate(tasks)}
    order = sorted(np.flatnonzero(usable).tolist(), key=lambda row: (place[kept[row].task], kept[row].run))
    columns = [index for index, name in enumerate(strategies) if name in names]
    return _counted(
        experiment_id,
        tuple(names),
        tasks,
        [kept[row] for row in order],
        scores[order][:, columns],
        tie_epsilon,
    )


def _score(value: float | None) -> float:
    return math.nan if value is None else value


def _counted(
    experiment_id: str,
    names: tuple[str, ...],
    tasks: tuple[str, ...],
    blocks: Sequence[BlockScores],
    scores: Floats,
    tie_epsilon: float,
) -> RecordSet:
    low, high = np.triu_indices(len(names), 1)
    first, second = scores[:, low], scores[:, high]
    met = ~(np.isnan(first) | np.isnan(second))
    with np.errstate(invalid="ignore"):
        difference = np.where(first == second, 0.0, first - second)[met]
    block, pair = np.nonzero(met)
    tie = np.abs(difference) <= tie_epsilon
    place = {name: index for index, name in enumerate(tasks)}
    number = np.array([each.block for each in blocks], dtype=np.int64)
    return RecordSet(
        experiment_id=experiment_id,
        strategies=names,
        tasks=tasks,
        block_task=np.array([place[each.task] for each in blocks], dtype=np.int64),
        block_run=np.array([each.run for each in blocks], dtype=np.int64),
        block_order=np.argsort(np.argsort(number, kind="stable"), kind="stable"),
        cell_block=block,
        first=low[pair],
        second=high[pair],
        first_wins=((difference > 0) & ~tie).astype(np.float64),
        second_wins=((difference < 0) & ~tie).astype(np.float64),
        ties=tie.astype(np.float64),
        records=np.ones(len(pair), dtype=np.int64),
        tied_records=tie.astype(np.int64),
    )
