"""The gates of one start: one per model, under one cap, paused and resumed together."""

from __future__ import annotations

import asyncio

from elometer.boundary.adaptive import AdaptiveGate
from elometer.boundary.gate import FixedGate
from elometer.core.clock import timestamp
from elometer.core.limits import Gate
from elometer.runs import events as ev


class Gates:
    """One gate per model.

    `cap` is what experiment and user allow in flight, `permits` what other processes on the same key leave
    of it; each gate holds to the smaller one. Without permits the gates are shut.
    """

    def __init__(self, cap: int, *, fixed: bool) -> None:
        self.cap = cap
        self.permits = cap
        self._fixed = fixed
        self._gates: dict[str, AdaptiveGate | FixedGate] = {}
        self._paused = False
        self._going = asyncio.Event()
        self._going.set()

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return min(self.cap, self.permits)

    def __call__(self, model: str) -> Gate:
        """The gate of a model."""
        if model not in self._gates:
            limit = max(1, self.limit)
            self._gates[model] = FixedGate(limit) if self._fixed else AdaptiveGate(limit)
            self._apply()
        return self._gates[model]

    def set_cap(self, cap: int) -> None:
        """Change what experiment and user allow."""
        self.cap = cap
        self._apply()

    def in_flight(self) -> int:
        """Places that are taken, over all gates."""
        return sum(gate.status().in_flight for gate in self._gates.values())

    def set_permits(self, permits: int) -> None:
        """Change what other processes leave."""
        if permits != self.permits:
            self.permits = permits
            self._apply()

    def pause(self) -> None:
        """Let nothing more onto the wire; what is there goes on."""
        self._paused = True
        self._going.clear()
        self._apply()

    def resume(self) -> None:
        """Let calls onto the wire again."""
        self._paused = False
        self._going.set()
        self._apply()

    async def going(self) -> None:
        """Return at once unless paused: for a call that was given its place in the moment of the pause."""
        await self._going.wait()

    def _apply(self) -> None:
        for gate in self._gates.values():
            if self.limit >= 1:  # no places for a while is no sign of what the server bears
                gate.set_limit(self.limit)
            if self._paused or self.limit < 1:
                gate.pause()
            else:
                gate.resume()

    def changes(self, now: float) -> list[ev.GateChanged]:
        """What each gate is doing, for the screen."""
        found = []
        for gate in self._gates.values():
            status = gate.status()
            closed = max(0.0, status.closed_until - now) if status.closed_until else 0.0
            found.append(
                ev.GateChanged(
                    at=timestamp(),
                    in_flight=status.in_flight,
                    limit=status.limit,
                    waiting=status.waiting,
                    closed_for_s=round(closed, 1),
                    why=status.why,
                )
            )
        return found
