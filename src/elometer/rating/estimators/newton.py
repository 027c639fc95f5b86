"""Newton's method with step-halving, for a batch of small concave problems at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Which = npt.NDArray[np.intp]
# Which of the rows at hand are wanted, in; their Newton steps, out.
Steps = Callable[[npt.NDArray[np.bool_]], Floats]

# Plain Newton steps leave the region where the quadratic model holds: on six comparisons they diverge.
LARGEST_STEP = 2.0  # logits
MOST_STEPS = 200
MOST_HALVINGS = 40
TOLERANCE = 1e-10  # of the gradient, per comparison


@dataclass(frozen=True, slots=True)
class Maximum:
    """Where the search ended. `converged` (B) tells whether the gradient passed its check."""

    theta: Floats
    converged: npt.NDArray[np.bool_]
    steps: int


def maximise(
    objective: Callable[[Floats, Which], Floats],
    climb: Callable[[Floats, Which], tuple[Floats, Steps]],
    start: Floats,
    scale: Floats,
) -> Maximum:
    """Maximise B concave functions of P parameters from `start` (B, P).

    `objective(theta, which) -> (b,)` and `climb(theta, which) -> gradient (b, P), steps` work on the
    problems `which` that are still open; `steps(rows)` gives the Newton steps of the chosen rows from what
    the gradient already computed. `scale` (B) is the number of comparisons, by which the gradient is
    judged.
    """
    theta = start.copy()
    best = np.full(len(theta), np.nan)
    open_ = np.arange(len(theta))
    converged = np.zeros(len(theta), dtype=bool)
    steps = 0
    while len(open_) and steps < MOST_STEPS:
        slope, step = climb(theta[open_], open_)
        steep = np.abs(slope).max(axis=1) > TOLERANCE * np.maximum(scale[open_], 1.0)
        converged[open_[~steep]] = True
        open_ = open_[steep]
        if not len(open_):
            break
        if steps == 0:
            best[open_] = objective(theta[open_], open_)
        move = step(steep)
        longest = np.abs(move).max(axis=1, keepdims=True)
        move *= np.minimum(1.0, LARGEST_STEP / np.maximum(longest, 1e-300))
        open_ = open_[_halve(objective, theta, best, move, open_)]
        steps += 1
    return Maximum(theta, converged, steps)


def _halve(
    objective: Callable[[Floats, Which], Floats], theta: Floats, best: Floats, move: Floats, open_: Which
) -> npt.NDArray[np.bool_]:
    """Take the longest of the steps 1, ½, ¼ … that does not lower the objective; tell who moved."""
    left = np.arange(len(open_))
    moved = np.zeros(len(open_), dtype=bool)
    factor = 1.0
    for _halving in range(MOST_HALVINGS):
        which = open_[left]
        trial = theta[which] + factor * move[left]
        value = objective(trial, which)
        # Near the maximum the objective is flat to rounding; a step that loses less than that is no loss.
        slack = 1e-13 * np.maximum(np.abs(best[which]), 1.0)
        good = value >= best[which] - slack
        theta[which[good]] = trial[good]
        best[which[good]] = np.maximum(value[good], best[which[good]])
        moved[left[good]] = True
        left = left[~good]
        if not len(left):
            break
        factor *= 0.5
    return moved
