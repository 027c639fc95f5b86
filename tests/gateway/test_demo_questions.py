"""The right answers are right: each prompt is read back and solved another way."""

from __future__ import annotations

import itertools
import re
from datetime import date, datetime, timedelta
from fractions import Fraction

import pytest

from elometer.gateway.demo.questions import WEEKDAYS
from elometer.gateway.demo.tasks import ShortTask, short_tasks


def numbers(prompt: str) -> list[int]:
    return [int(found) for found in re.findall(r"\d+", prompt)]


def departures(prompt: str) -> str:
    gap, *clock = numbers(prompt)
    first, end = clock[0] * 60 + clock[1], clock[2] * 60 + clock[3]
    return str(sum(1 for minute in range(first, end + 1) if (minute - first) % gap == 0))


def discount(prompt: str) -> str:
    price, first, second = numbers(prompt)
    return str(Fraction(price) * (1 - Fraction(first, 100)) * (1 - Fraction(second, 100)))


def remainder(prompt: str) -> str:
    a, b, modulus = numbers(prompt)
    return str(divmod(sum(a for _ in range(b)), modulus)[1])


def sequence(prompt: str) -> str:
    terms = numbers(prompt)
    steps = [after - before for before, after in itertools.pairwise(terms)]
    growth = {after - before for before, after in itertools.pairwise(steps)}
    assert len(growth) == 1
    return str(terms[-1] + steps[-1] + growth.pop())


def legs(prompt: str) -> str:
    stools, chairs, extra = numbers(prompt)
    return str(sum([3] * stools + [4] * chairs + [4] * extra))


def weekday(prompt: str) -> str:
    today = next(name for name in WEEKDAYS if name in prompt)
    monday = date(2027, 1, 4)
    later = monday + timedelta(days=WEEKDAYS.index(today) + numbers(prompt)[0])
    return later.strftime("%A")


def date_after(prompt: str) -> str:
    days, *start = numbers(prompt)
    return date.fromordinal(date(*start).toordinal() + days).isoformat()


def arrival(prompt: str) -> str:
    hour, minute, trip, wait = numbers(prompt)
    return (datetime(2027, 1, 1, hour, minute) + timedelta(minutes=trip + wait)).strftime("%H:%M")


def options(prompt: str) -> dict[str, str]:
    return dict(re.findall(r"([A-D])\) (\S+)", prompt))


def largest_fraction(prompt: str) -> str:
    return max(options(prompt).items(), key=lambda option: Fraction(option[1]))[0]


def prime(prompt: str) -> str:
    primes = [
        mark
        for mark, text in options(prompt).items()
        if all(int(text) % factor for factor in range(2, int(text)))
    ]
    assert len(primes) == 1
    return primes[0]


SOLVERS = {
    "departures": departures,
    "discount": discount,
    "remainder": remainder,
    "sequence": sequence,
    "legs": legs,
    "weekday": weekday,
    "date": date_after,
    "arrival": arrival,
    "largest fraction": largest_fraction,
    "prime": prime,
}


def all_tasks() -> list[ShortTask]:
    return [task for seed in range(20) for task in short_tasks(seed, 40)]


@pytest.mark.parametrize("topic", SOLVERS)
def test_right_answers_are_right_and_wrong_ones_are_wrong(topic: str) -> None:
    tasks = [task for task in all_tasks() if task.topic == topic]
    assert len(tasks) >= 20
    for task in tasks:
        assert SOLVERS[topic](task.prompt) == task.right, task.prompt
        assert len(set(task.answers)) == len(task.answers) >= 4


def test_every_topic_is_solved() -> None:
    assert {task.topic for task in all_tasks()} == set(SOLVERS)
