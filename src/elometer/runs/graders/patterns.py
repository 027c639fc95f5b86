"""Patterns written by users: checked when read, bounded when used."""

from __future__ import annotations

import atexit
import re
import signal
import threading
from collections import deque
from types import FrameType

LONGEST_TEXT = 200_000  # characters of an answer that a pattern sees: the last ones, where answers stand
LONGEST_PATTERN = 2_000
TICK_S = 0.2  # of processor time; a match lives through one tick and not through two


class PatternTimeout(Exception):
    """A pattern used more processor time than it may: it backtracks without end on this text."""


def compile_pattern(pattern: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """A compiled pattern; `^` and `$` match at lines. Raises ValueError with the reason for a bad one."""
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"longer than {LONGEST_PATTERN} characters")
    try:
        return re.compile(pattern, re.MULTILINE | (re.IGNORECASE if ignore_case else 0))
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last match of a user's pattern. Raises PatternTimeout where matching does not end."""
    with _watch:
        matches = deque(pattern.finditer(text[-LONGEST_TEXT:]), maxlen=1)
    return matches[0] if matches else None


def captured(match: re.Match[str]) -> str:
    """The first group that took part, or the whole match where the pattern has no group."""
    return next((group for group in match.groups() if group is not None), match[0])


class _Watch:
    """Interrupts a pattern that uses more processor time than it may.

    The matcher looks for signals while it backtracks, and only the main thread receives them; in another
    thread the bound on the text's length is all there is. One timer looks at all matches of a busy time: to
    set one for each costs more than most matches do.
    """

    def __init__(self) -> None:
        self._begun = 0  # how many matches were begun
        self._matching = False
        self._seen = 0  # the match that a tick found under way
        self._ticking = False
        # The interpreter gives signals back on its way out, and this one would then end the process.
        atexit.register(signal.setitimer, signal.ITIMER_VIRTUAL, 0)

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._begun += 1
        self._matching = True
        # After the two lines above, so that no tick in between ends the timer for want of matches.
        if not self._ticking:
            self._ticking = True
            signal.signal(signal.SIGVTALRM, self._tick)
            signal.siginterrupt(signal.SIGVTALRM, False)
            signal.setitimer(signal.ITIMER_VIRTUAL, TICK_S, TICK_S)

    def __exit__(self, *error: object) -> None:
        self._matching = False

    def _tick(self, number: int, frame: FrameType | None) -> None:
        if self._matching and self._seen == self._begun:
            self._matching = False
            raise PatternTimeout
        if self._seen == self._begun:  # nothing was matched since the last tick
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self._ticking = False
        self._seen = self._begun


_watch = _Watch()
