"""The graders, one class each: which answer a text holds, its vote key, its score."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Literal, Protocol

from elometer.runs.graders.choices import chosen
from elometer.runs.graders.numbers import last_number, number_key, parse_number
from elometer.runs.graders.patterns import captured, last_match

# Below every score a grader gives, and finite, so that sums and JSON stay well-formed.
NO_ANSWER_SCORE = -1e300


@dataclass(frozen=True, slots=True)
class Grade:
    """What an answer is worth: 0 or 1, or any real number from a grader that measures.

    `ok` and `wrong` are judgements, `no_answer` is a loss. The score of a `grader_error` means nothing.
    `isolation` says how far a grader's code was kept apart; empty for graders that are no code.
    """

    score: float
    status: Literal["ok", "wrong", "no_answer", "grader_error"]
    detail: str = ""
    isolation: str = ""


class GraderSpec(Protocol):
    """A grader with its options. `spec` is what the task's line says, for snapshots and hashes.

    `slow` is true where grading takes a process of its own, `canonical` where `find` gives an answer that can
    be compared with another sample's.
    """

    type: ClassVar[str]
    slow: ClassVar[bool]

    @property
    def no_answer_score(self) -> float:
        """What no answer at all is worth."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The grader as the task's line has it."""

    @property
    def canonical(self) -> bool:
        """Whether answers found by this grader can be voted on."""

    def find(self, text: str) -> str | None:
        """The answer in a text that no `extract` has narrowed; None where there is none."""

    def key(self, extracted: str) -> str | None:
        """One key for equal answers; None where what was extracted is no answer to this grader."""

    def grade(self, extracted: str) -> Grade:
        """The score of an extracted answer."""


def _judged(good: bool, detail: str = "") -> Grade:
    return Grade(1.0, "ok", detail) if good else Grade(0.0, "wrong", detail)


@dataclass(frozen=True, slots=True)
class Exact:
    """The answer is one of the accepted texts, surrounding white space left aside unless `strip` is false."""

    type: ClassVar[str] = "exact"
    slow: ClassVar[bool] = False
    no_answer_score: ClassVar[float] = 0.0
    answers: tuple[str, ...]
    strip: bool = True
    ignore_case: bool = False
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def canonical(self) -> bool:
        return True

    def find(self, text: str) -> str | None:
        return text.strip() if self.strip else text

    def key(self, extracted: str) -> str:
        """The text; with `strip` also without the marks of emphasis (`**10**`) that surround it."""
        text = extracted
        if self.strip:
            text = text.strip().strip("*`").strip() or text.strip()
        return text.casefold() if self.ignore_case else text

    def grade(self, extracted: str) -> Grade:
        return _judged(self.key(extracted) in {self.key(answer) for answer in self.answers})


@dataclass(frozen=True, slots=True)
class Numeric:
    """The answer is a number near an accepted one: within `tolerance`, or `rel_tolerance` times the truth.

    With `score: closeness` the score is minus the distance to the nearest accepted number.
    """

    type: ClassVar[str] = "numeric"
    slow: ClassVar[bool] = False
    no_answer_score: ClassVar[float] = 0.0
    truths: tuple[Decimal, ...]
    tolerance: Decimal = Decimal(0)
    rel_tolerance: Decimal = Decimal(0)
    decimal_mark: str = "."
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def canonical(self) -> bool:
        return True

    def find(self, text: str) -> str | None:
        return last_number(text, decimal_mark=self.decimal_mark)

    def key(self, extracted: str) -> str | None:
        value = parse_number(extracted, decimal_mark=self.decimal_mark)
        return None if value is None else number_key(value)

    def grade(self, extracted: str) -> Grade:
        value = parse_number(extracted, decimal_mark=self.decimal_mark)
        if value is None:
            return Grade(self.no_answer_score, "no_answer")
        good = any(
            abs(value - truth) <= max(self.tolerance, self.rel_tolerance * abs(truth))
            for truth in self.truths
        )
        return self._graded(value, good)

    def _graded(self, value: Decimal, good: bool) -> Grade:
        return _judged(good)


@dataclass(frozen=True, slots=True)
class Closeness(Numeric):
    """`numeric` with `score: closeness`."""

    no_answer_score: ClassVar[float] = NO_ANSWER_SCORE

    def _graded(self, value: Decimal, good: bool) -> Grade:
        distance = min(abs(value - truth) for truth in self.truths)
        return Grade(max(-float(distance), NO_ANSWER_SCORE / 2) + 0.0, "ok" if good else "wrong")


@dataclass(frozen=True, slots=True)
class Regex:
    """The pattern occurs; with a group and accepted answers, its last match must capture one of them.

    Without accepted answers a match is the judgement itself: to vote on what matched would be to let the
    grader choose, so there is nothing canonical about it.
    """

    type: ClassVar[str] = "regex"
    slow: ClassVar[bool] = False
    no_answer_score: ClassVar[float] = 0.0
    pattern: re.Pattern[str]
    answers: tuple[str, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def canonical(self) -> bool:
        return bool(self.answers)

    def find(self, text: str) -> str | None:
        return text.strip() or None

    def _captured(self, extracted: str) -> str | None:
        match = last_match(self.pattern, extracted.strip())
        return captured(match).strip() if match else None

    def key(self, extracted: str) -> str | None:
        return self._captured(extracted) if self.answers else extracted.strip()

    def grade(self, extracted: str) -> Grade:
        found = self._captured(extracted)
        return _judged(found is not None and (not self.answers or found in self.answers))


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer names the right option, by its letter or by its text."""

    type: ClassVar[str] = "choice"
    slow: ClassVar[bool] = False
    no_answer_score: ClassVar[float] = 0.0
    options: Mapping[str, str]
    right: frozenset[str]
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def canonical(self) -> bool:
        return True

    def find(self, text: str) -> str | None:
        return chosen(text, dict(self.options))

    def key(self, extracted: str) -> str | None:
        return chosen(extracted, dict(self.options))

    def grade(self, extracted: str) -> Grade:
        letter = self.key(extracted)
        return Grade(self.no_answer_score, "no_answer") if letter is None else _judged(letter in self.right)


@dataclass(frozen=True, slots=True)
class Contains:
    """All texts of `all`, at least one of `any` and none of `none` occur in the answer."""

    type: ClassVar[str] = "contains"
    slow: ClassVar[bool] = False
    no_answer_score: ClassVar[float] = 0.0
    all: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    ignore_case: bool = False
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def canonical(self) -> bool:
        return False

    def find(self, text: str) -> str | None:
        return text.strip() or None

    def _folded(self, text: str) -> str:
        return text.casefold() if self.ignore_case else text

    def key(self, extracted: str) -> str:
        return self._folded(extracted.strip())

    def grade(self, extracted: str) -> Grade:
        text = self._folded(extracted)
        missing = [words for words in self.all if self._folded(words) not in text]
        unwanted = [words for words in self.none if self._folded(words) in text]
        one_of = not self.any or next((True for words in self.any if self._folded(words) in text), False)
        good = not missing and not unwanted and one_of
        return _judged(good, "" if good else ", ".join([*missing, *unwanted]) or "none of any")
