"""The `stop:` rules: how much may be spent, until when, and how narrow the intervals have to become.

A rule that fires is what the user asked for, so the start ends as partial(stop_rule) with exit code 0; code 4
is left to a key's budget, which nobody planned to hit.

Precision is looked at only when fixed shares of the blocks are done. Stopping at a width rather than at a
significant difference, and at few looks, hardly touches the coverage of the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from elometer.core.text import gettext as _
from elometer.rating.result import FitResult
from elometer.runs.folder import ExperimentFolder
from elometer.runs.spec import Experiment, Stop

REASON = "stop_rule"
EXPIRED = "expired"  # the key's boundary ended within the start


@dataclass(slots=True)
class Looks:
    """Which look is due: each share of the blocks once, also over several starts."""

    shares: tuple[float, ...]
    blocks: int
    done: int
    _passed: int = field(init=False)

    def __post_init__(self) -> None:
        self.shares = tuple(sorted(self.shares))
        self._passed = self._reached()

    def _reached(self) -> int:
        # A share that is no whole number of blocks is reached with the block that completes it.
        return sum(self.done >= math.ceil(share * self.blocks - 1e-9) for share in self.shares)

    def block_done(self) -> float | None:
        """Count a block; the share whose look is due now, None where none is."""
        self.done += 1
        reached = self._reached()
        if reached == self._passed:
            return None
        self._passed = reached
        return self.shares[reached - 1]


def spent_enough(stop: Stop, booked: int, open_blocks: Mapping[int, int], expected: int) -> str:
    """Why another block would pass `spend_tokens`; empty where it would not.

    `open_blocks` is what each open block has used so far, `expected` the 90th percentile of a block, 0 before
    the first one is done: until then only what is booked can tell.
    """
    if stop.spend_tokens is None:
        return ""
    to_come = sum(max(0, expected - used) for used in open_blocks.values())
    if booked < stop.spend_tokens and booked + to_come + expected <= stop.spend_tokens:
        return ""
    return _("spend_tokens: {booked:,} of {most:,} tokens are spent, a block may need {expected:,}").format(
        booked=booked, most=stop.spend_tokens, expected=expected
    )


def too_late(stop: Stop, now: datetime) -> str:
    """Why the start must end by its deadline; empty before it."""
    if stop.deadline is None or now < stop.deadline:
        return ""
    return _("deadline: {moment} is past").format(moment=stop.deadline.isoformat(timespec="seconds"))


def widest_interval(fitted: FitResult | None) -> float:
    """The largest half-width in Elo of the differences to the next lower budget; infinite where one is open.

    Where no strategy has a lower budget beside it, differences to the anchor are taken.
    """
    if fitted is None:
        return math.inf
    rows = [row for row in fitted.strategies if row.compared_with is not None]
    ends = [(row.delta_lo, row.delta_hi) for row in rows] or [
        (row.gain_lo, row.gain_hi) for row in fitted.strategies if row.strategy != fitted.anchor
    ]
    widths = [math.inf if low is None or high is None else (high - low) / 2 for low, high in ends]
    return max(widths, default=math.inf)


def halfwidth_now(experiment: Experiment, folder: ExperimentFolder) -> float:
    """`widest_interval` of what is on the disk. Takes a fit: not for an event loop."""
    from elometer.runs.result import derive

    return widest_interval(derive(experiment, folder).fit)


def narrow_enough(stop: Stop, halfwidth: float) -> str:
    """Why the intervals are narrow enough; empty where they are not."""
    if stop.ci_halfwidth_elo is None or halfwidth > stop.ci_halfwidth_elo:
        return ""
    return _("ci_halfwidth_elo: the widest ΔElo is known to ± {half:.1f}, asked for were {bound:g}").format(
        half=halfwidth, bound=stop.ci_halfwidth_elo
    )
