"""Which answers meet in a pair record, so that no shared draw tilts a comparison.

Under `nested` a larger strategy holds the smaller one's answers, so within a run its best never scores less,
and gaps come out too large. Only where scores are 0 and 1 and ties half wins does the expected result of a
pair depend on nothing but each strategy's own mean: there answers of one run meet, elsewhere of two runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Literal

from msgspec.structs import replace

from elometer.core.natural import natural_key
from elometer.rating.pairs import BlockScores, count_blocks, pair_across_runs, pair_blocks
from elometer.rating.records import PairRecord, RecordSet
from elometer.runs.journal import Outcome
from elometer.runs.pool import shares_of
from elometer.runs.sharing import margins_decide, shared_calls
from elometer.runs.spec import Experiment, Strategy

Blocks = dict[tuple[str, int], BlockScores]


@dataclass(frozen=True, slots=True)
class Pairing:
    """How outcomes become records: those of `strategies`, one for each pair of them and each run."""

    experiment_id: str
    strategies: tuple[Strategy, ...]
    runs: int = 1
    tie_epsilon: float = 0.0
    plan: Literal["independent", "nested", "pool"] = "independent"
    always_across: bool = False

    @classmethod
    def of(cls, experiment: Experiment) -> Pairing:
        """The pairing that an experiment asks for; ceilings take no part."""
        return cls(
            experiment_id=experiment.experiment_id,
            strategies=experiment.contestants,
            runs=experiment.sampling.runs,
            tie_epsilon=experiment.eval.tie_epsilon,
            plan=experiment.sampling.plan,
            always_across=not margins_decide(experiment),
        )

    @classmethod
    def within_runs(cls, experiment_id: str | None, names: Iterable[str]) -> Pairing:
        """The pairing of independent draws, for strategies of whom no more is known than their names."""
        return cls(experiment_id or "", tuple(map(Strategy, names)))

    def records(self, outcomes: Iterable[Outcome]) -> list[PairRecord]:
        """One record per pair and task-run, in an order that depends on the outcomes alone."""
        names = {one.name for one in self.strategies}
        ordered = sorted(
            (one for one in outcomes if one.strategy in names),
            key=lambda one: (natural_key(one.task), one.run, natural_key(one.strategy)),
        )
        blocks: Blocks = {}
        for outcome in ordered:
            score_block(blocks, outcome)
        if self.plan == "independent":
            return pair_blocks(self.experiment_id, blocks.values(), tie_epsilon=self.tie_epsilon)
        if self.plan == "pool":
            return self._pooled(ordered)
        return self._nested(blocks, {one.task for one in ordered if one.graded == "score"})

    def counts(self, outcomes: Iterable[Outcome]) -> RecordSet:
        """What the records come to. Raises UsageError where they compare no two strategies."""
        if self.plan != "independent":
            return RecordSet.from_records(self.records(outcomes))
        blocks: Blocks = {}
        names = {one.name for one in self.strategies}
        for outcome in outcomes:
            if outcome.strategy in names:
                score_block(blocks, outcome)
        return count_blocks(self.experiment_id, blocks.values(), tie_epsilon=self.tie_epsilon)

    def _pooled(self, ordered: Sequence[Outcome]) -> list[PairRecord]:
        """Shares of redraws won; an outcome that was filled in by assumption wins or loses all of them."""
        records = []
        for (task, run), group in groupby(ordered, key=lambda one: (one.task, one.run)):
            for one, other in combinations([item for item in group if item.counted], 2):
                score_a, score_b = one.score or 0.0, other.score or 0.0
                shares = shares_of(one, other)
                if shares is None and (math.isinf(score_a) or math.isinf(score_b)):
                    shares = float(score_a > score_b), float(score_a < score_b)
                if shares is None:
                    continue
                records.append(self._shared_out(task, run, one, other, shares))
        return records

    def _shared_out(
        self, task: str, run: int, one: Outcome, other: Outcome, shares: tuple[float, float]
    ) -> PairRecord:
        won, lost = shares
        a, b = one.strategy, other.strategy
        winner, loser = (None, None) if won == lost else (a, b) if won > lost else (b, a)
        return PairRecord(
            experiment_id=self.experiment_id,
            task=task,
            run=run,
            winner=winner,
            loser=loser,
            a=a,
            b=b,
            outcome="tie" if winner is None else "a" if winner == a else "b",
            score_a=one.score,
            score_b=other.score,
            block=one.block,
            share_a=won,
            share_b=lost,
        )

    def _nested(self, blocks: Blocks, measured: set[str]) -> list[PairRecord]:
        across = {task for task, _run in blocks if self.always_across or task in measured}
        within = [block for (task, _run), block in blocks.items() if task not in across]
        apart = [block for (task, _run), block in blocks.items() if task in across]
        calls = {
            (one.name, other.name): shared_calls(one, other)
            for one in self.strategies
            for other in self.strategies
        }
        records = [
            replace(record, shared=calls[record.a, record.b])
            for record in pair_blocks(self.experiment_id, within, tie_epsilon=self.tie_epsilon)
        ]
        return records + pair_across_runs(self.experiment_id, apart, self.runs, tie_epsilon=self.tie_epsilon)


def score_block(blocks: Blocks, outcome: Outcome) -> None:
    """Enter an outcome into the scores of its block; one that does not count excludes its strategy there."""
    place = (outcome.task, outcome.run)
    block = blocks.setdefault(place, BlockScores(outcome.task, outcome.run, outcome.block, {}))
    block.scores[outcome.strategy] = outcome.score if outcome.counted else None
