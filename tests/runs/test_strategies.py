"""Seeds, names and selection rules."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elometer.runs.strategies import SampleAnswer, Selection, Strategy, call_id, sample_seed, select

VOTE = Strategy("sample_4", 4, "majority")


def answers(*keys: str | None) -> list[SampleAnswer]:
    return [SampleAnswer(number, key or "", key, key) for number, key in enumerate(keys, start=1)]


def test_seeds_are_31_bits_and_follow_from_the_place_alone() -> None:
    seeds = {
        (task, run, strategy, sample): sample_seed(7, task, run, strategy, sample)
        for task in ("a", "b")
        for run in range(1, 4)
        for strategy in ("sample_1", "sample_16")
        for sample in range(1, 17)
    }
    assert all(0 < seed < 2**31 for seed in seeds.values())
    assert len(set(seeds.values())) == len(seeds)
    assert sample_seed(7, "a", 1, "sample_1", 1) == seeds["a", 1, "sample_1", 1]
    assert sample_seed(8, "a", 1, "sample_1", 1) != seeds["a", 1, "sample_1", 1]


def test_names_of_calls() -> None:
    name = call_id("e", "task-a", 1, "sample_2", 1, 2)
    assert len(name) == 17
    assert name[0] == "c"
    int(name[1:], 16)
    assert name == call_id("e", "task-a", 1, "sample_2", 1, 2)
    # Parts never run into one another.
    assert call_id("e", "a1", 1, "s", 1, 1) != call_id("e", "a", 11, "s", 1, 1)
    assert call_id("e1", "a", 1, "s", 1, 1) != call_id("e", "1a", 1, "s", 1, 1)


@given(st.lists(st.tuples(st.text(), st.integers(1, 99), st.text(), st.integers(1, 9)), unique=True))
def test_different_places_have_different_names(places: list[tuple[str, int, str, int]]) -> None:
    names = {call_id("e", task, run, strategy, 1, sample) for task, run, strategy, sample in places}
    assert len(names) == len(places)


def test_majority_keeps_the_first_sample_of_the_winning_answer() -> None:
    chosen = select(VOTE, answers("5", "7", "7", None), rng_seed=1)
    assert chosen == Selection(2, tie=False, votes={"5": 1, "7": 2})
    assert select(Strategy("s", 4, "auto"), answers("5", "7", "7", None), rng_seed=1) == chosen


def test_an_even_vote_is_drawn_fairly_among_the_tied_and_flagged() -> None:
    drawn = Counter()
    for seed in range(2000):
        chosen = select(VOTE, answers("a", "b", "c", "a", "b"), rng_seed=seed)
        assert chosen.tie
        drawn[chosen.sample] += 1
    # a (sample 1) and b (sample 2), never c; 2000 fair draws lie within 4 standard deviations of 1000.
    assert set(drawn) == {1, 2}
    assert abs(drawn[1] - 1000) < 4 * (2000 * 0.25) ** 0.5
    assert select(VOTE, answers("a", "b"), rng_seed=5) == select(VOTE, answers("a", "b"), rng_seed=5)


def test_the_draw_does_not_depend_on_the_order_of_samples() -> None:
    for seed in range(50):
        first = answers("x", "y")
        second = [SampleAnswer(1, "y", "y", "y"), SampleAnswer(2, "x", "x", "x")]
        by_first = first[(select(VOTE, first, rng_seed=seed).sample or 0) - 1].vote_key
        by_second = second[(select(VOTE, second, rng_seed=seed).sample or 0) - 1].vote_key
        assert by_first == by_second


def test_without_an_answer_there_is_no_vote() -> None:
    assert select(VOTE, answers(None, None), rng_seed=1) == Selection(None)


def test_controls_do_not_look_at_answers() -> None:
    samples = answers(None, "5", "5", "5")
    assert select(Strategy("s", 4, "first"), samples, rng_seed=3).sample == 1
    drawn = Counter(select(Strategy("r", 4, "random"), samples, rng_seed=seed).sample for seed in range(4000))
    # Four samples, each drawn 1000 times in 4000 give or take 4 standard deviations.
    assert all(abs(drawn[sample] - 1000) < 4 * (4000 * 0.25 * 0.75) ** 0.5 for sample in range(1, 5))


def test_oracle_keeps_the_best_grade_and_the_first_of_equals() -> None:
    scores = {1: -3.0, 2: -1.0, 3: -1.0, 4: -9.0}
    chosen = select(
        Strategy("o", 4, "oracle"), answers("a", "b", "c", "d"), rng_seed=1, grade=lambda a: scores[a.sample]
    )
    assert chosen.sample == 2
    with pytest.raises(ValueError, match="oracle"):
        select(Strategy("o", 4, "oracle"), answers("a"), rng_seed=1)


@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=16), st.integers(0, 2**31))
def test_the_kept_answer_has_the_most_votes(keys: list[str | None], seed: int) -> None:
    chosen = select(VOTE, answers(*keys), rng_seed=seed)
    counts = Counter(key for key in keys if key is not None)
    if not counts:
        assert chosen.sample is None
    else:
        assert chosen.sample is not None
        winner = keys[chosen.sample - 1]
        assert counts[winner] == max(counts.values())
        assert keys.index(winner) == chosen.sample - 1
        assert chosen.tie == (list(counts.values()).count(max(counts.values())) > 1)
