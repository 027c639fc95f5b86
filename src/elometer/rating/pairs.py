"""From scores of a block to pair records."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from elometer.rating.records import PairRecord, natural_order


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
