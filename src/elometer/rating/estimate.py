"""A fit as numbers: θ, what each cluster contributed to it, and the intervals of any contrast.

The default interval clusters by task. Task t moves the estimate by u_t = V s_t, V the pseudo-inverse of the
information and s_t the score of its comparisons; the variance of a contrast is the sum of the squared,
centred contributions times T / (T − 1) (CR1), its law Student's t with T − 1 degrees of freedom.
Comparisons inside a task share the task, so that intervals over records cover 74–79 % where 95 % is claimed
once tasks differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from elometer.rating.graph import WinGraph
from elometer.rating.records import Floats, Integers
from elometer.rating.student import two_sided

Booleans = npt.NDArray[np.bool_]
# Below this share of the model's standard error all clusters say the same, and tell nothing of their spread.
NO_SPREAD = 1e-7
FEW = 4  # strategies in a contrast for which picking their columns is cheaper than using all


@dataclass(frozen=True)
class Estimate:
    """θ (K) in logits, and the contributions of clusters.

    `influence` (C, K): what cluster c (a task, or a block where runs are generalised) adds to θ − truth,
    centred; `present` (C, K): whether it holds a comparison of the strategy; `stratum` (C): the task inside
    which it is centred, all zero where tasks are the clusters. `model_covariance` (K, K): the model's
    (Fisher). `scores` (K, K): task-weighted scores, a tie half a win. `extra`: log ν, or the position term,
    with its standard error, clustered as those of differences are.
    """

    theta: Floats
    influence: Floats
    present: Booleans
    stratum: Integers
    model_covariance: Floats
    scores: Floats
    graph: WinGraph
    converged: bool
    extra: tuple[str, float, float] | None = None

    @cached_property
    def clusters(self) -> int:
        """How many clusters hold a comparison."""
        return int(self.present.any(axis=1).sum())

    @cached_property
    def clustered(self) -> bool:
        """Whether an interval can rest on the spread between clusters."""
        used = self.present.any(axis=1)
        return int(used.sum()) > len(np.unique(self.stratum[used]))

    @cached_property
    def own_degrees(self) -> Integers:
        """(K,): clusters less strata that hold a comparison of each strategy."""
        strata = np.zeros((int(self.stratum.max(initial=0)) + 1, self.present.shape[1]), dtype=bool)
        np.logical_or.at(strata, self.stratum, self.present)
        return np.asarray(self.present.sum(axis=0) - strata.sum(axis=0), dtype=np.int64)

    @cached_property
    def stratified(self) -> bool:
        """Whether clusters are runs inside fixed tasks."""
        return bool(self.stratum.any())

    @cached_property
    def correction(self) -> Floats:
        """(C,): n / (n − 1) of the n clusters in each one's stratum; 1 where the clusters are tasks."""
        if not self.stratified:
            return np.ones(len(self.stratum))
        count = np.bincount(self.stratum[self.present.any(axis=1)], minlength=int(self.stratum.max()) + 1)
        factor = np.where(count > 1, count / np.maximum(count - 1, 1), 1.0)
        return np.asarray(factor[self.stratum], dtype=np.float64)

    def cluster_factor(self, degrees: float) -> float:
        """The CR1 factor n / (n − 1) of a contrast's own tasks; runs are corrected in their strata."""
        return 1.0 if self.stratified else (degrees + 1.0) / degrees

    def degrees(self, strategies: Integers) -> int:
        """The t law's degrees of freedom for a contrast of these strategies: those of the least observed."""
        return int(self.own_degrees[strategies].min())

    def same_component(self, strategies: Integers) -> bool:
        """Whether the data bound every difference among these strategies."""
        if self.graph.strongly_connected:
            return True
        return len(set(self.graph.component_of[strategies].tolist())) <= 1

    def same_island(self, one: int, other: int) -> bool:
        """Whether any chain of comparisons joins the two."""
        return bool(self.graph.island_of[one] == self.graph.island_of[other])


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its standard error and interval, in the unit of the value.

    `degrees` are those of Student's t, infinite under the model. `basis` says what the error rests on. An
    interval that the data do not bound is None on both sides.
    """

    value: float
    error: float | None
    low: float | None
    high: float | None
    degrees: float
    basis: str

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside the interval."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def contrast(estimate: Estimate, weights: Floats, level: float) -> Interval:
    """The interval of Σ weights_k θ_k (weights sum to zero), in logits."""
    involved = np.flatnonzero(weights)
    value = float(weights @ estimate.theta)
    if not len(involved):
        return Interval(0.0, 0.0, 0.0, 0.0, np.inf, "anchor")
    if not estimate.same_component(involved):
        return Interval(value, None, None, None, np.nan, "unbounded")
    error, degrees, basis = contrast_error(estimate, weights)
    if error is None:
        return Interval(value, None, None, None, np.nan, basis)
    reach = two_sided(level, degrees) * error
    return Interval(value, error, value - reach, value + reach, degrees, basis)


def contrast_error(estimate: Estimate, weights: Floats) -> tuple[float | None, float, str]:
    """(standard error, degrees of freedom, basis) of a contrast in logits."""
    involved = np.flatnonzero(weights)
    spread, influence, own = estimate.model_covariance, estimate.influence, weights
    if len(involved) <= FEW:
        spread, influence = spread[np.ix_(involved, involved)], influence[:, involved]
        own = weights[involved]
    model = math.sqrt(max(float(own @ spread @ own), 0.0))
    if not estimate.clustered:
        return model, np.inf, "model"
    degrees = estimate.degrees(involved)
    if degrees < 1:
        return None, np.nan, "one cluster"
    each = influence @ own
    error = math.sqrt(estimate.cluster_factor(degrees) * float((each * estimate.correction) @ each))
    if error <= NO_SPREAD * model:
        return model, np.inf, "no spread"
    return error, float(degrees), "clusters"


def centred(influence: Floats, present: Booleans, stratum: Integers) -> Floats:
    """Contributions less the mean of their stratum, among clusters that hold a comparison."""
    used: Booleans = np.asarray(present.any(axis=1))
    size = int(stratum.max()) + 1 if len(stratum) else 1
    count = np.bincount(stratum[used], minlength=size)
    total = np.zeros((size, influence.shape[1]))
    np.add.at(total, stratum[used], influence[used])
    mean = total / np.maximum(count, 1)[:, None]
    result: Floats = np.where(used[:, None], influence - mean[stratum], 0.0)
    return result
