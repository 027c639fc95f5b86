"""Graders: what counts as an answer, when two answers are the same, and what an answer scores.

`extract` finds the answer in a text, `normalise` gives the key under which equal answers vote together,
`grade` gives the score. A grader that fails says so as `grader_error`: its failure is never the model's.
"""

from __future__ import annotations

from elometer.runs.graders.grade import (
    extract,
    grade,
    grade_with,
    has_canonical_answer,
    is_binary,
    normalise,
)
from elometer.runs.graders.kinds import NO_ANSWER_SCORE, Grade, GraderSpec
from elometer.runs.graders.read import GRADERS, Extract, without_thought

__all__ = [
    "GRADERS",
    "NO_ANSWER_SCORE",
    "Extract",
    "Grade",
    "GraderSpec",
    "extract",
    "grade",
    "grade_with",
    "has_canonical_answer",
    "is_binary",
    "normalise",
    "without_thought",
]
