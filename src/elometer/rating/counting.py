"""Pairs in memory to counts: the one step whose cost grows with the number of comparisons.

Names that repeat as the same objects are counted by address; what follows is for all others. Looking a
thousand keys up at once, with one `itemgetter` in a plain dictionary, costs two thirds of what
looking them up one by one does, and packing the numbers found a third of turning them into an array.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from operator import itemgetter
from typing import Any

import numpy as np

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.addresses import count_objects
from elometer.rating.records import Integers, RecordSet, natural_order, require_two_strategies

Pair = tuple[str, str]
FEW_NAMES = 40  # up to here a pair is looked up whole: one look-up, in a dictionary that is soon made
PROBED, PROBED_WIDELY = 256, 2048  # pairs that are likely to hold all names
CHUNK = 1 << 12  # pairs at a time, so that what was looked up is still in the cache

_second = itemgetter(1)


def count_pairs(pairs: Iterable[Pair]) -> RecordSet:
    """See `RecordSet.from_pairs`: pairs are counted before anything else is done with them."""
    strategies, wins = _count(pairs if isinstance(pairs, list) else list(pairs))
    if "" in strategies or wins.diagonal().any():
        name = "" if "" in strategies else strategies[int(wins.diagonal().argmax())]
        raise UsageError(
            _("These pairs: a strategy is compared with itself, or has no name."),
            evidence=_("There is a pair with {name}.").format(name=repr(name)),
            fix=_("Give pairs of two names: (winner, loser)."),
        )
    require_two_strategies(strategies, _("these pairs"))
    return _one_task(strategies, wins)


def _count(pairs: list[Pair]) -> tuple[tuple[str, ...], Integers]:
    """Names in natural order (K), and how often each won against each (K, K)."""
    counted = count_objects(pairs)
    return _by_look_up(pairs) if counted is None else _folded(*counted)


def _folded(things: list[str], counts: Integers) -> tuple[tuple[str, ...], Integers]:
    """Counts by name from counts by object; one name may be several objects."""
    names = natural_order(set(things))
    numbers = {name: number for number, name in enumerate(names)}
    if len(names) == len(things):
        order = np.empty(len(names), dtype=np.intp)
        order[[numbers[thing] for thing in things]] = np.arange(len(names))
        return names, counts[order[:, None], order]
    place = np.array([numbers[thing] for thing in things], dtype=np.intp)
    wins = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(wins, (place[:, None], place), counts)
    return names, wins


def _by_look_up(pairs: list[Pair]) -> tuple[tuple[str, ...], Integers]:
    seen = set(chain.from_iterable(pairs[:PROBED]))
    if len(seen) > FEW_NAMES:
        seen = set(chain.from_iterable(pairs[:PROBED_WIDELY]))
    names = natural_order(seen)
    try:
        # What is missing here is a name that only stands further on, or no pair of names at all.
        return names, _count_whole(pairs, names) if len(names) <= FEW_NAMES else _count_split(pairs, names)
    except (KeyError, TypeError):
        names = natural_order({first for first, _other in pairs} | set(map(_second, pairs)))
        return names, _count_split(pairs, names)


def _count_whole(pairs: list[Pair], names: Sequence[str]) -> Integers:
    size = len(names)
    numbers = dict(zip(product(names, names), range(size * size), strict=True))
    total = np.zeros(size * size, dtype=np.int64)
    for part in _parts(pairs, CHUNK):
        total += np.bincount(_numbers(part, numbers), minlength=size * size)
    return total.reshape(size, size)


def _count_split(pairs: list[Pair], names: Sequence[str]) -> Integers:
    size = len(names)
    numbers = {name: number for number, name in enumerate(names)}
    total = np.zeros(size * size, dtype=np.int64)
    for part in _parts(pairs, max(CHUNK, size * size)):
        # Taking each pair apart checks that it is one.
        found = _numbers([first for first, _other in part], numbers).astype(np.intp)
        found *= size
        found += _numbers(list(map(_second, part)), numbers)
        total += np.bincount(found, minlength=size * size)
    return total.reshape(size, size)


def _parts(pairs: list[Pair], length: int) -> Iterator[list[Pair]]:
    if len(pairs) <= 4 * length:
        yield pairs
        return
    for at in range(0, len(pairs), length):
        yield pairs[at : at + length]


def _numbers(keys: Sequence[Hashable], numbers: Mapping[Any, int]) -> np.ndarray:
    """The number of each key. Raises KeyError for an unknown one, TypeError for what cannot be one."""
    if len(keys) < 2:
        return np.array([numbers[key] for key in keys], dtype=np.uintc)
    packed = struct.Struct(f"{len(keys)}I").pack(*itemgetter(*keys)(numbers))
    return np.frombuffer(packed, dtype=np.uintc)


def _one_task(strategies: tuple[str, ...], wins: Integers) -> RecordSet:
    first, second = np.nonzero(wins)
    won = wins[first, second]
    none = np.zeros(len(won), dtype=np.int64)
    nothing = np.zeros(len(won))
    return RecordSet(
        experiment_id=None,
        strategies=strategies,
        tasks=("",),
        block_task=none[:1],
        block_run=none[:1] + 1,
        block_order=none[:1],
        cell_block=none,
        first=first,
        second=second,
        first_wins=won.astype(np.float64),
        second_wins=nothing,
        ties=nothing,
        records=won,
        tied_records=none,
        plain_wins=wins.astype(np.float64),
    )
