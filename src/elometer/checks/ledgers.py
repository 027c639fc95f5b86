"""One pass over a ledger that answers every question about it: sums, strangers, doubles, gaps, order.

A scan holds counts, not lines. It works on ledgers with the nine founding fields alone: what a line does not
say is not counted against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from elometer.checks.context import Context
from elometer.core.clock import parse_timestamp
from elometer.ledger.reader import BadLine, Reading

LEDGER = "token_ledger.jsonl"
# Lines are written when an attempt ends and dated when it began, so neighbours may stand in either order.
DISORDER = timedelta(hours=1)
_MINUTE = len("2026-11-29T19:30")
_EXAMPLES = 3
Number = int | float | None


class _Line(msgspec.Struct, gc=False):
    """The fields that questions are asked of; the nine founding ones tell absent (UNSET) from null."""

    experiment_id: str | UnsetType | None = UNSET
    strategy: str | UnsetType | None = UNSET
    task: str | int | UnsetType | None = UNSET
    run: int | str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    prompt_tokens: Number | UnsetType = UNSET
    completion_tokens: Number | UnsetType = UNSET
    total_tokens: Number | UnsetType = UNSET
    timestamp: str | UnsetType | None = UNSET
    call_id: str | None = None
    attempt: int | None = 1
    final: bool | None = None
    key_fp: str | None = None
    model_requested: str | None = None
    status: str | None = None
    cached_tokens: Number = None
    usage_source: str | None = None
    usage_final: bool | None = None
    usage_flags: list[str] | None = None
    gateway_cache: str | None = None
    response_id: str | None = None
    reserved_tokens: int | None = None


@dataclass(slots=True)
class Scan:
    """What one pass over a ledger found; counts are of lines unless a name says tokens."""

    path: Path
    lines: int = 0
    bad: list[BadLine] = field(default_factory=list)
    torn_tail: bool = False
    experiments: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    models: Counter[tuple[str | None, str | None]] = field(default_factory=Counter)
    tokens_by_minute: Counter[str] = field(default_factory=Counter)
    lacking: int = 0
    cache_hits: int = 0
    cache_hit_tokens: float = 0
    doubled_responses: Counter[str] = field(default_factory=Counter)
    doubled_finals: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    failed_with_tokens: int = 0
    cut: int = 0
    cut_tokens: float = 0
    estimated: int = 0
    estimated_tokens: float = 0
    no_usage: int = 0
    zero_usage: int = 0
    wrong_totals: int = 0
    cached_over_prompt: int = 0
    flags: Counter[str] = field(default_factory=Counter)
    undated: int = 0
    disorder: int = 0
    latest: str = ""

    def spent_since(self, moment: datetime) -> int:
        """Tokens of lines dated at or after a moment (to the minute), kept for uncounted ones too."""
        first = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")
        return int(sum(tokens for minute, tokens in self.tokens_by_minute.items() if minute >= first))


def experiment_scan(context: Context) -> Scan | None:
    """The scan of the experiment's ledger; None where no experiment was named or it has none yet."""
    folder = context.experiment.folder if context.experiment is not None else None
    return scan_of(context, folder / LEDGER) if folder is not None else None


def scans(context: Context) -> list[Scan]:
    """The ledgers in question: the experiment's, or all of the workspace; each is read once."""
    if context.experiment is not None:
        found = experiment_scan(context)
        return [found] if found is not None else []
    paths = sorted(context.workspace.glob(f"*/{LEDGER}"))
    return [found for path in paths if (found := scan_of(context, path)) is not None]


def scan_of(context: Context, path: Path) -> Scan | None:
    """The scan of a ledger; None where there is no such file."""
    if not path.is_file():
        return None
    return context.once(("ledger", path), lambda: scan(path))


def scan(path: Path) -> Scan:
    """Read a ledger once. Raises UsageError where there is no such file."""
    found = Scan(path)
    reading = Reading(path, _Line)
    state = _State(found)
    for batch in reading.batches():
        state.add(batch)
    found.lines = reading.records
    found.bad = reading.bad
    found.torn_tail = path.stat().st_size > reading.offset
    return found


