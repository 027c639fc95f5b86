"""The gates of one start: one per model, under one cap, paused and resumed together."""

from __future__ import annotations

from elometer.boundary.gate import AdaptiveGate, FixedGate
from elometer.core.clock import timestamp
from elometer.core.limits import Gate
from elometer.runs import events as ev


class Gates:
    """One gate per model, all with the same cap, paused and resumed together."""

    def __init__(self, limit: int, *, fixed: bool) -> None:
        self.limit = limit
        self._fixed = fixed
        self._gates: dict[str, AdaptiveGate | FixedGate] = {}
        self._paused = False

    def __call__(self, model: str) -> Gate:
        """The gate of a model."""
        if model not in self._gates:
            gate = FixedGate(self.limit) if self._fixed else AdaptiveGate(self.limit)
            if self._paused:
                gate.pause()
            self._gates[model] = gate
        return self._gates[model]

    def set_limit(self, limit: int) -> None:
        """Change the cap of calls in flight."""
        self.limit = limit
        for gate in self._gates.values():
            gate.set_limit(limit)

    def pause(self) -> None:
        """Let nothing more onto the wire; what is there goes on."""
        self._paused = True
        for gate in self._gates.values():
            gate.pause()

    def resume(self) -> None:
        """Let calls onto the wire again."""
        self._paused = False
        for gate in self._gates.values():
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
