"""Patterns written by users: checked when read, bounded when used."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from collections import deque
from collections.abc import Iterator
from types import FrameType

LONGEST_TEXT = 200_000  # characters of an answer that a pattern sees: the last ones, where answers stand
LONGEST_PATTERN = 2_000
CPU_SECONDS = 0.25


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
    with _limited():
        matches = deque(pattern.finditer(text[-LONGEST_TEXT:]), maxlen=1)
    return matches[0] if matches else None


def captured(match: re.Match[str]) -> str:
    """The first group that took part, or the whole match where the pattern has no group."""
    return next((group for group in match.groups() if group is not None), match[0])


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Interrupt the block after CPU_SECONDS of processor time.

    The matcher looks for signals while it backtracks, and only the main thread receives them; in another
    thread the bound on the text's length is all there is.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getitimer(signal.ITIMER_VIRTUAL)[0]
    ):
        yield
        return

    def expired(number: int, frame: FrameType | None) -> None:
        raise PatternTimeout

    before = signal.signal(signal.SIGVTALRM, expired)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
