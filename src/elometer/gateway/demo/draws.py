"""Seeded draws that depend on what they are for, never on the order in which they are made."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TypeVar

Item = TypeVar("Item")
_SEPARATOR = "\x1f"
_WORD = 8  # bytes a draw takes from the digest


def uniforms(*labels: object) -> Iterator[float]:
    """An endless stream of independent draws from [0, 1), a pure function of the labels.

    Each draw is the top 53 bits of eight bytes of BLAKE2b over the labels, so it is exact in a double.
    """
    data = _SEPARATOR.join(map(str, labels)).encode()
    for block in itertools.count():
        digest = blake2b(data, salt=block.to_bytes(16, "big")).digest()
        for start in range(0, len(digest), _WORD):
            yield (int.from_bytes(digest[start : start + _WORD], "big") >> 11) / 2**53


def pick(draw: float, items: Sequence[Item]) -> Item:
    """The item that a draw from [0, 1) selects, all with the same probability."""
    return items[int(draw * len(items))]


def pick_weighted(draw: float, items: Sequence[Item], weights: Sequence[float]) -> Item:
    """The item that a draw from [0, 1) selects; the weights sum to 1."""
    reached = 0.0
    for item, weight in zip(items, weights, strict=True):
        reached += weight
        if draw < reached:
            return item
    return items[-1]


def whole(draw: float, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return low + int(draw * (high - low + 1))


def shuffled(items: Sequence[Item], draws: Iterator[float]) -> list[Item]:
    """The items in a random order (Fisher-Yates)."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = whole(next(draws), 0, last)
        order[last], order[other] = order[other], order[last]
    return order
