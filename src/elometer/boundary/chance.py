"""Refusals that our own load does not explain.

A server that names a wait and, after it, refuses an attempt that finds most of our places empty refuses for
reasons of its own: another tenant, a random choice among upstreams. Sending less does not help there. The
share of such refusals is learnt from those attempts, and refusals no more frequent than that are no reason to
cut. What was learnt is held against the answers that come: where more places bring no more answers in a
second, the refusals were a limit after all (one that other processes press against, say), and it is taken
back.
"""

from __future__ import annotations

import math
from collections import deque

ENOUGH_ANSWERED = 4  # light attempts answered, before the share is believed
ENOUGH_REFUSED = 2  # doubled each time that what was learnt had to be taken back
LONGEST_CHANCE_RUN = 8  # a longer row of refusals is an outage, not chance
LONGEST_CHANCE_WAIT_S = 1.0  # a longer wait is a schedule of the server's, not chance
SIGMAS = 3.0
ANSWERS_REMEMBERED = 16
GAIN_OF_DOUBLING = 1.4  # answers a second, at least, when the places have doubled
PATIENCE_WINDOWS = 4
CUT_WEIGHS = 2  # windows that one ended by a cut counts for


class LightAttempts:
    """What came of the first attempts after a named wait, sent while most places were empty."""

    def __init__(self) -> None:
        self._answered = 0
        self._refused = 0
        self._row = 0
        self._enough_refused = ENOUGH_REFUSED

    def came_back(self, *, refused: bool) -> None:
        """Count one; a row of refusals counts when an answer ends it, and not if it was an outage."""
        if refused:
            self._row += 1
            return
        self._answered += 1
        if self._row <= LONGEST_CHANCE_RUN:
            self._refused += self._row
        self._row = 0

    def take_back(self) -> None:
        """What was learnt proved wrong: begin anew, and ask for more evidence."""
        self._enough_refused *= 2
        self.forget()

    def forget(self) -> None:
        """Begin anew: the server has become another."""
        self._answered = self._refused = self._row = 0

    @property
    def share(self) -> float:
        """The share of attempts refused whatever our load, in [0, 1); 0 while too little is known."""
        if self._answered < ENOUGH_ANSWERED or self._refused < self._enough_refused:
            return 0.0
        return self._refused / (self._answered + self._refused)

    def explains(self, refused: int, sent: int) -> bool:
        """Whether `refused` of `sent` are no more than chance brings."""
        return refused <= sent * self.share + self._spread(sent)

    def exceeds(self, refused: int, sent: int) -> bool:
        """Whether chance would bring more than `refused` of `sent`."""
        return refused < sent * self.share - self._spread(sent)

    def _spread(self, sent: int) -> float:
        """Three standard deviations of a binomial whose share is itself known from few attempts only."""
        share, known = self.share, self._answered + self._refused
        return SIGMAS * math.sqrt(sent * share * (1.0 - share) * (1.0 + sent / max(1, known)))


class Yield:
    """Whether more places bring more answers. Times are seconds of the gate's clock."""

    def __init__(self) -> None:
        self._answers: deque[float] = deque(maxlen=ANSWERS_REMEMBERED)
        self._limit = 0.0
        self._rate = 0.0
        self._windows = 0
        self._doubled = False

    def answered(self, now: float) -> None:
        """Count an answer."""
        self._answers.append(now)

    def mark(self, limit: float) -> None:
        """Hold what comes against the rate of answers at this limit."""
        self._limit, self._rate = limit, self._rate_now()
        self._windows, self._doubled = 0, False

    def pays(self, limit: float, *, cut: bool) -> bool:
        """At the end of a window, or at a cut that ends it: whether growing has paid so far, or may still."""
        self._windows += CUT_WEIGHS if cut else 1
        if not self._doubled and limit >= 2.0 * self._limit:
            # From here on only answers count that came with the greater limit.
            self._doubled = True
            self._answers.clear()
        if self._doubled and len(self._answers) == ANSWERS_REMEMBERED:
            if self._rate_now() < GAIN_OF_DOUBLING * self._rate:
                return False
            self.mark(limit)
        return self._windows < PATIENCE_WINDOWS

    def _rate_now(self) -> float:
        if len(self._answers) < 2 or self._answers[-1] <= self._answers[0]:
            return 0.0
        return (len(self._answers) - 1) / (self._answers[-1] - self._answers[0])
