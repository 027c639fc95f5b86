"""What the make-believe model says: brief reasoning of varying length, then (mostly) a line with the answer.

A reply is an opening, a few steps, and an ending, drawn independently of one another and of the answer, so
the expected number of tokens is a sum of means and needs no simulation.
"""

from __future__ import annotations

import functools
from statistics import NormalDist, fmean

from elometer.gateway.demo.draws import pick, pick_weighted, uniforms, whole
from elometer.gateway.demo.tasks import UNKNOWN, ContinuousTask, ShortTask, Task
from elometer.gateway.demo.tokenizer import count

ANSWER_MARK = "ANSWER: "
FEWEST_STEPS, MOST_STEPS = 1, 6

OPENINGS = (
    "Let me set this up before I count.",
    "First the quantities that are given, then the question.",
    "This can be done in a few steps.",
    "I start from what is known.",
    "Read carefully: the last condition matters.",
)
STEPS = (
    "Write the known values down and name the unknown.",
    "The boundary case belongs to the count, so check both ends.",
    "One step at a time keeps the arithmetic small.",
    "A rough estimate gives the right order of size.",
    "Doing it a second way leads to the same place.",
    "The units agree, so nothing was mixed up.",
    "Put the intermediate result back in and compare.",
    "The tempting short cut skips a case here.",
)
STRAYING = (
    "But then the first step would not hold, and I am no longer sure which reading is meant.",
    "Both readings seem possible to me and I cannot settle on one of them.",
)
UNKNOWN_NOTE = "This is a simulation that does not know this task; what follows is a guess."


def answer(task: Task, sample_seed: int) -> str:
    """The model's reply to a task: a pure function of (experiment seed, task, sample seed)."""
    draws = uniforms("answer", task.seed, task.id, task.prompt, sample_seed)
    given = (
        _continuous(task, next(draws))
        if isinstance(task, ContinuousTask)
        else _short(task, next(draws), next(draws))
    )
    body = [pick(next(draws), OPENINGS)]
    body += [pick(next(draws), STEPS) for _ in range(whole(next(draws), FEWEST_STEPS, MOST_STEPS))]
    if given is None:
        return " ".join([*body, pick(next(draws), STRAYING)])
    if task.id == UNKNOWN:
        body.insert(0, UNKNOWN_NOTE)
    return f"{' '.join(body)}\n{ANSWER_MARK}{given}"


def _short(task: ShortTask, speaks: float, which: float) -> str | None:
    return None if speaks < task.silent else pick_weighted(which, task.answers, task.probabilities)


def _continuous(task: ContinuousTask, draw: float) -> str:
    # Half of the last digit of the draw keeps 0 out of the inverse distribution function.
    return f"{NormalDist(task.truth, task.spread).inv_cdf(draw + 2**-54):.6f}"


@functools.lru_cache(maxsize=4096)
def expected_completion_tokens(task: Task) -> float:
    """The mean number of completion tokens of a reply to a task.

    Exact for short-answer tasks; for numbers, whose digits vary by one or two tokens, at the hidden truth.
    """
    steps = (FEWEST_STEPS + MOST_STEPS) / 2 * fmean(map(count, STEPS))
    opening = fmean(map(count, OPENINGS))
    if isinstance(task, ContinuousTask):
        return opening + steps + count(f"{ANSWER_MARK}{task.truth:.6f}")
    spoken = sum(
        probability * count(f"{ANSWER_MARK}{text}")
        for text, probability in zip(task.answers, task.probabilities, strict=True)
    )
    ending = task.silent * fmean(map(count, STRAYING)) + (1 - task.silent) * spoken
    return opening + steps + ending
