"""Pairs to counts by where their names live in memory: a list of pairs repeats the same few objects.

A look-up in a dictionary per pair is most of what a fit in memory costs. The same object needs none: its
address is a number already. CPython keeps a tuple's items as addresses inside it, which this module reads
for all tuples at once. What that rests on is checked before it is used: the layout once, on a probe, from the
sizes that the interpreter itself tells; of every pair, that it is a tuple of two; of every item, that its
address is one whose object is known. The tuples are held while they are read, and tuples never change, so
that no address can come to mean another object. Where any of this fails there is no answer here, and the
caller looks names up instead. Equal names at several addresses come out several times, to be folded.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from elometer.rating.records import Integers

Words = npt.NDArray[np.intp]

MOST_OBJECTS = 1024  # distinct ones; beyond, the square of counts costs more than the dictionary
CHUNK = 5120  # pairs at a time, so that what was read is still in the cache
LEARNT = 1024  # pairs from which the table is filled at once
BITS = 13  # of the table's size
WORD = 8  # bytes
ADDRESSABLE = 1 << 57  # bytes
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # Knuth's multiplicative hashing, with the golden ratio
SHIFT = np.uint64(64 - BITS)
# Places of a tuple's type, length and items, in words from where a tuple begins.
TYPE, LENGTH = object.__basicsize__ // WORD - 2, object.__basicsize__ // WORD - 1
ITEMS = np.array([[tuple.__basicsize__ // WORD - 1], [tuple.__basicsize__ // WORD]])


def count_objects(pairs: list[tuple[Any, Any]]) -> tuple[list[Any], Integers] | None:
    """Distinct objects (D) that stand in pairs, and how often each stands before each (D, D).

    None where that cannot be told by addresses, or not faster than by look-ups.
    """
    memory = _memory()
    if memory is None or not pairs:
        return None
    numbers = _Numbers()
    total = np.zeros((0, 0), dtype=np.int64)
    begin = 0
    while begin < len(pairs):
        # The square of many objects is worth adding up for many pairs only.
        held = tuple(pairs[begin : begin + max(CHUNK, total.size // 4)])
        begin += len(held)
        items = _items(held, memory)
        found = None if items is None else numbers.of(items, held)
        if found is None:
            return None
        size = len(numbers.known)
        first, second = found
        first *= size
        first += second
        counts = np.bincount(first, minlength=size * size).reshape(size, size)
        if total.size:
            counts[: len(total), : len(total)] += total
        total = counts
    return numbers.known, total


@cache
def _memory() -> Words | None:
    """All words that this process can address, from the second on; None where tuples cannot be read so."""
    if sys.implementation.name != "cpython" or np.dtype(np.intp).itemsize != WORD:
        return None
    import ctypes

    try:
        everything: Any = (ctypes.c_ssize_t * (ADDRESSABLE // WORD - 1)).from_address(WORD)
        words: Words = np.frombuffer(everything, dtype=np.intp)
        probe = [("a", "b"), (None, 1.5), ("b", "a")]
        items = _items(tuple(probe), words)
    except (BufferError, IndexError, OverflowError, TypeError, ValueError):
        return None
    if items is None or items.T.tolist() != [[id(one), id(other)] for one, other in probe]:
        return None
    return words


def _items(held: tuple[Any, ...], memory: Words) -> Words | None:
    """(2, n) addresses of the items of the n tuples that a tuple holds; None where one is no tuple of two."""
    begin = (id(held) + tuple.__basicsize__) // WORD - 1
    at = memory[begin : begin + len(held)] >> 3
    if not (memory.take(at + TYPE) == id(tuple)).all() or not (memory.take(at + LENGTH) == 2).all():
        return None
    items: Words = memory.take(at + ITEMS)
    return items


class _Numbers:
    """Numbers objects in the order in which they are learnt; `known` holds them, so that they stay alive."""

    def __init__(self) -> None:
        self.known: list[Any] = []
        self._table = np.zeros(1 << BITS, dtype=np.intp)
        self._address = np.zeros(0, dtype=np.intp)
        self._number: dict[int, int] = {}

    def of(self, items: Words, held: tuple[Any, ...]) -> Words | None:
        """(2, n) the numbers of the items of the tuples held; None where there are too many objects."""
        slots = (items.view(np.uint64) * MULTIPLIER >> SHIFT).view(np.intp)
        if not self.known:
            self._learn(items[:, :LEARNT], slots[:, :LEARNT], held)
        found: Words = self._table.take(slots)
        strange = self._address.take(found) != items
        if strange.any() and not self._look_up(strange, items, found, held):
            return None
        return found if len(self.known) <= MOST_OBJECTS else None

    def _learn(self, items: Words, slots: Words, held: tuple[Any, ...]) -> None:
        """Fill the table from the first tuples; of two objects that share a slot one stays outside."""
        places = np.full(1 << BITS, -1, dtype=np.int16)
        places[slots.ravel()] = np.arange(items.size, dtype=np.int16)
        kept = np.sort(places[places >= 0])
        self._address = items.ravel()[kept]
        self._table[slots.ravel()[kept]] = np.arange(len(kept))
        for place, address in zip(kept.tolist(), self._address.tolist(), strict=True):
            side, at = divmod(place, items.shape[1])
            self._add(held[at][side], address)

    def _look_up(
        self, strange: npt.NDArray[np.bool_], items: Words, found: Words, held: tuple[Any, ...]
    ) -> bool:
        """Number one by one what the table does not hold; False where that is too much."""
        sides, ats = np.nonzero(strange)
        if 8 * len(ats) > items.size:
            return False
        for side, at in zip(sides.tolist(), ats.tolist(), strict=True):
            address = int(items[side, at])
            number = self._number.get(address)
            found[side, at] = self._add(held[at][side], address) if number is None else number
        self._address = np.array(list(self._number), dtype=np.intp)
        return True

    def _add(self, thing: Any, address: int) -> int:
        self._number[address] = number = len(self.known)
        self.known.append(thing)
        return number
