"""What a fit needs of a ledger: the tokens charged to each strategy, by task and run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, count, repeat
from pathlib import Path
from typing import Literal

from elometer.core.attempt import CHARGED_PHASES
from elometer.ledger.cells import FAILED, MEASURED, Line, Tokens
from elometer.ledger.reader import BadLine, Reading

Basis = Literal["total", "output", "uncached"]
TaskRun = tuple[str, str, int]


class _Line(Line, gc=False):
    used_by: tuple[str, ...] | None = None
    use_share: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class TokenSums:
    """Token sums of one experiment; null strategies (judge, probe, canary) are in none of them.

    A line that several strategies rest on counts for each of them, by its share where the line gives one.

    `charged` and `answered` are per (strategy, task, run), on the chosen basis, of lines whose phase is
    charged to the strategy; `answered` leaves out attempts that failed. `total` is what the founding sum
    gives (over the expanded ledger where lines are shared): `total_tokens` of all lines of a strategy,
    whatever the basis. `estimated` is the part of `total` that no server counted, `unknown` the number of
    answered lines without a count, `calls` distinct calls.
    `cached`: the part of `answered` that was read from a cache; empty on other bases than all tokens.
    `models` are the names that answered a strategy, `local` the strategies with answers that no server
    counted.
    """

    charged: dict[TaskRun, float]
    answered: dict[TaskRun, float]
    total: dict[str, int]
    estimated: dict[str, int]
    unknown: dict[str, int]
    calls: dict[str, int]
    models: dict[str, set[str]]
    local: set[str]
    bad: list[BadLine]
    spent: int = 0  # tokens of all these lines, each counted once
    cached: dict[TaskRun, float] = field(default_factory=dict)


class RunningCharges:
    """Token sums of growing ledgers of one experiment; `update` reads only what is new."""

    def __init__(self, paths: Sequence[Path], basis: Basis = "total") -> None:
        self._readings = [Reading(path, _Line) for path in paths]
        self._basis: Basis = basis
        self._charged: dict[TaskRun, float] = defaultdict(int)
        self._answered: dict[TaskRun, float] = defaultdict(int)
        self._cached: dict[TaskRun, float] = defaultdict(int)
        self._total: dict[str, float] = defaultdict(int)
        self._estimated: dict[str, float] = defaultdict(int)
        self._unknown: dict[str, int] = defaultdict(int)
        self._call_ids: dict[str, set[str | int]] = defaultdict(set)
        self._models: dict[str, set[str]] = defaultdict(set)
        self._local: set[str] = set()
        self._share: dict[str, float] = {}
        self._spent = 0
        self._unnamed = count()

    def update(self) -> TokenSums:
        """The sums of all whole lines so far. Raises UsageError where a file is missing.

        The dictionaries by task-run are those that the next update goes on filling.
        """
        for line in chain.from_iterable(self._readings):
            if line.strategy is None:
                continue
            self._spent += int(line.total() or 0)
            if line.used_by is None:
                self._add(line, line.strategy)
                continue
            for name, share in zip(line.used_by, line.use_share or repeat(1), strict=False):
                self._add(line, name, share)
        return TokenSums(
            charged=self._charged,
            answered=self._answered,
            cached=self._cached,
            total={name: round(tokens) for name, tokens in self._total.items()},
            estimated={name: round(tokens) for name, tokens in self._estimated.items()},
            unknown=self._unknown,
            calls={name: round(len(ids) * self._share.get(name, 1)) for name, ids in self._call_ids.items()},
            models=self._models,
            local=self._local,
            bad=[line for reading in self._readings for line in reading.bad],
            spent=self._spent,
        )

    def _add(self, line: Line, name: str, share: float = 1) -> None:
        tokens, failed = line.total(), line.status in FAILED
        self._total[name] += (tokens or 0) * share
        self._call_ids[name].add(next(self._unnamed) if line.call_id is None else line.call_id)
        if share != 1:
            self._share[name] = share
        if tokens is None:
            self._unknown[name] += not failed
        elif line.usage_source not in MEASURED:
            self._estimated[name] += tokens * share
            if not failed:
                self._local.add(name)
        if line.model is not None and not failed:
            self._models[name].add(line.model)
        if line.phase in (None, *CHARGED_PHASES) and line.task is not None and isinstance(line.run, int):
            where = (name, line.task, line.run)
            spent = (tokens_on(line, self._basis) or 0) * share
            self._charged[where] += spent
            self._answered[where] += 0 if failed else spent
            if line.cached_tokens and not failed and self._basis == "total":
                self._cached[where] += min(line.cached_tokens * share, spent)


def token_sums(paths: Sequence[Path], basis: Basis = "total") -> TokenSums:
    """Sum ledgers of one experiment. Raises UsageError where one is missing."""
    return RunningCharges(paths, basis).update()


def tokens_on(line: Line, basis: Basis) -> Tokens:
    """A line's tokens on a basis: all, the completion's, or all without what was read from a cache."""
    if basis == "output":
        return line.completion_tokens
    total = line.total()
    if basis == "total" or total is None:
        return total
    return max(total - (line.cached_tokens or 0), 0)
