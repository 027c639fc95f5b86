"""Natural order of names: `sample_2` before `sample_16`."""

from __future__ import annotations

import re
from functools import lru_cache

_DIGITS = re.compile(r"(\d+)")


@lru_cache(maxsize=4096)  # the same few names are put in order at every fit
def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which runs of digits compare as numbers."""
    parts = _DIGITS.split(name)
    if len(parts) == 3 and parts[0] and not parts[2]:  # a stem and a number, as nearly all names are
        return ((0, 0, parts[0]), (1, int(parts[1]), ""), (0, 0, name))
    key = tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts if part)
    return (*key, (0, 0, name))
