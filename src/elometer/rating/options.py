"""What a fit is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _

Estimator = Literal["firth", "mle", "davidson"]
Ties = Literal["half", "drop", "davidson"]
Aggregation = Literal["pooled", "per-task", "per-task-standardised"]
TaskWeight = Literal["equal", "records"]
Generalise = Literal["tasks", "runs"]

_CLOSED_SETS = {
    "estimator": get_args(Estimator),
    "ties": get_args(Ties),
    "aggregation": get_args(Aggregation),
    "task_weight": get_args(TaskWeight),
    "generalise": get_args(Generalise),
}


@dataclass(frozen=True, slots=True)
class FitOptions:
    """Choices of a fit; the defaults are what simulation defends.

    `anchor` is the strategy whose Elo is `elo_base` (None: the first in natural order that is no control);
    Elo = elo_base + elo_scale · θ / ln 10. `position` adds a term for being `a`, the one shown first.
    `generalise` says whose variation an interval reflects: further tasks, or further runs of these tasks.
    `knee_margin` is in Elo. `profile_as_elo` prints a standardised profile on the Elo scale all the same.
    `seed` drives what is simulated (simultaneous intervals, bootstrap), never a point estimate.
    """

    estimator: Estimator = "firth"
    ties: Ties = "half"
    aggregation: Aggregation = "pooled"
    anchor: str | None = None
    level: float = 0.95
    elo_base: float = 1000.0
    elo_scale: float = 400.0
    position: bool = False
    task_weight: TaskWeight = "equal"
    generalise: Generalise = "tasks"
    knee_margin: float = 25.0
    profile_as_elo: bool = False
    seed: int = 0
    experiment_id: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in _CLOSED_SETS.items():
            value = getattr(self, name)
            if value not in allowed:
                raise UsageError(
                    _("{name}: {value} is not known.").format(name=name, value=value),
                    evidence=_("Known are {names}.").format(names=", ".join(allowed)),
                    fix=_("Choose one of them."),
                )
        if not 0.0 < self.level < 1.0:
            raise UsageError(
                _("level: {value} is not between 0 and 1.").format(value=self.level),
                fix=_("0.95 stands for 95 %."),
            )
        if not (math.isfinite(self.knee_margin) and self.knee_margin >= 0):
            raise UsageError(
                _("knee_margin: {value} is no distance.").format(value=self.knee_margin),
                fix=_("Give the Elo that do not matter to you, 25 for instance."),
            )
        if not (math.isfinite(self.elo_base) and math.isfinite(self.elo_scale) and self.elo_scale > 0):
            raise UsageError(
                _("The Elo scale {scale} or base {base} is no usable number.").format(
                    scale=self.elo_scale, base=self.elo_base
                ),
                fix=_("400 and 1000 are the usual ones."),
            )

    @property
    def per_logit(self) -> float:
        """Elo per logit: 173.72 on the usual scale."""
        return self.elo_scale / math.log(10.0)

    @property
    def model(self) -> Literal["davidson", "position", "bradley-terry"]:
        """The family of likelihoods that estimator, ties and position come to."""
        if self.estimator == "davidson" or self.ties == "davidson":
            return "davidson"
        return "position" if self.position else "bradley-terry"

    @property
    def penalised(self) -> bool:
        """Whether Jeffreys' penalty is added."""
        return self.estimator == "firth"

    @property
    def ties_used(self) -> Ties:
        """How ties enter: the Davidson estimator models them whatever `ties` says."""
        return "davidson" if self.model == "davidson" else self.ties
