"""What a fit says, as plain values; None stands for what the data do not tell."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from elometer.rating.design import Design
from elometer.rating.economics import Curvature, Knee
from elometer.rating.estimate import Estimate
from elometer.rating.graph import Direction
from elometer.rating.options import FitOptions
from elometer.rating.records import RecordSet
from elometer.rating.tokens import TaskTokens

_LADDER = re.compile(r"(?P<stem>.*?)[_-]?(?P<k>\d+)$")
CONTROL_STEMS = {"random": "control", "oracle": "ceiling"}
Role = Literal["strategy", "control", "ceiling"]


@dataclass(frozen=True, slots=True)
class Name:
    """A strategy's name taken apart: `sample_8` is rung 8 of the ladder `sample`."""

    stem: str
    k: int | None
    role: str


def take_apart(strategy: str) -> Name:
    """Stem, rung and role by name; a name without a rung belongs to the ladder of all such names."""
    found = _LADDER.fullmatch(strategy)
    if found is None or not found["stem"]:
        return Name("", None, "strategy")
    return Name(found["stem"], int(found["k"]), CONTROL_STEMS.get(found["stem"], "strategy"))


def chains(components: tuple[tuple[str, ...], ...], islands: tuple[tuple[str, ...], ...]) -> str:
    """`{a, b} > {c}`, strongest first; with a semicolon between islands, which nothing orders."""
    parts = ([part for part in components if part[0] in island] for island in islands)
    return "; ".join(" > ".join("{" + ", ".join(part) + "}" for part in inside) for inside in parts)


@dataclass(frozen=True, slots=True)
class FitWarning:
    """Something the reader of a number must know."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Unbounded:
    """A strategy whose distance to the anchor the data do not bound."""

    strategy: str
    direction: Direction
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyFit:
    """One row: tokens, Elo, and the difference to the next lower rung of its ladder (`compared_with`).

    `theta` and `se` (logits) are relative to the anchor; `elo_lo/hi` in the gauge where the strategies of the
    anchor's component sum to zero, so that the choice of an anchor widens nothing; `gain_*` is Elo over the
    anchor with the interval of that difference. Token counts in tokens, `*_per_1k` in Elo per 1000 tokens.
    `delta_bounded`: the data bound the difference (else only the penalty keeps it finite).
    `resolved`: the interval of `delta_elo` excludes zero; `resolved_simultaneous`: so does the interval that
    holds for all neighbours together. Values are None where the data do not tell.
    """

    strategy: str
    k: int | None
    role: str
    identified: bool
    theta: float | None
    se: float | None
    elo: float | None
    elo_lo: float | None
    elo_hi: float | None
    gain: float | None
    gain_lo: float | None
    gain_hi: float | None
    tasks: int
    runs: int
    calls: int | None
    total_tokens: int | None
    tokens_per_task_run: float | None
    uncached_per_task_run: float | None
    compared_with: str | None
    delta_elo: float | None
    delta_bounded: bool
    delta_lo: float | None
    delta_hi: float | None
    delta_simultaneous_lo: float | None
    delta_simultaneous_hi: float | None
    delta_token: int | None
    marginal_elo_per_1k: float | None
    marginal_per_1k_task_run: float | None
    marginal_lo: float | None
    marginal_hi: float | None
    marginal_basis: str | None
    marginal_per_1k_uncached: float | None
    elo_per_1k: float | None
    elo_per_doubling: float | None
    elo_per_doubling_lo: float | None
    elo_per_doubling_hi: float | None
    win_rate_vs_anchor: float | None
    win_rate_round_robin: float | None
    ties: int
    excluded: int | None
    resolved: bool
    resolved_simultaneous: bool
    rank_lo: int | None
    rank_hi: int | None
    detectable_delta_elo: float | None
    tasks_needed: int | None
    unused_token_share: float | None
    estimated_token_share: float | None


@dataclass(frozen=True, slots=True)
class FitResult:
    """A whole fit. `components` are those of the win graph, strongest first, whatever the estimator.

    `unit` is "elo", or "profile" for standardised per-task values, which are no Elo. `interval_basis` says
    what intervals rest on: tasks, runs, or the model (one task). `estimate`, `records` and `tokens` are the
    arrays behind the rows, for those who want to go on computing.
    """

    experiment_id: str | None
    options: FitOptions
    estimator: str
    ties: str
    aggregation: str
    unit: Literal["elo", "profile"]
    interval_basis: Literal["tasks", "runs", "model"]
    identified: bool
    components: tuple[tuple[str, ...], ...]
    islands: tuple[tuple[str, ...], ...]
    unbounded: tuple[Unbounded, ...]
    tasks: int
    comparisons: int
    tie_rate: float
    elo_base: float
    elo_scale: float
    anchor: str
    level: float
    strategies: tuple[StrategyFit, ...]
    warnings: tuple[FitWarning, ...]
    returns: tuple[str, ...]
    curvature: Curvature | None
    knee: Knee | None
    design: Design | None
    position: tuple[float, float] | None
    log_nu: tuple[float, float] | None
    estimate: Estimate = field(repr=False, compare=False)
    records: RecordSet = field(repr=False, compare=False)
    tokens: TaskTokens | None = field(repr=False, compare=False)

    def row(self, strategy: str) -> StrategyFit:
        """The row of a strategy; KeyError where there is none."""
        for row in self.strategies:
            if row.strategy == strategy:
                return row
        raise KeyError(strategy)
