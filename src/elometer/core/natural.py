"""Natural order of names: `sample_2` before `sample_16`."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which runs of digits compare as numbers."""
    parts = _DIGITS.split(name)
    key = tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts if part)
    return (*key, (0, 0, name))
