"""Pair records and what a fit needs of them: counts per block, never one object per line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET, UnsetType

from elometer.core.errors import UsageError
from elometer.core.natural import natural_key
from elometer.core.text import gettext as _

Outcome = Literal["a", "b", "tie"]
Source = Literal["score", "judge"]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

NO_BLOCK = -1
FIRST, SECOND, TIE = 0, 1, 2
CELL_COLUMNS = (
    "cell_block",
    "first",
    "second",
    "first_wins",
    "second_wins",
    "ties",
    "records",
    "tied_records",
)


class PairRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One in-task comparison of two strategies, as one line of pairwise_records.jsonl.

    `winner` and `loser` are None in a tie. `orders` are the verdicts of a judge in both orders, None where a
    score decided. `weight` is the record's weight inside its task; weights never change the sample size.

    The last fields are written only where they say something. `run_a` and `run_b`: the runs that the two
    answers are of, where they differ (`run` is then the first one's). `shared`: how many calls both answers
    rest on. `share_a`, `share_b`: how often each won in redraws from a pool, the rest being ties; then
    `outcome` is who won more often, and the scores are means.
    """

    experiment_id: str
    task: str
    run: int
    winner: str | None
    loser: str | None
    a: str
    b: str
    outcome: Outcome
    score_a: float | None = None
    score_b: float | None = None
    source: Source = "score"
    orders: list[str] | None = None
    inconsistent: bool | None = None
    weight: float = 1.0
    block: int | None = None
    run_a: int | UnsetType = UNSET
    run_b: int | UnsetType = UNSET
    shared: int | UnsetType = UNSET
    share_a: float | UnsetType = UNSET
    share_b: float | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Comparisons summed per (task, pair), `low < high` being indices of strategies; arrays of one length."""

    task: Integers
    low: Integers
    high: Integers
    low_wins: Floats
    high_wins: Floats
    ties: Floats


@dataclass(frozen=True)
class RecordSet:
    """Comparisons as arrays.

    `strategies` (K) and `tasks` (T) stand in natural order. A block is one (task, run): `block_task`,
    `block_run`, `block_order` (U); `block_order` is its place in time. A cell sums the records of one block
    with the same first and second strategy: `cell_block`, `first`, `second` (C) are indices, `first_wins`,
    `second_wins`, `ties` (C) sums of weights, `records` and `tied_records` (C) plain counts.
    """

    experiment_id: str | None
    strategies: tuple[str, ...]
    tasks: tuple[str, ...]
    block_task: Integers
    block_run: Integers
    block_order: Integers
    cell_block: Integers
    first: Integers
    second: Integers
    first_wins: Floats
    second_wins: Floats
    ties: Floats
    records: Integers  # (C,) records in a cell, whatever their weights
    tied_records: Floats | Integers  # (C,) those of them that are ties; in redraws the share of ties
    notes: tuple[tuple[str, str], ...] = ()  # (code, message) of what reading noticed
    # Each (block, strategy) that stands in a record, where records join two runs; None where none does.
    across_runs: Integers | None = None
    shared: int = 0  # records whose two answers rest on the same draws
    shared_measured: int = 0  # those of them with scores that are not known to be 0 or 1
    ordered: bool = (
        False  # whether first and second tell who was shown first; bare pairs list the winner first
    )
    # (K, K) wins, where it is known that all records are decisive, weigh one, and stand in one task
    plain_wins: Floats | None = None

    @classmethod
    def from_records(cls, records: Iterable[PairRecord]) -> RecordSet:
        """The counts of records in memory; checks them as `read_records` checks lines.

        Raises UsageError as `read_records` does, naming the record's position instead of a line.
        """
        from elometer.rating.reading import RecordReader

        reader = RecordReader()
        reader.add_records(records)
        return reader.finish()

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[str, str]]) -> RecordSet:
        """The counts of (winner, loser) pairs in memory, all in one task.

        Raises UsageError for a pair of one strategy with itself, and where there are no two strategies.
        """
        from elometer.rating.counting import count_pairs

        return count_pairs(pairs)

    @cached_property
    def pair_counts(self) -> PairCounts:
        """Counts per (task, pair), orientation and runs summed away."""
        count = len(self.strategies)
        swapped = self.first > self.second
        low = np.where(swapped, self.second, self.first)
        high = np.where(swapped, self.first, self.second)
        key = (self.block_task[self.cell_block] * count + low) * count + high
        cells, place = np.unique(key, return_inverse=True)
        low_wins = np.where(swapped, self.second_wins, self.first_wins)
        high_wins = np.where(swapped, self.first_wins, self.second_wins)
        size = len(cells)
        return PairCounts(
            task=cells // (count * count),
            low=cells // count % count,
            high=cells % count,
            low_wins=sums(place, low_wins, size),
            high_wins=sums(place, high_wins, size),
            ties=sums(place, self.ties, size),
        )

    @cached_property
    def win_counts(self) -> Floats:
        """(T, K, K): weight of the comparisons of task t that strategy i won against strategy j."""
        pairs = self.pair_counts
        dense = np.zeros((len(self.tasks), len(self.strategies), len(self.strategies)))
        dense[pairs.task, pairs.low, pairs.high] = pairs.low_wins
        dense[pairs.task, pairs.high, pairs.low] = pairs.high_wins
        return dense

    @cached_property
    def tie_counts(self) -> Floats:
        """(T, K, K), symmetric: weight of the tied comparisons of task t between strategies i and j."""
        pairs = self.pair_counts
        dense = np.zeros((len(self.tasks), len(self.strategies), len(self.strategies)))
        dense[pairs.task, pairs.low, pairs.high] = pairs.ties
        dense[pairs.task, pairs.high, pairs.low] = pairs.ties
        return dense

    @property
    def wins(self) -> Floats:
        """Same as `win_counts`."""
        return self.win_counts

    @cached_property
    def counted(self) -> Integers:
        """(M, 2): each (block, strategy) that stands in a record, sorted."""
        if self.across_runs is not None:
            return self.across_runs
        count = len(self.strategies)
        keys = np.unique(
            np.concatenate([self.cell_block * count + self.first, self.cell_block * count + self.second])
        )
        return np.stack([keys // count, keys % count], axis=1)

    @cached_property
    def counted_task_runs(self) -> frozenset[tuple[str, str, int]]:
        """Each (strategy, task, run) that stands in a record."""
        blocks, strategies = self.counted.T
        return frozenset(
            (self.strategies[s], self.tasks[t], r)
            for s, t, r in zip(
                strategies.tolist(),
                self.block_task[blocks].tolist(),
                self.block_run[blocks].tolist(),
                strict=True,
            )
        )

    @cached_property
    def comparisons(self) -> int:
        """How many records there are; a tie is one."""
        return int(self.records.sum())

    @cached_property
    def tie_rate(self) -> float:
        """Share of the records that are ties."""
        return float(self.tied_records.sum() / self.comparisons) if self.comparisons else 0.0

    @cached_property
    def ties_of(self) -> Integers:
        """(K,) tied records in which each strategy stands."""
        return self._per_strategy(self.tied_records)

    @cached_property
    def records_of(self) -> Integers:
        """(K,) records in which each strategy stands."""
        return self._per_strategy(self.records)

    @cached_property
    def runs_of(self) -> Integers:
        """(K,) blocks in which each strategy is compared."""
        return np.bincount(self.counted[:, 1], minlength=len(self.strategies))

    @cached_property
    def tasks_of(self) -> Integers:
        """(K,) tasks in which each strategy is compared."""
        seen = np.zeros((len(self.tasks), len(self.strategies)), dtype=bool)
        blocks, strategies = self.counted.T
        seen[self.block_task[blocks], strategies] = True
        return np.asarray(seen.sum(axis=0), dtype=np.int64)

    def _per_strategy(self, counts: Floats | Integers) -> Integers:
        size = len(self.strategies)
        both = np.bincount(self.first, counts, size) + np.bincount(self.second, counts, size)
        return np.asarray(np.rint(both), dtype=np.int64)

    def restricted(self, blocks: npt.NDArray[np.bool_]) -> RecordSet:
        """The cells of the chosen blocks (U, bool), with the same strategies and tasks."""
        keep = blocks[self.cell_block]
        return replace(
            self,
            plain_wins=None,
            **{name: getattr(self, name)[keep] for name in CELL_COLUMNS},
        )


def sums(place: Integers, weights: npt.NDArray[Any], size: int) -> Floats:
    """(size,): the weights added up by place."""
    return np.asarray(np.bincount(place, weights, size), dtype=np.float64)


def natural_order(names: Iterable[str]) -> tuple[str, ...]:
    """Names in natural order: `sample_2` before `sample_16`."""
    return tuple(sorted(names, key=natural_key))


def read_records(path: Path | str) -> RecordSet:
    """Read pair records: JSONL (records, bare `{"winner","loser"}`, `[winner, loser]`) or a two-column CSV.

    Raises UsageError (exit code 2) for a missing path, a folder, an empty file, a line that does not fit
    (with its number), contradicting records, and a file with one strategy only.
    """
    from elometer.rating.files import read_file

    return read_file(Path(path))


def require_two_strategies(strategies: Iterable[str], where: str) -> None:
    """Raise UsageError where there is nothing to compare."""
    names = list(strategies)
    if len(names) < 2:
        raise UsageError(
            _("{where}: comparisons of at least two strategies are needed.").format(where=where),
            evidence=_("It names {names}.").format(names=", ".join(names) or _("none")),
            fix=_("Give records in which one strategy meets another inside a task."),
        )
