"""Sums of ledger lines in one pass: a cell for each combination of labels, added up later by any of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC

import msgspec

from elometer.core.clock import parse_timestamp

FAILED = ("error", "cancelled")
MEASURED = ("server", None)

Tokens = int | float | None


class Line(msgspec.Struct, gc=False):
    """The fields of a ledger line that sums need. All may be absent: older and foreign ledgers read too."""

    experiment_id: str | None = None
    strategy: str | None = None
    task: str | None = None
    run: int | str | None = None
    model: str | None = None
    prompt_tokens: Tokens = None
    completion_tokens: Tokens = None
    total_tokens: Tokens = None
    timestamp: str | None = None
    call_id: str | None = None
    attempt: int | None = None
    final: bool | None = None
    phase: str | None = None
    key_fp: str | None = None
    status: str | None = None
    cached_tokens: Tokens = None
    reasoning_tokens: Tokens = None
    usage_source: str | None = None

    def total(self) -> Tokens:
        """Tokens of the line; prompt plus completion where no total is written; None where unknown."""
        if self.total_tokens is not None:
            return self.total_tokens
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        return self.prompt_tokens + self.completion_tokens


# The labels of a cell, in the order of its key; `day` is the UTC day of the line's timestamp.
LABELS = ("experiment_id", "strategy", "task", "run", "model", "phase", "key_fp", "day")
Label = str | int | None
Key = tuple[Label, ...]


class Cell(msgspec.Struct, array_like=True):
    """Sums over lines. A token count is None until a line with a known one was added.

    A line that is its call's first and final attempt is a call by itself; of all others the call ids are
    kept, because attempts of one call may lie in several cells.
    """

    lines: int = 0
    failed_attempts: int = 0
    unknown_usage_lines: int = 0
    calls: int = 0
    open_calls: set[str] = msgspec.field(default_factory=set)
    prompt_tokens: Tokens = None
    completion_tokens: Tokens = None
    total_tokens: Tokens = None
    cached_tokens: Tokens = None
    reasoning_tokens: Tokens = None
    estimated_tokens: int | float = 0

    def add(self, line: Line) -> None:
        """Count one line in."""
        self.lines += 1
        total = line.total()
        failed = line.status in FAILED
        self.failed_attempts += failed
        # An attempt that failed has no usage to know; what a cut stream cost is booked as an estimate.
        self.unknown_usage_lines += total is None and not failed
        if line.call_id is None or (line.attempt == 1 and line.final):
            self.calls += 1
        else:
            self.open_calls.add(line.call_id)
        self.prompt_tokens = plus(self.prompt_tokens, line.prompt_tokens)
        self.completion_tokens = plus(self.completion_tokens, line.completion_tokens)
        self.total_tokens = plus(self.total_tokens, total)
        self.cached_tokens = plus(self.cached_tokens, line.cached_tokens)
        self.reasoning_tokens = plus(self.reasoning_tokens, line.reasoning_tokens)
        if total is not None and line.usage_source not in MEASURED:
            self.estimated_tokens += total

    def merge(self, other: Cell) -> None:
        """Count another cell's lines in."""
        self.lines += other.lines
        self.failed_attempts += other.failed_attempts
        self.unknown_usage_lines += other.unknown_usage_lines
        self.calls += other.calls
        self.open_calls |= other.open_calls
        self.prompt_tokens = plus(self.prompt_tokens, other.prompt_tokens)
        self.completion_tokens = plus(self.completion_tokens, other.completion_tokens)
        self.total_tokens = plus(self.total_tokens, other.total_tokens)
        self.cached_tokens = plus(self.cached_tokens, other.cached_tokens)
        self.reasoning_tokens = plus(self.reasoning_tokens, other.reasoning_tokens)
        self.estimated_tokens += other.estimated_tokens


Cells = dict[Key, Cell]


def plus(a: Tokens, b: Tokens) -> Tokens:
    """a + b where None is unknown: the sum of what is known, None where neither is."""
    if b is None:
        return a
    return b if a is None else a + b


def add_lines(cells: Cells, lines: Iterable[Line]) -> None:
    """Count lines into their cells."""
    for line in lines:
        at = line.timestamp
        # Ours end in Z; the day of any other form needs a look at its offset.
        day = at[:10] if at is not None and at[-1:] == "Z" else day_of(at)
        key = (
            line.experiment_id, line.strategy, line.task, line.run, line.model, line.phase, line.key_fp, day,
        )  # fmt: skip
        cell = cells.get(key)
        if cell is None:
            cell = cells[key] = Cell()
        cell.add(line)


def day_of(at: str | None) -> str | None:
    """The UTC day of a timestamp in any ISO form; None where it is none."""
    if at is None:
        return None
    try:
        return parse_timestamp(at).astimezone(UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError):
        return None
