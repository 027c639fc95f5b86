"""Records that say more than who won: answers of two runs, shared draws, redraws from a pool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from elometer.rating.records import FIRST, SECOND, TIE

# No draw in common; some, with scores of 0 and 1; some, with other scores or none that the record tells.
APART, SHARED_BINARY, SHARED_MEASURED = 0, 1, 2

FIELDS = ("run_b", "shared", "share_a")
MARKS = ("run_a", "run_b", "shared", "share_a", "share_b", "score_a", "score_b")

Columns = dict[str, npt.NDArray[Any]]


def as_number(cell: str) -> int | float | str:
    """A cell of a CSV as the number that it writes, else as text."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell.strip()


def has_marks(rows: Sequence[Any]) -> bool:
    """True where one of the records has such a field with a value."""
    # Counting None is soon done, and for most files the end of it.
    if all(list(map(attrgetter(field), rows)).count(None) == len(rows) for field in FIELDS):
        return False
    return any(_is(row.run_b) or _is(row.shared) or _is(row.share_a) for row in rows)


def marked_columns(rows: Sequence[Any], run: npt.NDArray[Any], outcome: npt.NDArray[Any]) -> Columns:
    """The further columns of records: the second answer's run, what is shared, and the shares of wins.

    Runs that are texts, or lists of them, name sessions or calls and are no repetition numbers: they only
    tell whether both answers rest on the same one.
    """
    other = [row.run_b if isinstance(row.run_b, int) else one for row, one in zip(rows, run, strict=True)]
    won = (outcome == FIRST).astype(np.float64), (outcome == SECOND).astype(np.float64)
    shares = np.array(
        [
            (_number(row.share_a), _number(row.share_b)) if _is(row.share_a) else both
            for row, both in zip(rows, zip(*won, strict=True), strict=True)
        ],
        dtype=np.float64,
    )
    return {
        "run_b": np.array(other, dtype=np.int64),
        "shared": np.array([_shared(row) for row in rows], dtype=np.int8),
        "share_a": shares[:, 0],
        "share_b": shares[:, 1],
        "tied": 1.0 - shares.sum(axis=1),
    }


def possible_shares(columns: Columns) -> npt.NDArray[np.bool_]:
    """Where the shares of wins and ties lie between 0 and 1."""
    shares = np.stack([columns["share_a"], columns["share_b"], columns["tied"]])
    return np.asarray((shares >= -1e-9).all(axis=0))


def with_all_marks(chunks: Sequence[Columns]) -> None:
    """Give every chunk the further columns where one has them."""
    if not any("run_b" in chunk for chunk in chunks):
        return
    for chunk in chunks:
        if "run_b" not in chunk:
            chunk |= {
                "run_b": chunk["run"],
                "shared": np.zeros(len(chunk["run"]), dtype=np.int8),
                "share_a": (chunk["outcome"] == FIRST).astype(np.float64),
                "share_b": (chunk["outcome"] == SECOND).astype(np.float64),
                "tied": (chunk["outcome"] == TIE).astype(np.float64),
            }


def _is(value: Any) -> bool:
    """True for a value that a record gives; neither null nor left out."""
    return isinstance(value, int | float | str | list)


def _number(value: Any) -> float:
    """A share as a number; NaN, which no share is, for anything else."""
    return float(value) if isinstance(value, int | float) else math.nan


def _shared(row: Any) -> int:
    told = isinstance(row.shared, int) and row.shared > 0
    if not told and not _names(row.run_a) & _names(row.run_b):
        return APART
    binary = row.score_a in (0, 1) and row.score_b in (0, 1)
    return SHARED_BINARY if binary else SHARED_MEASURED


def _names(value: Any) -> set[str]:
    """The sessions or calls that an answer is said to rest on."""
    if isinstance(value, str):
        return {value}
    return {one for one in value if isinstance(one, str)} if isinstance(value, list) else set()