class _State:
    """The scan while it runs: which responses and calls were seen, and the latest moment so far."""

    def __init__(self, found: Scan) -> None:
        self.found = found
        self._responses: dict[str, str | None] = {}
        self._finals: set[str] = set()
        self._minute = ""
        self._limit = ""

    def add(self, batch: list[_Line]) -> None:
        """Count the lines of a block: labels all at once, then what most lines need, then what few do."""
        found = self.found
        found.experiments.update([_text(line.experiment_id) for line in batch])
        found.models.update([(line.model_requested, _or_none(line.model)) for line in batch])
        found.keys.update([line.key_fp for line in batch if line.key_fp is not None])
        found.lacking += sum(map(_lacks_a_field, batch))
        responses, finals = self._responses, self._finals
        for line in batch:
            self._date(line)
            if line.response_id and responses.setdefault(line.response_id, line.call_id) != line.call_id:
                found.doubled_responses[line.response_id] += 1
            if line.final and line.call_id:
                if line.call_id in finals:
                    found.doubled_finals += 1
                finals.add(line.call_id)
            if not _is_plain(line):
                self._count_tokens(line)
                self._count_attempt(line)

    def _date(self, line: _Line) -> None:
        found, stamp, total = self.found, line.timestamp, line.total_tokens
        if not isinstance(stamp, str) or stamp[-1:] != "Z":
            try:
                stamp = parse_timestamp(str(stamp)).astimezone(UTC).isoformat()
            except ValueError:
                found.undated += 1
                return
        minute = stamp[:_MINUTE]
        if total.__class__ is int or isinstance(total, int | float):
            found.tokens_by_minute[minute] += int(total)
        elif line.reserved_tokens:
            found.tokens_by_minute[minute] += line.reserved_tokens
        # ISO text of one zone sorts as time does; dates are computed only where the minute moves on.
        if stamp > found.latest:
            found.latest = stamp
            if minute != self._minute:
                self._minute, self._limit = minute, _earlier(stamp)
        elif stamp < self._limit:
            found.disorder += 1

    def _count_tokens(self, line: _Line) -> None:
        found = self.found
        prompt, completion, total = line.prompt_tokens, line.completion_tokens, line.total_tokens
        known = isinstance(total, int | float)
        if known and isinstance(prompt, int | float) and isinstance(completion, int | float):
            if prompt + completion != total:
                found.wrong_totals += 1
            if line.cached_tokens is not None and line.cached_tokens > prompt:
                found.cached_over_prompt += 1
        if line.status in ("ok", "incomplete", None):
            if not known:
                found.no_usage += 1
            elif total == 0 or (completion == 0 and line.status == "ok"):
                found.zero_usage += 1
        tokens = float(total) if isinstance(total, int | float) else 0.0
        if line.usage_source in ("estimated", "local-tokenizer"):
            found.estimated += 1
            found.estimated_tokens += tokens
        if line.usage_final is False and (known or line.status == "cancelled"):
            found.cut += 1
            found.cut_tokens += tokens
        if line.gateway_cache in ("hit", "suspected"):
            found.cache_hits += 1
            found.cache_hit_tokens += tokens
        if line.usage_flags:
            found.flags.update(line.usage_flags)

    def _count_attempt(self, line: _Line) -> None:
        if line.attempt is not None and line.attempt > 1:
            self.found.retries[_text(line.strategy)] += 1
        if line.status in ("error", "cancelled") and line.total_tokens:
            self.found.failed_with_tokens += 1


def _is_plain(line: _Line) -> bool:
    """True for the line of a call that went well at once, whose numbers agree: nine of ten lines."""
    return (
        line.status == "ok"
        and line.usage_source == "server"
        and line.usage_final is True
        and line.attempt == 1
        and line.gateway_cache == "none"
        and not line.usage_flags
        and not line.cached_tokens
        and line.prompt_tokens.__class__ is int
        and line.completion_tokens.__class__ is int
        and line.completion_tokens != 0
        and line.prompt_tokens + line.completion_tokens == line.total_tokens
    )


def _lacks_a_field(line: _Line) -> bool:
    return (
        line.run is UNSET
        or line.task is UNSET
        or line.model is UNSET
        or line.strategy is UNSET
        or line.timestamp is UNSET
        or line.total_tokens is UNSET
        or line.prompt_tokens is UNSET
        or line.completion_tokens is UNSET
        or line.experiment_id is UNSET
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else "null"


def _or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _earlier(stamp: str) -> str:
    try:
        return (parse_timestamp(stamp) - DISORDER).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return ""


def examples(counter: Counter[str]) -> Iterator[str]:
    """The most frequent entries, with their counts."""
    for name, count in counter.most_common(_EXAMPLES):
        yield f"{name}: {count}"
