"""Graders: what is found, what votes together, what is right; no text and no pattern makes them fail aloud."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.runs.graders import NO_ANSWER_SCORE, Grade, extract, grade, has_canonical_answer, normalise
from elometer.runs.graders.choices import options_in
from elometer.runs.graders.numbers import number_key, parse_number
from elometer.runs.graders.patterns import TICK_S, PatternTimeout, compile_pattern, last_match
from elometer.runs.graders.read import GraderFault, read_extract, read_grader

PLANETS = "Which planet has the shortest day? A) Mars B) Jupiter C) Venus D) Neptune"
ANSWER_LINE = r"ANSWER:\s*(.+)"


def task(grader: Any, *answers: str, pattern: str | None = None, prompt: str = "?") -> Any:
    return SimpleNamespace(grader=read_grader(grader, answers, prompt), extract=read_extract(pattern))


def graded(of: Any, text: str) -> tuple[str, float]:
    result = grade(of, extract(of, text), text)
    return result.status, result.score


# ── numbers ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", "10"),
        ("10.50", "10.5"),
        ("1,234.5", "1234.5"),
        ("12,34,567", "1234567"),  # Indian grouping
        ("1'000'000", "1000000"),
        ("1\u202f234", "1234"),  # narrow no-break space
        ("\u22125", "-5"),
        ("-$5", "-5"),
        ("$1,200.", "1200"),
        ("about 12 km", "12"),
        ("50 %", "50"),
        ("3/4", "0.75"),
        ("1e3", "1000"),
        ("2.5E-2 m", "0.025"),
        (".5", "0.5"),
        ("x=-.5", "-0.5"),
        ("10-12", "12"),
        ("task-3", "3"),
        ("(7)", "7"),
        ("first 3, then 4", "4"),
        ("007", "7"),
        ("-0", "0"),
        ("none", None),
        ("", None),
        ("1e999999999", None),
        ("9" * 5000, None),
    ],
)
def test_numbers_as_people_write_them(text: str, value: str | None) -> None:
    parsed = parse_number(text)
    assert (None if parsed is None else number_key(parsed)) == value


def test_a_decimal_comma_is_an_option() -> None:
    of = task({"type": "numeric", "decimal": ","}, "1.234,5")
    assert graded(of, "Es sind 1.234,5 m") == ("ok", 1.0)
    assert graded(of, "1234,5") == ("ok", 1.0)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9))
def test_every_way_to_write_a_number_votes_together(value: Decimal) -> None:
    of = task("numeric", "0")
    forms = [
        f"{value}",
        f"{value:,}",
        f"{value:.5f}",
        f"{value}".replace("-", "\u2212"),
        f"so {value} metres",
    ]
    assert {normalise(of, form) for form in forms} == {number_key(value)}


def test_tolerance_is_absolute_or_relative() -> None:
    absolute = task({"type": "numeric", "tolerance": 0.5}, "10")
    assert graded(absolute, "10.5") == ("ok", 1.0)
    assert graded(absolute, "10.51") == ("wrong", 0.0)
    relative = task({"type": "numeric", "rel_tolerance": 0.01}, "-200")
    assert graded(relative, "-198") == ("ok", 1.0)
    assert graded(relative, "-197.9") == ("wrong", 0.0)
    exactly = task("numeric", "0.3")
    assert graded(exactly, "0.30") == ("ok", 1.0)
    assert graded(exactly, "0.30000000000000004") == ("wrong", 0.0)


def test_percentages_are_kept_as_written() -> None:
    of = task("numeric", "50")
    assert graded(of, "50%") == ("ok", 1.0)
    assert graded(of, "0.5") == ("wrong", 0.0)


def test_closeness_is_minus_the_distance() -> None:
    of = task({"type": "numeric", "score": "closeness"}, "10")
    assert graded(of, "12.5") == ("wrong", -2.5)
    assert graded(of, "10.0") == ("ok", 0.0)
    assert str(graded(of, "10")[1]) == "0.0"
    assert graded(of, "no idea") == ("no_answer", NO_ANSWER_SCORE)


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_any_answer_beats_none_and_the_nearer_one_wins(truth: float, answer: float) -> None:
    of = task({"type": "numeric", "score": "closeness"}, repr(truth))
    score = graded(of, repr(answer))[1]
    assert score > NO_ANSWER_SCORE
    assert score <= graded(of, repr(truth))[1]


# ── exact ──────────────────────────────────────────────────────────────────────────────────────────────


def test_exact_compares_text() -> None:
    of = task({"type": "exact", "ignore_case": True}, "Monday", "Mon", pattern=ANSWER_LINE)
    assert graded(of, "Let me see.\nANSWER: monday") == ("ok", 1.0)
    assert graded(of, "**ANSWER: MON**") == ("ok", 1.0)
    assert graded(of, "ANSWER: Tuesday") == ("wrong", 0.0)
    assert graded(of, "It is Monday") == ("no_answer", 0.0)
    assert graded(task("exact", "Monday"), "monday") == ("wrong", 0.0)
    assert graded(task({"type": "exact", "strip": False}, "a"), " a") == ("wrong", 0.0)


def test_the_last_answer_line_counts_and_a_leading_thought_does_not() -> None:
    of = task("exact", "7", pattern=ANSWER_LINE)
    assert extract(of, "ANSWER: 5\nno,\nANSWER: 7\n") == "7"
    assert extract(of, "<think>ANSWER: 5</think>\nANSWER: 7") == "7"
    assert extract(of, "<think>ANSWER: 7, but wait") is None
    assert extract(of, "ANSWER:   ") is None


def test_code_blocks_by_language() -> None:
    of = task("exact", "print(1)", pattern="code:python")
    assert extract(of, "Try\n```python\nprint(0)\n```\nor\n```python\nprint(1)\n```\n") == "print(1)"
    assert extract(of, "```js\n1\n```\n") is None
    assert extract(of, "print(1)") is None


# ── choice ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        (PLANETS, {"A": "Mars", "B": "Jupiter", "C": "Venus", "D": "Neptune"}),
        ("Which?\nA. one\nB. two\n\nAnswer with a letter.", {"A": "one", "B": "two"}),
        ("Which? (A) one (B) two?", {"A": "one", "B": "two?"}),
        ("Which?\n  A: red car\n  B: blue car", {"A": "red car", "B": "blue car"}),
        ("A. alone", {}),
        ("No options. Just text.", {}),
    ],
)
def test_options_are_read_from_the_prompt(prompt: str, options: dict[str, str]) -> None:
    assert options_in(prompt) == options


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("b", "B"),
        ("(B)", "B"),
        ("**B**", "B"),
        ("B) Jupiter", "B"),
        ("jupiter", "B"),
        ("The answer is B.", "B"),
        ("answer: b", "B"),
        ("Answer: $\\boxed{B}$", "B"),
        ("The answer is A. No: the answer is B", "B"),
        ("I would say Jupiter.", "B"),
        ("It must be (B), I think", "B"),
        ("Mars or Jupiter", None),
        ("A) no, B) yes", None),
        ("E", None),
        ("The answer is a gas giant", None),
        ("", None),
    ],
)
def test_the_option_a_text_settles_on(text: str, letter: str | None) -> None:
    of = task("choice", "B", prompt=PLANETS)
    found = extract(of, text)
    assert (None if found is None else normalise(of, found)) == letter
    assert grade(of, found, text).status == {"B": "ok", None: "no_answer"}.get(letter, "wrong")


def test_letter_and_option_text_vote_together_and_either_may_be_the_answer() -> None:
    for right in ("B", "Jupiter"):
        of = task("choice", right, prompt=PLANETS, pattern=ANSWER_LINE)
        assert normalise(of, "B") == normalise(of, "Jupiter") == normalise(of, "(b)") == "B"
        assert graded(of, "ANSWER: Jupiter") == ("ok", 1.0)
        assert graded(of, "ANSWER: C) Venus") == ("wrong", 0.0)
        assert graded(of, "ANSWER: perhaps") == ("no_answer", 0.0)


def test_options_may_be_given() -> None:
    of = task({"type": "choice", "options": ["yes", "no"]}, "no")
    assert graded(of, "No.") == ("ok", 1.0)
    assert graded(of, "A") == ("wrong", 0.0)


# ── regex and contains ─────────────────────────────────────────────────────────────────────────────────


def test_a_pattern_without_group_judges_and_with_group_extracts() -> None:
    address = task({"type": "regex", "pattern": r"^10(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$"})
    assert graded(address, " 10.0.255.9\n") == ("ok", 1.0)
    assert graded(address, "10.0.256.9") == ("wrong", 0.0)
    number = task({"type": "regex", "pattern": r"x\s*=\s*(\d+)"}, "4")
    assert graded(number, "so x = 3, hence x = 4") == ("ok", 1.0)
    assert graded(number, "x = 5") == ("wrong", 0.0)
    assert normalise(number, "then x=4") == "4"
    assert has_canonical_answer(number)


def test_a_pattern_that_is_the_judgement_gives_nothing_to_vote_on() -> None:
    for pattern in ("yes", "(yes|yeah)"):
        of = task({"type": "regex", "pattern": pattern})
        assert not has_canonical_answer(of)
        # With an extract both right and wrong answers vote.
        by_extract = task({"type": "regex", "pattern": pattern}, pattern=ANSWER_LINE)
        assert has_canonical_answer(by_extract)
        assert extract(by_extract, "ANSWER: no") == "no"
        assert normalise(by_extract, "no") == "no"


def test_contains_all_any_none() -> None:
    moons = task({"type": "contains", "all": ["Phobos", "Deimos"], "ignore_case": True})
    assert graded(moons, "phobos and DEIMOS") == ("ok", 1.0)
    assert grade(moons, None, "Phobos") == Grade(0.0, "wrong", "Deimos")
    other = task({"type": "contains", "any": ["cat", "dog"], "none": ["bird"]})
    assert graded(other, "a dog") == ("ok", 1.0)
    assert graded(other, "a dog and a bird") == ("wrong", 0.0)
    assert graded(other, "a fish") == ("wrong", 0.0)
    assert graded(other, "  ") == ("no_answer", 0.0)
    assert not has_canonical_answer(moons)


# ── what may not happen ────────────────────────────────────────────────────────────────────────────────


def test_a_pattern_that_backtracks_without_end_is_a_grader_error() -> None:
    endless = "a" * 60 + "!"
    of = task({"type": "regex", "pattern": "(a+)+$"})
    assert grade(of, None, endless).status == "grader_error"
    by_extract = task("exact", "a", pattern="(a+)+$")
    assert extract(by_extract, endless) is None
    assert grade(by_extract, None, endless).status == "grader_error"


def test_a_grader_that_crashes_is_a_grader_error() -> None:
    class Broken:
        canonical = True
        no_answer_score = 0.0

        def find(self, text: str) -> str:
            return text

        def key(self, extracted: str) -> str:
            return extracted

        def grade(self, extracted: str) -> Grade:
            raise ZeroDivisionError("division by zero")

    of: Any = SimpleNamespace(grader=Broken(), extract=None)
    assert grade(of, "1", "1") == Grade(0.0, "grader_error", "ZeroDivisionError: division by zero")


GRADERS = [
    task("exact", "a"),
    task("numeric", "1"),
    task({"type": "numeric", "score": "closeness", "decimal": ","}, "1"),
    task({"type": "regex", "pattern": r"(\w+)\s*$"}, "a"),
    task("choice", "B", prompt=PLANETS),
    task({"type": "contains", "all": ["a"]}),
    task("exact", "a", pattern=ANSWER_LINE),
    task("choice", "B", prompt=PLANETS, pattern=ANSWER_LINE),
]


@settings(max_examples=300)
@given(
    st.sampled_from(GRADERS),
    st.one_of(st.text(max_size=200), st.from_regex(r"(ANSWER: ?)?[-+0-9.,eE/ '$A-Da-d()]*", fullmatch=True)),
)
def test_no_text_makes_a_grader_fail(of: Any, text: str) -> None:
    found = extract(of, text)
    result = grade(of, found, text)
    assert result.status in ("ok", "wrong", "no_answer")
    assert (found is None) == (result.status == "no_answer")
    if found is not None:
        key = normalise(of, found)
        assert isinstance(key, str)
        # Answers with the same key have the same grade: the vote decides between answers, not between spellings.
        if has_canonical_answer(of) and of.grader.type in ("numeric", "choice"):
            assert grade(of, key.replace(".", ",") if of.grader.spec.get("decimal") else key, "") == result


@pytest.mark.parametrize(
    ("grader", "answers", "words"),
    [
        ("exakt", ("a",), "no grader exakt"),
        ({"type": "numeric", "tolerence": 1}, ("1",), "no option tolerence"),
        ({"type": "numeric", "tolerance": -1}, ("1",), "tolerance has no such value"),
        ({"type": "numeric", "tolerance": True}, ("1",), "tolerance has no such value"),
        ("numeric", ("ten",), "ten is no number"),
        ("numeric", (), "needs an answer"),
        ("choice", ("A",), "No options"),
        ({"type": "choice", "options": ["x", "y"]}, ("z",), "none of the options"),
        ({"type": "regex", "pattern": "("}, (), "does not compile"),
        ({"type": "regex"}, (), "needs a pattern"),
        ({"type": "regex", "pattern": "a"}, ("a",), "no group"),
        ({"type": "regex", "pattern": "a" * 5000}, (), "longer than"),
        ({"type": "contains"}, (), "needs all, any or none"),
        ({"type": "contains", "all": "Phobos"}, (), "all has no such value"),
        (["exact"], ("a",), "a name or an object"),
        (None, (), "neither answer nor grader"),
    ],
)
def test_a_grader_that_cannot_work_is_refused_when_read(grader: Any, answers: Any, words: str) -> None:
    with pytest.raises(GraderFault, match=words):
        read_grader(grader, answers, "?")


def test_the_watch_over_patterns_rests_when_nothing_is_matched() -> None:
    last_match(compile_pattern("a"), "a")
    assert signal.getitimer(signal.ITIMER_VIRTUAL)[1] == pytest.approx(TICK_S, abs=0.01)
    begun = time.process_time()
    while signal.getitimer(signal.ITIMER_VIRTUAL)[1] and time.process_time() - begun < 20 * TICK_S:
        pass
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    with pytest.raises(PatternTimeout):  # it begins again, and a slow pattern is found each time
        last_match(compile_pattern("(a+)+$"), "a" * 60 + "b")
    with pytest.raises(PatternTimeout):
        last_match(compile_pattern("(a+)+$"), "a" * 60 + "b")


def test_many_short_matches_are_no_slow_one() -> None:
    pattern = compile_pattern("a+b")
    begun = time.process_time()
    while time.process_time() - begun < 3 * TICK_S:
        assert last_match(pattern, "a" * 2000 + "b") is not None


def test_the_watch_does_not_end_a_process_on_its_way_out() -> None:
    program = (
        "import atexit, os, signal\n"
        "atexit.register(lambda: os._exit(signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0))  # the last to run\n"
        "from elometer.runs.graders.patterns import compile_pattern, last_match\n"
        "last_match(compile_pattern('a'), 'a')\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
