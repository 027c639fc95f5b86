"""What the plot draws, apart from the plot: its module is heavy, this one is not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """Tokens, Elo and its interval; `low` and `high` are None where the data do not bound it."""

    name: str
    tokens: float
    elo: float
    low: float | None
    high: float | None
    resolved: bool
