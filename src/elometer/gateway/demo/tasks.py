"""The demo's tasks: what is asked, what is right, and how often the make-believe model says what.

Short-answer tasks are drawn so that a majority vote helps on most and hurts on some. A model that fails to
end with an answer line casts no vote, as a real small model does; this is what makes a second sample worth
something, because a vote of two with a fair tie-break is otherwise exactly as good as one.

Everything is a pure function of the experiment's seed.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from elometer.gateway.demo.draws import uniforms, whole
from elometer.gateway.demo.questions import CHOICE, MAKERS, Question

GOLDEN = (math.sqrt(5) - 1) / 2
# Of a hundred tasks so many have a popular wrong answer, on which a vote does harm.
MISLEADING_SHARE = 0.15
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ShortTask:
    """A task with a short answer and the distribution of what the model answers.

    `answers[0]` is right; `probabilities` (they sum to 1) hold among answers that are given at all;
    `silent` is the probability that a reply ends without an answer line.
    """

    seed: int
    id: str
    topic: str
    prompt: str
    answers: tuple[str, ...]
    probabilities: tuple[float, ...]
    silent: float
    grader: dict[str, Any]

    @property
    def right(self) -> str:
        return self.answers[0]

    def __hash__(self) -> int:
        return hash((self.seed, self.id, self.prompt))


@dataclass(frozen=True, slots=True)
class ContinuousTask:
    """A task whose answer is a number, scored by how close it comes to a hidden truth.

    Answers are independent and normal around the truth with the standard deviation `spread`, so scores are
    independent, identically distributed and without ties.
    """

    seed: int
    id: str
    prompt: str
    truth: float
    spread: float

    def closeness(self, value: float) -> float:
        """The score of an answer, higher being better: minus its distance from the truth."""
        return -abs(value - self.truth)


Task = ShortTask | ContinuousTask


@functools.lru_cache(maxsize=64)
def short_tasks(seed: int, count: int) -> tuple[ShortTask, ...]:
    """The first `count` short-answer tasks of a seed; a longer list begins with the shorter one."""
    tasks: list[ShortTask] = []
    prompts: set[str] = set()
    for index in range(count):
        question = _new_question(seed, index, prompts)
        prompts.add(question.prompt)
        tasks.append(_short_task(seed, index, question))
    return tuple(tasks)


def _new_question(seed: int, index: int, taken: set[str]) -> Question:
    for trial in itertools.count():
        draws = uniforms("question", seed, index, trial)
        question = MAKERS[index % len(MAKERS)](draws)
        if question.prompt not in taken:
            return question
    raise AssertionError("itertools.count is endless")


def _short_task(seed: int, index: int, question: Question) -> ShortTask:
    draws = uniforms("difficulty", seed, index)
    # A golden-ratio sequence with a seeded start: every prefix covers easy and hard evenly.
    place = (next(uniforms("start", seed)) + index * GOLDEN) % 1
    solve, favourite = _difficulty(place, draws)
    return ShortTask(
        seed=seed,
        id=f"demo-{index + 1:02d}",
        topic=question.topic,
        prompt=question.prompt,
        answers=(question.right, *question.wrong),
        probabilities=(solve, *_share(1 - solve, favourite, len(question.wrong))),
        silent=0.16 + 0.14 * next(draws),
        grader=question.grader,
    )


def _difficulty(place: float, draws: Iterator[float]) -> tuple[float, float]:
    """The solve probability of an answer that is given, and the share of the errors on the favourite slip."""
    if place < MISLEADING_SHARE:
        solve = 0.16 + 0.14 * next(draws)
        return solve, 0.62
    ease = (place - MISLEADING_SHARE) / (1 - MISLEADING_SHARE)
    return 0.34 + 0.50 * ease, 0.36 + 0.08 * next(draws)


def _share(mass: float, favourite: float, count: int) -> tuple[float, ...]:
    """Split the probability of error: a share for the favourite slip, the rest falling by a quarter each."""
    weights = [0.75**position for position in range(count - 1)]
    rest = mass * (1 - favourite)
    return (mass * favourite, *(rest * weight / sum(weights) for weight in weights))


@functools.lru_cache(maxsize=64)
def continuous_tasks(seed: int, count: int) -> tuple[ContinuousTask, ...]:
    """The first `count` continuous-score tasks of a seed."""
    return tuple(_continuous_task(seed, index) for index in range(count))


def _continuous_task(seed: int, index: int) -> ContinuousTask:
    draws = uniforms("continuous", seed, index)
    width, height, depth = (whole(next(draws), 3, 40) / 10 for _ in range(3))
    fill = whole(next(draws), 52, 78)
    spread = width * height * depth * (0.05 + 0.2 * next(draws))
    prompt = (
        f"Estimate {index + 1}: a crate of {width} m × {height} m × {depth} m is filled with gravel "
        f"to {fill} %. How many cubic metres of gravel does it hold? Answer with six decimals."
    )
    return ContinuousTask(
        seed, f"estimate-{index + 1:02d}", prompt, width * height * depth * fill / 100, spread
    )


def unknown_task(seed: int, prompt: str) -> ShortTask:
    """A stand-in for a prompt that is not one of the demo's: guesses with a distribution of the prompt's own.

    The gateway knows no right answer to it; it says so in its replies.
    """
    draws = uniforms("unknown", seed, prompt)
    choice = "A)" in prompt and "B)" in prompt
    start = whole(next(draws), 1, 90)
    answers = ("A", "B", "C", "D") if choice else tuple(str(start + step) for step in range(4))
    favourite = 0.3 + 0.4 * next(draws)
    probabilities = (favourite, *_share(1 - favourite, 0.4, len(answers) - 1))
    return ShortTask(
        seed, UNKNOWN, UNKNOWN, prompt, answers, probabilities, 0.1, CHOICE if choice else {"type": "exact"}
    )
