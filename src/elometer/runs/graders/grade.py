"""What a task's answers are and what they score; no fault of a grader becomes the model's."""

from __future__ import annotations

from typing import Protocol

from elometer.runs.graders.kinds import Choice, Closeness, Contains, Exact, Grade, GraderSpec, Numeric, Regex
from elometer.runs.graders.patterns import PatternTimeout
from elometer.runs.graders.read import Extract, without_thought

_BINARY = (Exact, Numeric, Regex, Choice, Contains)


class Gradable(Protocol):
    """What grading needs of a task."""

    @property
    def grader(self) -> GraderSpec:
        """The task's grader."""

    @property
    def extract(self) -> Extract | None:
        """How the answer is found, if the task says."""


def has_canonical_answer(task: Gradable) -> bool:
    """True where answers of several samples can be compared, so that a majority vote means something."""
    return task.extract is not None or task.grader.canonical


def is_binary(grader: GraderSpec) -> bool:
    """True where a grader can give 0 and 1 only; what a user's code may give nobody knows."""
    return isinstance(grader, _BINARY) and not isinstance(grader, Closeness)


def _find(task: Gradable, text: str) -> str | None:
    """The answer in a text, or None where the grader takes it for none. Raises what a pattern raises."""
    text = without_thought(text)
    if not text.strip():
        return None
    found = task.extract.find(text) if task.extract else task.grader.find(text)
    if found is None or (task.grader.canonical and task.grader.key(found) is None):
        return None
    return found


def extract(task: Gradable, text: str) -> str | None:
    """The answer that a model's text gives, or None.

    A leading <think> part is left aside. The task's `extract` decides (the last match; its first group), else
    the grader: the whole text for exact, the last number for numeric, the option for choice. Where finding it
    fails, the result is None and `grade` says why.
    """
    try:
        return _find(task, text)
    except (PatternTimeout, RecursionError):
        return None


def normalise(task: Gradable, extracted: str) -> str:
    """The vote key of an extracted answer: equal numbers, and a choice's letter and text, vote together."""
    try:
        return task.grader.key(extracted) or extracted.strip()
    except (PatternTimeout, RecursionError):
        return extracted.strip()


def grade_with(grader: GraderSpec, extracted: str) -> Grade:
    """The grade of an extracted answer by a grader; one that raises gives `grader_error`."""
    try:
        return grader.grade(extracted)
    except PatternTimeout:
        return Grade(0.0, "grader_error", "the pattern backtracks without end on this answer")
    except Exception as error:
        return Grade(0.0, "grader_error", f"{type(error).__name__}: {error}")


def grade(task: Gradable, extracted: str | None, text: str) -> Grade:
    """The grade of an answer; with `extracted` None it is looked for in `text` again, so that a fault shows.

    A grader that raises gives `grader_error`.
    """
    try:
        found = _find(task, text) if extracted is None else extracted
        if found is None:
            return Grade(task.grader.no_answer_score, "no_answer")
    except PatternTimeout:
        return Grade(0.0, "grader_error", "the pattern backtracks without end on this answer")
    except Exception as error:
        return Grade(0.0, "grader_error", f"{type(error).__name__}: {error}")
    return grade_with(task.grader, found)
