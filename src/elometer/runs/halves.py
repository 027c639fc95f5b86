"""First half against second half: a gateway that drifts shows as strategies that change places over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.fit import FitResult, fit
from elometer.rating.options import FitOptions
from elometer.rating.records import RecordSet
from elometer.rating.student import two_sided
from elometer.runs.journal import Outcome
from elometer.runs.pairing import Pairing


@dataclass(frozen=True, slots=True)
class Change:
    """Elo over the anchor in the second half minus that in the first, and its interval's half-width."""

    strategy: str
    difference: float
    reach: float

    @property
    def beyond_chance(self) -> bool:
        """True where the interval excludes zero."""
        return abs(self.difference) > self.reach


@dataclass(frozen=True, slots=True)
class Halves:
    """The comparison; `reason` says why there is none. Intervals hold for all strategies together."""

    changes: tuple[Change, ...] = ()
    blocks: tuple[int, int] = (0, 0)
    reason: str = ""

    @property
    def differ(self) -> tuple[Change, ...]:
        """The changes beyond chance."""
        return tuple(change for change in self.changes if change.beyond_chance)

    def as_json(self) -> dict[str, Any]:
        """The object in fit.json."""
        return {
            "blocks": list(self.blocks),
            "reason": self.reason,
            "changes": [
                {"strategy": one.strategy, "delta_elo": one.difference, "reach": one.reach}
                for one in self.changes
            ],
        }

    def line(self) -> str:
        """The comparison in a sentence."""
        head = _("First half of the blocks against the second:")
        if self.reason:
            return f"{head} {self.reason}."
        shown = ", ".join(
            _("{name} {difference:+.0f} ± {reach:.0f}").format(
                name=one.strategy, difference=one.difference, reach=one.reach
            )
            for one in self.changes
        )
        verdict = _("within chance") if not self.differ else _("beyond chance: something drifted")
        return _("{head} Elo {changes}; {verdict}.").format(head=head, changes=shown, verdict=verdict)


def halves(
    outcomes: Iterable[Outcome],
    names: Sequence[str],
    options: FitOptions,
    *,
    pairing: Pairing | None = None,
) -> Halves:
    """Fit the first and the second half of the blocks apart and compare.

    The two halves share tasks, whose effects are in both, so treating them as independent makes the interval
    too wide rather than too narrow. It is widened for the number of strategies (Bonferroni).
    """
    pairing = pairing or Pairing.within_runs(options.experiment_id, names)
    kept = [one for one in outcomes if one.strategy in set(names)]
    ordered = sorted({one.block for one in kept})
    first_half = set(ordered[: len(ordered) // 2])
    sizes = (len(first_half), len(ordered) - len(first_half))
    parts = (
        [one for one in kept if one.block in first_half],
        [one for one in kept if one.block not in first_half],
    )
    try:
        first, second = (fit(RecordSet.from_records(pairing.records(part)), None, options) for part in parts)
    except UsageError:
        return Halves(blocks=sizes, reason=_("too few comparisons in one of them"))
    shared = [
        row.strategy
        for row in first.strategies
        if row.strategy != first.anchor and _known(first, row.strategy) and _known(second, row.strategy)
    ]
    if not shared or first.anchor != second.anchor:
        return Halves(blocks=sizes, reason=_("too few comparisons in one of them"))
    degrees = max(1, min(first.tasks, second.tasks) - 1)
    times = two_sided(1 - (1 - options.level) / len(shared), degrees)
    changes = []
    for name in shared:
        one, other = first.row(name), second.row(name)
        error = options.per_logit * math.hypot(one.se or 0.0, other.se or 0.0)
        changes.append(Change(name, (other.elo or 0.0) - (one.elo or 0.0), times * error))
    return Halves(tuple(changes), sizes)


def _known(result: FitResult, name: str) -> bool:
    return any(
        row.strategy == name and row.identified and row.elo is not None and row.se is not None
        for row in result.strategies
    )
