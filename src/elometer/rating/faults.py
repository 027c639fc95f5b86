"""What makes a row no pair record."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from elometer.core.text import gettext as _
from elometer.rating.records import FIRST, SECOND, TIE

MISSING = 0  # the code of a name that is absent
DERIVED, UNKNOWN = 3, 9  # outcome absent, outcome that is no outcome
LARGEST_WEIGHT = 1e12


def faults(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    winner: npt.NDArray[Any],
    loser: npt.NDArray[Any],
    outcome: npt.NDArray[Any],
    weight: npt.NDArray[np.float64],
    bare: npt.NDArray[np.bool_],
    empty: int,
) -> list[tuple[npt.NDArray[np.bool_], str]]:
    """Masks of the rows that break a rule, with the sentence that says which."""
    first, second = np.where(bare, winner, a), np.where(bare, loser, b)
    absent = (first == MISSING) | (second == MISSING)
    unnamed = (winner == MISSING) & (loser == MISSING)
    says_first = unnamed | ((winner == first) & (loser == second))
    says_second = unnamed | ((winner == second) & (loser == first))
    told = outcome != UNKNOWN
    agrees = np.select(
        [outcome == FIRST, outcome == SECOND, outcome == TIE],
        [says_first, says_second & ~bare, unnamed],
        (winner == first) & (loser == second) | (winner == second) & (loser == first),
    )
    return [
        (~told, _('"{outcome}" is no outcome; the outcomes are a, b and tie')),
        (absent & ~bare, _("a and b must both name a strategy")),
        (absent & bare, _("winner and loser must both name a strategy")),
        ((first == empty) | (second == empty), _("a strategy has an empty name")),
        (~absent & (first == second), _("a strategy is compared with itself")),
        (
            ~absent & ~agrees & (outcome == DERIVED) & unnamed,
            _("neither an outcome nor a winner is given"),
        ),
        (
            ~absent & told & ~agrees,
            _("outcome {outcome}, winner {winner}, loser {loser}, a {a}, b {b} contradict each other"),
        ),
        (
            ~(np.isfinite(weight) & (weight >= 0) & (weight <= LARGEST_WEIGHT)),
            _("the weight must be a finite number that is not negative"),
        ),
    ]
