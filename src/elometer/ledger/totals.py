"""Totals of ledgers by strategy, model, task, phase, key or day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from elometer.core.natural import natural_key
from elometer.ledger.cells import LABELS, Cell, Cells, Label, Tokens
from elometer.ledger.reader import BadLine, Reading
from elometer.ledger.rollup import sums

BY = ("strategy", "model", "task", "phase", "key_fp", "day")
_EXPERIMENT, _TASK, _RUN = (LABELS.index(label) for label in ("experiment_id", "task", "run"))


@dataclass(frozen=True, slots=True)
class TotalsRow:
    """The sums of the ledger lines that share one label.

    `name` is the label's value (None: the lines that carry none). `runs` counts distinct (task, run) of an
    experiment, `calls` distinct calls, `lines` attempts. Token sums are of what is known: None where no line
    had a count, `unknown_usage_lines` says how many answered lines had none. `avg_tokens` is per run.
    `estimated_tokens` is the part of `total_tokens` that no server counted.
    """

    by: str
    name: Label
    runs: int
    calls: int
    prompt_tokens: Tokens
    completion_tokens: Tokens
    total_tokens: Tokens
    avg_tokens: float | None
    lines: int
    failed_attempts: int
    unknown_usage_lines: int
    estimated_tokens: int | float
    cached_tokens: Tokens
    reasoning_tokens: Tokens

    def as_json(self) -> dict[str, Any]:
        """The row as scripts read it: the label under its own name, then the sums."""
        row = {name: getattr(self, name) for name in self.__slots__ if name not in ("by", "name")}
        return {self.by: self.name, **row}


@dataclass(frozen=True, slots=True)
class Totals:
    """Rows in natural order (the null row last), and per ledger the lines that were no record."""

    rows: list[TotalsRow]
    bad: dict[Path, list[BadLine]]

    @property
    def bad_lines(self) -> int:
        """Damaged lines in all ledgers."""
        return sum(map(len, self.bad.values()))


def totals(paths: Sequence[Path], by: str = "strategy") -> Totals:
    """Sum ledgers by one label of `BY`. Raises UsageError where a ledger is missing."""
    merged: Cells = {}
    bad: dict[Path, list[BadLine]] = {}
    for path in paths:
        ledger = sums(path)
        bad[path] = ledger.bad
        for key, cell in ledger.cells.items():
            if key in merged:
                merged[key].merge(cell)
            else:
                merged[key] = cell
    return Totals(rows(merged, by), bad)


def rows(cells: Cells, by: str) -> list[TotalsRow]:
    """The cells added up by one label."""
    column = LABELS.index(by)
    groups: dict[Label, Cell] = {}
    runs: dict[Label, set[tuple[Label, ...]]] = {}
    for key, cell in cells.items():
        name = key[column]
        groups.setdefault(name, Cell()).merge(cell)
        runs.setdefault(name, set()).add((key[_EXPERIMENT], key[_TASK], key[_RUN]))
    return [_row(by, name, groups[name], len(runs[name])) for name in sorted(groups, key=_null_last)]


def _null_last(name: Label) -> tuple[bool, Any]:
    return (name is None, natural_key(str(name)))


def _row(by: str, name: Label, cell: Cell, runs: int) -> TotalsRow:
    return TotalsRow(
        by=by,
        name=name,
        runs=runs,
        calls=cell.calls + len(cell.open_calls),
        prompt_tokens=cell.prompt_tokens,
        completion_tokens=cell.completion_tokens,
        total_tokens=cell.total_tokens,
        avg_tokens=None if cell.total_tokens is None else cell.total_tokens / runs,
        lines=cell.lines,
        failed_attempts=cell.failed_attempts,
        unknown_usage_lines=cell.unknown_usage_lines,
        estimated_tokens=cell.estimated_tokens,
        cached_tokens=cell.cached_tokens,
        reasoning_tokens=cell.reasoning_tokens,
    )


class _FoundingLine(msgspec.Struct, gc=False):
    strategy: str | None = None
    total_tokens: Tokens = None


def founding(paths: Iterable[Path], bad: list[BadLine] | None = None) -> list[dict[str, Any]]:
    """The rows of the founding jq over the ledgers, equal to them in every field.

    A line is a run; `null` tokens are skipped in the sum but count as a line; null comes first, then
    strategies by code point. Numbers are IEEE doubles added in file order, as jq has them. Where every line
    of a strategy is null, jq ends in an error; here total and average are null. jq also ends at a damaged
    line; here it is skipped and added to `bad`.
    """
    counted: dict[str | None, tuple[int, float | None]] = {}
    for path in paths:
        reading = Reading(path, _FoundingLine)
        for line in reading:
            lines, total = counted.get(line.strategy, (0, None))
            if line.total_tokens is not None:
                total = (total or 0.0) + float(line.total_tokens)
            counted[line.strategy] = (lines + 1, total)
        if bad is not None:
            bad.extend(reading.bad)
    ordered = sorted(counted.items(), key=lambda entry: (entry[0] is not None, entry[0] or ""))
    return [
        {
            "strategy": strategy,
            "runs": lines,
            "total_tokens": _number(total),
            "avg_tokens": _number(None if total is None else total / lines),
        }
        for strategy, (lines, total) in ordered
    ]


def _number(value: float | None) -> Tokens:
    """A double as jq prints it: without `.0` where it is whole."""
    return int(value) if value is not None and value.is_integer() and abs(value) < 1e17 else value
