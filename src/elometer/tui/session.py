"""What the app has open, without a widget in it: the watched start, its state, its fit."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elometer.runs.state import RATE_WINDOW_S, Lane, RunState
from elometer.tui.verbs import Verbs, Watch

if TYPE_CHECKING:
    from elometer.runs.ceilings import Ceiling
    from elometer.runs.result import Derived

# A start that keeps to less than was asked (the key's boundary) never answers with the number asked for.
CAP_PATIENCE_S = 5.0


@dataclass
class LaneRates:
    """Tokens per second of each strategy over the last seconds, streamed tokens included.

    The first sight of a lane is no rate: what was booked before someone looked did not pass now.
    """

    window: float = RATE_WINDOW_S
    _seen: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)

    def add(self, lanes: dict[str, Lane], now: float) -> None:
        """Take note of the totals at `now` (seconds of any steady clock)."""
        for name, lane in lanes.items():
            seen = self._seen.setdefault(name, deque())
            seen.append((now, lane.total_tokens + lane.streaming))
            while len(seen) > 2 and seen[1][0] <= now - self.window:
                seen.popleft()

    def rate(self, name: str) -> float | None:
        """Tokens per second; None before two looks."""
        seen = self._seen.get(name)
        if not seen or len(seen) < 2 or seen[-1][0] <= seen[0][0]:
            return None
        return max(0.0, (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0]))


@dataclass
class Session:
    """The open start. `version` grows with each change of `state`, `fit_version` with each new fit."""

    verbs: Verbs
    watch: Watch | None = None
    state: RunState = field(default_factory=RunState)
    rates: LaneRates = field(default_factory=LaneRates)
    version: int = 0
    fit: Any = None
    beside: Derived | None = None  # ceilings, exclusions and the like, from a look at everything
    beside_blocks: int = -1
    fit_error: str = ""
    fit_version: int = 0
    fit_blocks: int = -1  # blocks that were done when the fit was asked for
    cap_wanted: int | None = None  # what was asked for and not answered yet
    cap_asked_at: float = 0.0
    died: bool = False  # the start's process is gone and left no last line
    changed_at: float = 0.0  # seconds of the steady clock

    @property
    def folder(self) -> Path | None:
        """The folder of the open start."""
        return self.watch.folder if self.watch else None

    @property
    def running(self) -> bool:
        """True while a start is at work, paused or stopping."""
        return self.state.opened is not None and not self.state.ended and not self.died

    @property
    def simulated(self) -> bool:
        """True where the numbers come from the make-believe gateway."""
        return self.state.opened is not None and self.state.opened.origin == "demo"

    def open(self, watch: Watch) -> None:
        """Turn to another start; what was known of the last one is dropped."""
        self.watch, self.state = watch, watch.state
        self.rates = LaneRates()
        self.fit, self.fit_error, self.fit_blocks, self.cap_wanted = None, "", -1, None
        self.beside, self.beside_blocks = None, -1
        self.died = False
        self.version += 1
        self.fit_version += 1

    def take(self, state: RunState, now: float) -> bool:
        """Accept a newly read state; True where it differs from the shown one."""
        changed = state is not self.state
        if changed:
            self.state = state
            self.version += 1
            self.died, self.changed_at = False, now
        if self.cap_wanted == state.limit or now - self.cap_asked_at > CAP_PATIENCE_S:
            self.cap_wanted = None
        if self.running:
            self.rates.add(state.lanes, now)
        return changed

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        """Strategies that take no part in the fit, as of the last look at everything."""
        return self.beside.ceilings if self.beside else ()

    @property
    def fit_is_due(self) -> bool:
        """True where blocks were finished since the last fit was asked for."""
        return (
            self.watch is not None
            and self.state.blocks_done > 0
            and self.fit_blocks != self.state.blocks_done
        )

    @property
    def beside_is_due(self) -> bool:
        """True where blocks were finished since the last look at what stands beside the fit."""
        return self.fit is not None and self.beside_blocks != self.state.blocks_done


def remaining_seconds(state: RunState, now: float) -> float | None:
    """Time to the end at the pace of this start so far; None before its first block, 0 at the end."""
    if not state.opened or state.started_at is None:
        return None
    if state.ended or state.blocks_done >= state.blocks:
        return 0.0
    done = state.blocks_done - state.opened.blocks_done
    elapsed = now - state.started_at
    if done <= 0 or elapsed <= 0:
        return None
    return elapsed / done * (state.blocks - state.blocks_done)
