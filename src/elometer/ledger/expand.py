"""One line per use: what strategies that share calls are charged, as the founding sum can add it up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elometer.ledger.reader import Reading

Record = dict[str, Any]
COUNTS = (
    *("prompt_tokens", "completion_tokens", "total_tokens"),
    *("cached_tokens", "cache_write_tokens", "reasoning_tokens", "unattributed_tokens"),
)


def uses(record: Record) -> Iterator[Record]:
    """A ledger line once for each strategy that rests on it, `spent` telling whether the line was paid for.

    A call that strategies share as a whole stays its owner's line, spent; every other user gets a copy with
    `spent: false`. A draw from a pool is nobody's: it keeps its tokens under the null strategy, spent, and
    every user gets a copy with its share of the tokens, so counts are no longer whole numbers there. A line
    that nobody shares is given as it is.
    """
    users, shares = record.get("used_by"), record.get("use_share")
    if not isinstance(users, list) or record.get("strategy") is None:
        yield record
    elif not isinstance(shares, list):
        for name in users:
            yield {**record, "strategy": name, "spent": name == record["strategy"]}
    else:
        yield {**record, "strategy": None, "spent": True}
        for name, share in zip(users, shares, strict=False):
            counts = {field: record[field] * share for field in COUNTS if record.get(field) is not None}
            yield {**record, **counts, "strategy": name, "spent": False}


def charged_totals(path: Path) -> dict[str, int]:
    """The founding sum over the uses of a ledger's lines, by strategy, rounded to whole tokens."""
    sums: dict[str, float] = {}
    for record in Reading(path, Record):
        for use in uses(record):
            if use.get("strategy") is not None:
                sums[use["strategy"]] = sums.get(use["strategy"], 0) + (use.get("total_tokens") or 0)
    return {name: round(tokens) for name, tokens in sums.items()}
