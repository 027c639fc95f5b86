"""Records of the same block and pair: the same one twice counts once, two that differ are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from elometer.rating.records import NO_BLOCK, TIE

LARGEST_KEY = 2**62
Booleans = npt.NDArray[np.bool_]
Columns = dict[str, npt.NDArray[Any]]


class Contradiction(Exception):
    """Two records (their places in the columns) of one block and pair that differ in who won."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(one, other)
        self.one = one
        self.other = other


def distinct_records(columns: Columns) -> Booleans:
    """(N,): the records to count; those without a block always are. Raises Contradiction."""
    keep = np.ones(len(columns["block"]), dtype=bool)
    known = np.flatnonzero(columns["block"] != NO_BLOCK)
    swapped = columns["first"] > columns["second"]
    low = np.where(swapped, columns["second"], columns["first"])[known]
    high = np.where(swapped, columns["first"], columns["second"])[known]
    result = np.where(
        columns["outcome"] == TIE, TIE, np.where(swapped, 1 - columns["outcome"], columns["outcome"])
    )[known]
    keys = [columns[part][known] for part in ("experiment", "task", "run", "run_b") if part in columns]
    identity, same = _neighbours([*keys, columns["block"][known], low, high])
    if not same.any():
        return keep
    differs = same & (result[identity][1:] != result[identity][:-1])
    if differs.any():
        at = int(differs.argmax())
        raise Contradiction(*sorted((int(known[identity[at]]), int(known[identity[at + 1]]))))
    keep[known[identity[1:][same]]] = False
    return keep


def _neighbours(keys: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """An order in which equal keys stand together, as they came, and where one equals the one before it."""
    if not len(keys[0]):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    whole, room = np.zeros(len(keys[0]), dtype=np.int64), 1
    for key in keys:
        least = int(key.min())
        width = int(key.max()) - least + 1
        room *= width
        if room > LARGEST_KEY:
            break
        whole *= width
        whole += key
        whole -= least
    else:
        # One number tells all, and a file in order needs no sorting at all.
        step = np.diff(whole)
        if (step > 0).all():
            return np.arange(len(whole)), np.zeros(len(step), dtype=bool)
        order = np.argsort(whole, kind="stable")
        return order, np.diff(whole[order]) == 0
    order = np.lexsort(tuple(reversed(keys)))
    same = np.ones(len(order) - 1, dtype=bool)
    for key in keys:
        same &= key[order][1:] == key[order][:-1]
    return order, same
