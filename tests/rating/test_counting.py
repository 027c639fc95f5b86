"""Pairs in memory to counts, by address and by look-up: both against counting one by one."""

from __future__ import annotations

from collections import Counter, namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elometer.core.errors import UsageError
from elometer.rating import addresses, counting
from elometer.rating.records import RecordSet

Pair = tuple[str, str]


def counted(pairs: list[Pair]) -> dict[Pair, int]:
    records = RecordSet.from_pairs(pairs)
    names, wins = records.strategies, records.plain_wins
    assert wins is not None
    cells = {
        (names[i], names[j]): int(n)
        for i, j, n in zip(records.first, records.second, records.first_wins, strict=True)
    }
    assert cells == {(names[i], names[j]): int(wins[i, j]) for i, j in np.argwhere(wins > 0)}
    assert records.comparisons == len(pairs)
    return cells


def copied(name: str) -> str:
    """An equal name at another address."""
    return "".join(list(name)) if len(name) > 1 else name


NAMES = [f"strategy_{k}" for k in range(60)]


@pytest.fixture(params=["addresses", "look-up"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs in both ways: the second is what other interpreters have."""
    if request.param == "look-up":
        monkeypatch.setattr(counting, "count_objects", lambda _pairs: None)
    return str(request.param)


def drawn(size: int, count: int, copies: bool) -> list[Pair]:
    rng = np.random.default_rng([size, count])
    first = rng.integers(0, size, count)
    second = (first + rng.integers(1, size, count)) % size
    names = [f"n{k}" for k in range(size)]
    spare = [[copied(name) for _copy in range(3)] for name in names]
    return [
        (spare[i][at % 3], spare[j][at % 2]) if copies else (names[i], names[j])
        for at, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True))
    ]


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize(("size", "count"), [(2, 1), (3, 40), (20, 5000), (70, 50_000), (200, 20_000)])
def test_counts_are_those_of_counting_one_by_one(way: str, size: int, count: int, copies: bool) -> None:
    pairs = drawn(size, count, copies)
    assert counted(pairs) == dict(Counter(pairs))


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.booleans()), min_size=1))
def test_any_list_of_pairs(rows: list[tuple[str, str, bool]]) -> None:
    pairs = [(copied(a) if copy else a, b) for a, b, copy in rows if a != b]
    if pairs:
        assert counted(pairs) == dict(Counter(pairs))


def test_a_name_that_first_stands_far_down(way: str) -> None:
    pairs = [*drawn(5, 30_000, copies=False), ("late", "n1"), ("n1", "later")]
    assert counted(pairs) == dict(Counter(pairs))


def test_names_that_are_an_object_each(way: str) -> None:
    """As parsed from a file: addresses tell nothing, and the count must not suffer."""
    pairs = [(copied(a), copied(b)) for a, b in drawn(20, 6000, copies=False)]
    assert len({id(name) for pair in pairs for name in pair}) > 2 * addresses.MOST_OBJECTS
    assert addresses.count_objects(pairs) is None
    assert counted(pairs) == dict(Counter(pairs))


def test_more_strategies_than_addresses_are_counted_for(way: str) -> None:
    size = addresses.MOST_OBJECTS + 40
    names = [f"n{k}" for k in range(size)]
    pairs = [(names[k], names[(k + 1) % size]) for k in range(size)]
    records = RecordSet.from_pairs(pairs)
    assert (len(records.strategies), records.comparisons) == (size, size)


def test_other_sequences_than_tuples(way: str) -> None:
    Named = namedtuple("Named", "winner loser")
    plain = drawn(4, 500, copies=False)
    for made in ([Named(*pair) for pair in plain], [list(pair) for pair in plain]):
        assert addresses.count_objects(made) is None  # type: ignore[arg-type]
        assert counted(made) == dict(Counter(plain))  # type: ignore[arg-type]
    assert RecordSet.from_pairs(iter(plain)).comparisons == 500


@pytest.mark.parametrize("wrong", [("a", "b", "c"), ("a",), (), None, 7, ("a", 7)])
def test_what_is_no_pair_is_never_counted_as_one(way: str, wrong: Any) -> None:
    pairs: list[Any] = [("a", "b"), ("b", "a")] * 200
    for at in (0, 1, 300):
        with pytest.raises((ValueError, TypeError)):
            RecordSet.from_pairs([*pairs[:at], wrong, *pairs[at:]])


@pytest.mark.parametrize("wrong", [("a", "a"), ("", "a"), ("a", "")])
def test_self_pairs_and_empty_names_are_refused(way: str, wrong: Pair) -> None:
    pairs = [("a", "b"), ("b", "c")] * 200
    for at in (0, 300):
        with pytest.raises(UsageError):
            RecordSet.from_pairs([*pairs[:at], wrong, *pairs[at:]])
    with pytest.raises(UsageError):
        RecordSet.from_pairs([])


def test_addresses_are_read_where_the_interpreter_allows_it() -> None:
    """The speed rests on it; elsewhere this is None, and all else in this file still holds."""
    import sys

    found = addresses.count_objects([("a", "b"), ("b", "a"), ("a", "b")])
    if sys.implementation.name == "cpython" and sys.maxsize > 2**32:
        assert found is not None
        names, counts = found
        cells = {(a, b): int(counts[i, j]) for i, a in enumerate(names) for j, b in enumerate(names)}
        assert cells == {("a", "a"): 0, ("a", "b"): 2, ("b", "a"): 1, ("b", "b"): 0}
    else:
        assert found is None


def test_objects_that_share_a_slot_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "SHIFT", np.uint64(63))  # two slots for all
    pairs = drawn(12, 3000, copies=False)
    assert counted(pairs) == dict(Counter(pairs))
