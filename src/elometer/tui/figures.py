"""How numbers look: fixed width, no false precision, a dash where nothing is known."""

from __future__ import annotations

import re
from datetime import datetime

UNKNOWN = "–"
FULL, EMPTY = "━", "─"


def count(number: float | None) -> str:
    """`12,345`; a dash for None."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def compact(number: float | None) -> str:
    """At most five characters: `999`, `1.2k`, `200k`, `23.4M`."""
    if number is None:
        return UNKNOWN
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size * 0.9995:
            scaled = number / size
            return f"{scaled:.1f}{unit}" if scaled < 99.95 else f"{scaled:.0f}{unit}"
    return f"{number:.0f}"


def count_in(number: float | None, width: int, mark: str = "") -> str:
    """`mark` and the full count where they fit in `width` cells, else the compact one."""
    full = mark + count(number)
    return full if len(full) <= width else mark + compact(number)


def decimal(number: float | None, places: int = 2) -> str:
    """`0.73`; a dash for None."""
    return UNKNOWN if number is None else f"{number:.{places}f}".replace("-", "−")


def short(number: float | None) -> str:
    """Three figures that mean something: `0.06`, `2.55`, `26.3`, `178`; a dash for None."""
    if number is None:
        return UNKNOWN
    return f"{number:.{_places(number)}f}".replace("-", "−")


def short_interval(low: float | None, high: float | None) -> str:
    """`[−0.12, +2.55]` with as many places as its wider end bears; a dash where one end is unknown."""
    if low is None or high is None:
        return UNKNOWN
    places = _places(max(abs(low), abs(high)))
    return f"[{signed(low, places)}, {signed(high, places)}]"


def _places(number: float) -> int:
    return 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0


def signed(number: float | None, places: int = 1) -> str:
    """`+28.0`, `−5.3`; a dash for None."""
    if number is None:
        return UNKNOWN
    return f"{number:+.{places}f}".replace("-", "−")


_ASCII_MINUS = re.compile(r"(?<![\w.)-])-(?=\d)")


def with_minus(text: str) -> str:
    """Words of the core, which keep to ASCII, with the minus sign that this app's numbers have."""
    return _ASCII_MINUS.sub("−", text)


def interval(low: float | None, high: float | None, places: int = 1) -> str:
    """`[−9.0, +20.0]`; a dash where one end is unknown."""
    if low is None or high is None:
        return UNKNOWN
    return f"[{signed(low, places)}, {signed(high, places)}]"


def share(fraction: float | None) -> str:
    """`17 %`; a dash for None. Never rounds up to 100 %."""
    if fraction is None:
        return UNKNOWN
    percent = fraction * 100
    return f"{min(percent, 99) if percent < 100 else percent:.0f} %"


def duration(seconds: float | None) -> str:
    """`0:42`, `12:05`, `3:04:05`, `2 d 3 h`; a dash for None."""
    if seconds is None:
        return UNKNOWN
    whole = int(seconds + 0.5)
    if whole >= 86400:
        return f"{whole // 86400} d {whole % 86400 // 3600} h"
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def distance(seconds: float) -> str:
    """Two units of a length of time, the finer one cut off: `3 d 4 h`, `4 h 12 min`, `5 min`, `0 min`."""
    minutes = int(seconds) // 60
    if minutes >= 1440:
        return f"{minutes // 1440} d {minutes % 1440 // 60} h"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def bar(fraction: float | None, width: int) -> str:
    """A bar of `width` cells."""
    filled = round(max(0.0, min(1.0, fraction or 0.0)) * width)
    return FULL * filled + EMPTY * (width - filled)


def moment(seconds: float) -> str:
    """`2026-11-29 19:30` in the local time of this machine, from epoch seconds."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
