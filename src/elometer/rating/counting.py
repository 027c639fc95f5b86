"""Pairs in memory to counts: the one step whose cost grows with the number of comparisons."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable

import numpy as np

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.reading import Codes, places
from elometer.rating.records import Integers, RecordSet, natural_order, require_two_strategies

PROBED = 2048  # pairs whose repetition tells which way of counting is faster
FEW_KINDS = 200


def count_kinds(pairs: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], Integers]:
    """Distinct pairs and how often each stands there.

    Numbering pairs costs a look-up each, counting them in a dictionary a look-up and a store; but each new
    number costs a call, so that it pays only where pairs repeat.
    """
    kinds = len(set(pairs[:PROBED]))
    if kinds > PROBED // 4:
        counted = Counter(pairs)
        return list(counted), np.fromiter(counted.values(), dtype=np.int64, count=len(counted))
    numbers = Codes()
    if kinds < FEW_KINDS:
        # Small numbers go straight into bytes, a fifth faster; the 257th kind of pair does not fit.
        with contextlib.suppress(ValueError):
            found = np.frombuffer(bytes(map(numbers.__getitem__, pairs)), dtype=np.uint8)
            return list(numbers), np.bincount(found, minlength=len(numbers))
        numbers.clear()
    coded = np.fromiter(map(numbers.__getitem__, pairs), dtype=np.int32, count=len(pairs))
    return list(numbers), np.bincount(coded, minlength=len(numbers))


def count_pairs(pairs: Iterable[tuple[str, str]]) -> RecordSet:
    """See `RecordSet.from_pairs`: pairs are counted before anything else is done with them."""
    distinct, count = count_kinds(pairs if isinstance(pairs, list) else list(pairs))
    names = Codes()
    size = len(distinct)
    winners, losers = zip(*distinct, strict=True) if distinct else ((), ())
    winner = np.fromiter(map(names.__getitem__, winners), dtype=np.int64, count=size)
    loser = np.fromiter(map(names.__getitem__, losers), dtype=np.int64, count=size)
    if (winner == loser).any() or "" in names:
        raise UsageError(
            _("These pairs: a strategy is compared with itself, or has no name."),
            evidence=str(next(pair for pair in distinct if pair[0] == pair[1] or "" in pair)),
            fix=_("Give pairs of two names: (winner, loser)."),
        )
    strategies = natural_order(names)
    require_two_strategies(strategies, _("these pairs"))
    place = places(list(names), strategies)
    order = np.argsort(place[winner] * len(strategies) + place[loser])
    won = count[order]
    none = np.zeros(size, dtype=np.int64)
    return RecordSet(
        experiment_id=None,
        strategies=strategies,
        tasks=("",),
        block_task=none[:1],
        block_run=none[:1] + 1,
        block_order=none[:1],
        cell_block=none,
        first=place[winner][order],
        second=place[loser][order],
        first_wins=won.astype(np.float64),
        second_wins=none.astype(np.float64),
        ties=none.astype(np.float64),
        records=won,
        tied_records=none,
    )
