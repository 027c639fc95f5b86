"""What a running start takes over from outside: the user's wishes, and its share of the key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from elometer.boundary.account import KeyAccount
from elometer.core.clock import timestamp
from elometer.runs import control
from elometer.runs import events as ev
from elometer.runs.books import Books
from elometer.runs.gates import Gates

POLL_S = 0.25
# Looks between two contacts with the account book while no other process uses the key.
RENEW_ALONE_EVERY = 4
GAUGE_STEPS = 200


@dataclass(slots=True)
class Steering:
    """Four looks a second at control.json, the account book and the gates.

    `cap` is the key's boundary, the stricter of store and YAML: no wish lifts the cap above it. `on_change`
    is called where more calls may go, `on_resume` where the user lets a paused start go on, `on_tick` at each
    look.
    """

    control_file: Path
    cap: int | None
    gates: Gates
    account: KeyAccount
    books: Books
    on_stop: Callable[[], None]
    on_change: Callable[[], None]
    on_resume: Callable[[], None]
    on_tick: Callable[[], None]
    _state: control.DesiredState = "running"
    _seen: int = 0
    _ticks: int = 0
    _shown: dict[int, tuple[object, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.account.occupied = self.gates.in_flight
        self.account.on_permits = self._take_permits
        self.gates.set_permits(self.account.permits)

    def _take_permits(self, permits: int) -> None:
        self.gates.set_permits(permits)
        self.on_change()

    async def follow(self) -> None:
        """Look until cancelled. A wish that an earlier start obeyed is not this one's: the file goes."""
        self.control_file.unlink(missing_ok=True)
        while True:
            await asyncio.sleep(POLL_S)
            await self._share_the_key()
            self._show_gates()
            self.on_tick()
            written = self._written()
            if written != self._seen:
                self._seen = written
                self._obey(control.read(self.control_file))

    async def _share_the_key(self) -> None:
        """Tell the account what is in flight, and keep to the permits that other processes leave."""
        # A paused start leaves its places to others.
        self.account.wants = 0 if self._state == "paused" else self.gates.cap
        self._ticks += 1
        alone = not self.account.others and self.account.permits >= self.gates.cap
        if alone and self._ticks % RENEW_ALONE_EVERY:
            return
        await self.account.renew()

    def pause(self, why: str) -> None:
        """Pause without having been asked; control.json then says so, so a new cap does not resume."""
        if self._state != "running":
            return
        self.gates.pause()
        self._state = "paused"
        control.change(self.control_file, state="paused")
        self._seen = self._written()
        self.books.emit(ev.Control(at=timestamp(), state="paused", limit=self.gates.cap, why=why))

    def _written(self) -> int:
        try:
            return self.control_file.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _obey(self, desired: control.Desired) -> None:
        if desired.limit is not None and desired.limit != self.gates.cap:
            self.gates.set_cap(max(1, min(desired.limit, self.cap or desired.limit)))
            self.on_change()
        if desired.state == "stopping":
            self.on_stop()
            return
        if desired.state == "paused" and self._state != "paused":
            self.gates.pause()
        elif desired.state == "running" and self._state == "paused":
            self.on_resume()
            self.gates.resume()
        self._state = desired.state
        self.books.emit(ev.Control(at=timestamp(), state=desired.state, limit=self.gates.cap))

    def _show_gates(self) -> None:
        now = time.monotonic()
        crowded_out = self.account.others > 0 and self.account.permits < 1 and self._state != "paused"
        for number, change in enumerate(self.gates.changes(now)):
            if crowded_out:
                change = msgspec.structs.replace(change, limit=0, why=ev.NO_PLACE)
            closed: float = change.closed_for_s
            # A long wait is told again where its end moves; a short one is over before anybody reads of it.
            until = round(now + closed) if closed >= 1 else closed > 0
            shape = (change.limit, change.in_flight, until, change.why, *self._money())
            if self._shown.get(number) != shape:
                self._shown[number] = shape
                self.books.emit(self._with_account(change))

    def _money(self) -> tuple[int, ...]:
        """The account as coarsely as a gauge shows it, so that no event is written for a token."""
        account = self.account
        step = max(1, (account.budget or 0) // GAUGE_STEPS)
        reserved = 0 if account.budget is None else account.reserved // step
        return reserved, account.spent // step if account.budget else 0, account.permits, account.others

    def _with_account(self, change: ev.GateChanged) -> ev.GateChanged:
        account = self.account
        return msgspec.structs.replace(
            change,
            reserved_tokens=account.reserved,
            spent_today=account.spent,
            permits=account.permits,
            others=account.others,
        )
