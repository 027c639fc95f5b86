"""What a fit needs of a ledger: the tokens charged to each strategy, by task and run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

from elometer.core.attempt import CHARGED_PHASES
from elometer.ledger.cells import FAILED, MEASURED, Line, Tokens
from elometer.ledger.reader import BadLine, Reading

Basis = Literal["total", "output", "uncached"]
TaskRun = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class TokenSums:
    """Token sums of one experiment; null strategies (judge, probe, canary) are in none of them.

    `charged` and `answered` are per (strategy, task, run), on the chosen basis, of lines whose phase is
    charged to the strategy; `answered` leaves out attempts that failed. `total` is what the founding sum
    gives: `total_tokens` of all lines of a strategy, whatever the basis. `estimated` is the part of `total`
    that no server counted, `unknown` the number of answered lines without a count, `calls` distinct calls.
    """

    charged: dict[TaskRun, int]
    answered: dict[TaskRun, int]
    total: dict[str, int]
    estimated: dict[str, int]
    unknown: dict[str, int]
    calls: dict[str, int]
    bad: list[BadLine]


def token_sums(paths: Sequence[Path], basis: Basis = "total") -> TokenSums:
    """Sum ledgers of one experiment. Raises UsageError where one is missing."""
    charged: dict[TaskRun, int] = defaultdict(int)
    answered: dict[TaskRun, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    estimated: dict[str, int] = defaultdict(int)
    unknown: dict[str, int] = defaultdict(int)
    call_ids: dict[str, set[str | int]] = defaultdict(set)
    bad: list[BadLine] = []
    unnamed = count()
    for path in paths:
        reading = Reading(path, Line)
        for line in reading:
            if line.strategy is None:
                continue
            name, tokens, failed = line.strategy, line.total(), line.status in FAILED
            total[name] += int(tokens or 0)
            call_ids[name].add(next(unnamed) if line.call_id is None else line.call_id)
            if tokens is None:
                unknown[name] += not failed
            elif line.usage_source not in MEASURED:
                estimated[name] += int(tokens)
            if line.phase in (None, *CHARGED_PHASES) and line.task is not None and isinstance(line.run, int):
                where = (name, line.task, line.run)
                spent = int(tokens_on(line, basis) or 0)
                charged[where] += spent
                answered[where] += 0 if failed else spent
        bad.extend(reading.bad)
    return TokenSums(
        charged=dict(charged),
        answered=dict(answered),
        total=dict(total),
        estimated=dict(estimated),
        unknown=dict(unknown),
        calls={name: len(ids) for name, ids in call_ids.items()},
        bad=bad,
    )


def tokens_on(line: Line, basis: Basis) -> Tokens:
    """A line's tokens on a basis: all, the completion's, or all without what was read from a cache."""
    if basis == "output":
        return line.completion_tokens
    total = line.total()
    if basis == "total" or total is None:
        return total
    return max(total - (line.cached_tokens or 0), 0)
