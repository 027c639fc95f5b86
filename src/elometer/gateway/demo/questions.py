"""The texts of the demo's short-answer tasks: rows of question makers.

A maker takes a stream of draws and gives a `Question`: its wrong answers are the slips a hurried reader
makes, all different from the right one and from each other.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from elometer.gateway.demo.draws import pick, shuffled, whole

Draws = Iterator[float]
NUMERIC: dict[str, Any] = {"type": "numeric", "tolerance": 0}
EXACT: dict[str, Any] = {"type": "exact"}
CHOICE: dict[str, Any] = {"type": "choice"}
LETTERS = ("A", "B", "C", "D")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, what is right, the slips in order of their likelihood, and how it is graded."""

    topic: str
    prompt: str
    right: str
    wrong: tuple[str, ...]
    grader: dict[str, Any]


def _clock(minutes: int) -> str:
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"


def _numbers(right: int, slips: list[int]) -> tuple[str, ...]:
    different = [slip for slip in dict.fromkeys(slips) if slip != right]
    return tuple(map(str, different[:4]))


def departures(draws: Draws) -> Question:
    """How many trams leave in a span: the off-by-one classic."""
    gap, first = whole(next(draws), 7, 17), 360 + 5 * whole(next(draws), 0, 12)
    end = first + gap * whole(next(draws), 6, 14) + whole(next(draws), 1, gap - 1)
    right = (end - first) // gap + 1
    prompt = (
        f"A tram leaves every {gap} minutes, the first at {_clock(first)}. "
        f"How many trams have left by {_clock(end)}?"
    )
    return Question(
        "departures", prompt, str(right), _numbers(right, [right - 1, right + 1, end - first, gap]), NUMERIC
    )


def discount(draws: Draws) -> Question:
    """A price after two discounts, where adding the percentages goes wrong."""
    price = 200 * whole(next(draws), 2, 30)
    first, second = 10 * whole(next(draws), 1, 4), 10 * whole(next(draws), 1, 4)
    right = price * (100 - first) * (100 - second) // 10_000
    added = price * (100 - first - second) // 100
    slips = [added, price * (100 - first) // 100, right + price // 100, price - right, right - 2]
    prompt = (
        f"A coat costs {price} crowns. Its price falls by {first} %, and the new price falls by {second} %. "
        "What does it cost now, in crowns?"
    )
    return Question("discount", prompt, str(right), _numbers(right, slips), NUMERIC)


def remainder(draws: Draws) -> Question:
    """A remainder of a product."""
    a, b, modulus = whole(next(draws), 23, 89), whole(next(draws), 23, 89), whole(next(draws), 7, 19)
    right = a * b % modulus
    slips = [right + 1, a % modulus * (b % modulus), modulus - right, right + modulus, right + 2]
    prompt = f"What is the remainder when {a} × {b} is divided by {modulus}?"
    return Question("remainder", prompt, str(right), _numbers(right, slips), NUMERIC)


def sequence(draws: Draws) -> Question:
    """The next term of a sequence whose differences grow by a constant."""
    start, step, growth = whole(next(draws), 1, 20), whole(next(draws), 2, 9), whole(next(draws), 1, 6)
    terms = [start]
    for index in range(5):
        terms.append(terms[-1] + step + index * growth)
    right, last = terms[-1], terms[-2]
    slips = [last + (last - terms[-3]), right + growth, right - 1, right + 1, 2 * last]
    prompt = f"Which number comes next: {', '.join(map(str, terms[:-1]))}, …?"
    return Question("sequence", prompt, str(right), _numbers(right, slips), NUMERIC)


def tables(draws: Draws) -> Question:
    """Legs counted over two kinds of furniture."""
    stools, chairs, extra = whole(next(draws), 4, 30), whole(next(draws), 4, 30), whole(next(draws), 2, 9)
    right = 3 * stools + 4 * (chairs + extra)
    slips = [
        3 * stools + 4 * chairs,
        4 * (stools + chairs + extra),
        right + 4,
        3 * (stools + chairs + extra),
        right - 3,
    ]
    prompt = (
        f"A hall has {stools} stools with three legs and {chairs} chairs with four. "
        f"Then {extra} more chairs are carried in. How many legs stand on the floor?"
    )
    return Question("legs", prompt, str(right), _numbers(right, slips), NUMERIC)


def weekday(draws: Draws) -> Question:
    """The weekday some days on."""
    today, days = whole(next(draws), 0, 6), whole(next(draws), 17, 320)
    right = (today + days) % 7
    wrong = tuple(WEEKDAYS[(right + shift) % 7] for shift in (6, 1, 5, 2))
    prompt = f"Today is {WEEKDAYS[today]}. Which day of the week is it in {days} days?"
    return Question("weekday", prompt, WEEKDAYS[right], wrong, EXACT)


def date_after(draws: Draws) -> Question:
    """A date some days on, across ends of months."""
    start = datetime.date(2027, whole(next(draws), 1, 11), whole(next(draws), 5, 27))
    days = whole(next(draws), 26, 75)
    right = start + datetime.timedelta(days=days)
    wrong = tuple((right + datetime.timedelta(days=shift)).isoformat() for shift in (-1, 1, 2, -2))
    prompt = f"Which date is {days} days after {start.isoformat()}? Answer as YYYY-MM-DD."
    return Question("date", prompt, right.isoformat(), wrong, EXACT)


def arrival(draws: Draws) -> Question:
    """A time of arrival."""
    start, trip, wait = (
        60 * whole(next(draws), 5, 20),
        whole(next(draws), 75, 290),
        whole(next(draws), 11, 55),
    )
    start += whole(next(draws), 1, 59)
    right = start + trip + wait
    wrong = tuple(_clock(right + shift) for shift in (-wait, 60, -60, 10))
    prompt = (
        f"A train leaves at {_clock(start)} and travels {trip} minutes, "
        f"with a stop of {wait} minutes on the way besides. When does it arrive? Answer as HH:MM."
    )
    return Question("arrival", prompt, _clock(right), tuple(dict.fromkeys(wrong)), EXACT)


def largest_fraction(draws: Draws) -> Question:
    """The largest of four fractions, as a letter."""
    options: list[Fraction] = []
    while len(options) < len(LETTERS):
        below = whole(next(draws), 7, 31)
        option = Fraction(whole(next(draws), below // 2, below - 1), below)
        if option not in options:
            options.append(option)
    return _choice("largest fraction", "Which fraction is the largest?", options, max(options), draws)


def prime(draws: Draws) -> Question:
    """The only prime among four numbers, as a letter."""
    right = pick(next(draws), (83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151))
    others = shuffled((87, 91, 93, 111, 117, 119, 123, 129, 133, 141, 143, 147, 153, 161), draws)[:3]
    return _choice(
        "prime", "Which of these numbers is prime?", shuffled([right, *others], draws), right, draws
    )


def _choice(topic: str, text: str, options: list[Any], right: Any, draws: Draws) -> Question:
    letter = LETTERS[options.index(right)]
    listed = " ".join(f"{mark}) {option}" for mark, option in zip(LETTERS, options, strict=True))
    wrong = tuple(shuffled([mark for mark in LETTERS if mark != letter], draws))
    return Question(topic, f"{text} {listed}", letter, wrong, CHOICE)


MAKERS: tuple[Callable[[Draws], Question], ...] = (
    departures,
    weekday,
    discount,
    largest_fraction,
    remainder,
    arrival,
    sequence,
    prime,
    tables,
    date_after,
)
