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
    theta, before, move = start.copy(), start.copy(), np.zeros_like(start)
    last = np.full(len(theta), np.inf)
    open_ = np.arange(len(theta))
    converged = np.zeros(len(theta), dtype=bool)
    steps = 0
    while len(open_) and steps < MOST_STEPS:
        slope, step = climb(theta[open_], open_)
        steepness = np.abs(slope).max(axis=1)
        # A step that halves the gradient needs no proof; others must not have lowered the objective.
        doubtful = open_[steepness > 0.5 * last[open_]]
        if len(doubtful):
            last[doubtful] = np.inf
            stuck, shortened = _shorten(objective, theta, before, move, doubtful)
            open_ = np.setdiff1d(open_, stuck)
            if shortened or len(stuck):
                continue
        steep = steepness > TOLERANCE * np.maximum(scale[open_], 1.0)
        converged[open_[~steep]] = True
        open_ = open_[steep]
        if not len(open_):
            break
        taken, flat = _solved(step, steep, theta.shape[1])
        open_, steepness = open_[~flat], steepness[steep][~flat]
        taken *= np.minimum(1.0, LARGEST_STEP / np.maximum(np.abs(taken).max(axis=1, keepdims=True), 1e-300))
        before[open_], move[open_], last[open_] = theta[open_], taken, steepness
        theta[open_] += taken
        steps += 1
    return Maximum(theta, converged, steps)


def _solved(
    step: Steps, wanted: npt.NDArray[np.bool_], parameters: int
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The steps of the wanted rows (b, P), and which have none: a flat function has its maximum at infinity.

    Only the rows that have a step are in the first array.
    """
    try:
        taken = step(wanted)
        return taken, np.zeros(len(taken), dtype=bool)
    except np.linalg.LinAlgError:
        pass
    rows = np.flatnonzero(wanted)
    each, flat = [], np.zeros(len(rows), dtype=bool)
    for place, row in enumerate(rows):
        alone = np.zeros_like(wanted)
        alone[row] = True
        try:
            each.append(step(alone)[0])
        except np.linalg.LinAlgError:
            flat[place] = True
    return np.array(each).reshape(len(each), parameters), flat


def _shorten(
    objective: Callable[[Floats, Which], Floats], theta: Floats, before: Floats, move: Floats, which: Which
) -> tuple[Which, bool]:
    """Halve the last step of `which` until the objective is not lower than before it.

    Tells who could not be helped (left where they were before) and whether any step was shortened.
    """
    least = objective(before[which], which)
    # Near the maximum the objective is flat to rounding; a step that loses less than that is no loss.
    least -= 1e-13 * np.maximum(np.abs(least), 1.0)
    left = np.flatnonzero(objective(theta[which], which) < least)
    shortened = bool(len(left))
    factor = 0.5
    for _halving in range(MOST_HALVINGS):
        if not len(left):
            break
        at = which[left]
        theta[at] = before[at] + factor * move[at]
        left = left[objective(theta[at], at) < least[left]]
        factor *= 0.5
    theta[which[left]] = before[which[left]]
    return which[left], shortened
