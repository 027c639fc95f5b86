"""One line per use: what strategies that share calls are charged, as the founding sum can add it up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

Record = dict[str, Any]
COUNTS = (
    *("prompt_tokens", "completion_tokens", "total_tokens"),
    *("cached_tokens", "cache_write_tokens", "reasoning_tokens", "unattributed_tokens"),
)


def uses(record: Record) -> Iterator[Record]:
    """A ledger line once for each strategy that rests on it, `spent` telling whether the line was paid for.

    A call that strategies share as a whole stays its owner's line, spent; every other user gets a copy with
    `spent: false`. A draw from a pool is nobody's: it keeps its tokens under the null strategy, spent, and
    every user gets a copy with its share of the tokens, so counts are no longer whole numbers there. None of
    these names its users any more, so that whoever sums them counts no use twice. A line that nobody shares,
    or whose `used_by` and `use_share` cannot be read, is given as it is.
    """
    owner, users, shares = record.get("strategy"), record.get("used_by"), record.get("use_share")
    if owner is None or not _are(users, str) or not (shares is None or _are(shares, int | float)):
        yield record
        return
    single = {**record, "used_by": None, "use_share": None}
    if shares is None:
        for name in users:
            yield {**single, "strategy": name, "spent": name == owner}
        return
    yield {**single, "strategy": None, "spent": True}
    known = {field: record[field] for field in COUNTS if isinstance(record.get(field), int | float)}
    for name, share in zip(users, shares, strict=False):
        yield {
            **single,
            **{field: count * share for field, count in known.items()},
            "strategy": name,
            "spent": False,
        }


def _are(values: Any, kind: Any) -> TypeGuard[list[Any]]:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)
