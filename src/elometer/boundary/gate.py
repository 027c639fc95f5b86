"""The gate of one (key, model): how many attempts are on the wire, and when the next may go.

A permit is held only while an attempt is on the wire. All calls share one not-before time, so that a refusal
of one holds back all: freeing a place during a wait without it is worse than holding the place (simulated in
tests/boundary/test_gate.py). The limit is fixed here and found in `boundary.adaptive`. A wait that the
server names is believed; our own, doubling one is for refusals that name none.

Everything runs on one event loop; times are seconds of the injected clock.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import timedelta

from elometer.boundary.chance import LONGEST_CHANCE_WAIT_S
from elometer.core.clock import utc_now
from elometer.core.limits import GateClosed, GateStatus
from elometer.core.text import gettext as _

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]

JITTER = 0.1  # waits are lengthened by up to this share, so that nobody comes back in step
FIRST_WAIT_S = 0.5
LONGEST_OWN_WAIT_S = 30.0
# A shorter wait means "at once"; a server that says so and refuses again is given time all the same.
AT_ONCE_S = 0.02
AFTER_AT_ONCE_S = 0.1  # … doubled with each refusal in a row
HALF_OPEN_AFTER = 2  # refusals in a row, after which one probe goes at a time
MOST_PATIENCE = 64  # clean rounds, at most, before one more place than the server allowed is tried


class GatePermit:
    """One place on the wire: an async context manager that waits for it and gives it back."""

    __slots__ = ("_gate", "_light", "_retry", "_verdict", "sent")

    def __init__(self, gate: FixedGate, retry: bool) -> None:
        self._gate = gate
        self._retry = retry
        self._verdict: tuple[str, float | None, str] | None = None
        self._light = False
        self.sent = 0.0

    async def __aenter__(self) -> GatePermit:
        self._light = await self._gate._enter(self._retry)
        self.sent = self._gate.clock()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if self._verdict is not None:
            word, wait, why = self._verdict
            if word == "refused":
                self._gate._refuse(self.sent, wait, why, light=self._light)
            else:
                self._gate._leave(clean=None)
        elif kind is None:
            self._gate._leave(clean=self.sent, light=self._light)
        else:
            self._gate._leave(clean=None)

    def refused(self, wait_seconds: float | None, *, why: str) -> None:
        """The server refused this attempt for load; see core.limits.Permit."""
        self._verdict = ("refused", wait_seconds, why)

    def overloaded(self) -> None:
        """The server failed: no growth for this round, no cut."""
        self._verdict = ("overloaded", None, "")


class FixedGate:
    """At most `limit` attempts at once, with the shared not-before time.

    `longest_wait_s`: where the server asks for more, the gate shuts: those who wait get GateClosed, and so
    does everyone who comes before that moment.
    """

    def __init__(
        self,
        limit: int,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        *,
        longest_wait_s: float = 120.0,
        draw: Callable[[], float] = random.random,
    ) -> None:
        if limit < 1:
            raise ValueError("a gate admits at least one attempt")
        self.clock = clock
        self._sleep = sleep
        self._draw = draw
        self._limit = float(limit)
        self._longest_wait_s = longest_wait_s
        self._in_flight = 0
        self._retries: deque[asyncio.Future[bool]] = deque()
        self._fresh: deque[asyncio.Future[bool]] = deque()
        self._not_before = float("-inf")
        self._shut_until = float("-inf")
        self._why = ""
        # Refusals in a row, of attempts sent after the last one that counted; an answer ends the row.
        self._row = 0
        self._row_at = float("-inf")
        self._heeding = False  # the last refusal named a short wait, and nobody went since
        self._last_cut = float("-inf")
        # How many places the server was seen to have; found from refusals for a missing place.
        self._ceiling = math.inf
        self._patience = 1
        self._clean_at_ceiling = 0
        self._lifted = False  # the last place tried was not refused yet
        self._slot_missing = False
        self._slot_row = 0
        self._paused = False
        self._waker: asyncio.Task[None] | None = None

    def permit(self, *, retry: bool = False) -> GatePermit:
        """A place for one attempt; retries go before attempts that have not been tried."""
        return GatePermit(self, retry)

    def status(self) -> GateStatus:
        """What the gate is doing now."""
        now = self.clock()
        until = max(self._not_before, self._shut_until)
        closed = until if until > now else None
        if self._paused:
            why = "paused"
        elif closed is not None or self._row >= HALF_OPEN_AFTER or self._slot_missing:
            why = self._why
        else:
            why = ""
        waiting = len(self._retries) + len(self._fresh)
        return GateStatus(self._in_flight, self._places(), waiting, closed, why)

    def set_limit(self, limit: int) -> None:
        """Change the limit; attempts on the wire stay there."""
        if limit < 1:
            raise ValueError("a gate admits at least one attempt")
        self._limit = float(limit)
        self._pump()

    def pause(self) -> None:
        """Admit nobody until `resume`; attempts on the wire end as they would."""
        self._paused = True

    def resume(self) -> None:
        """Admit again."""
        self._paused = False
        self._pump()

    # -- entering and leaving --------------------------------------------------------------------------------

    async def _enter(self, retry: bool) -> bool:
        """Wait for a place; True for the first after a named wait that finds most places empty."""
        self._raise_if_shut()
        if not self._retries and not self._fresh and self._may_admit():
            return self._admit()
        place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        queue = self._retries if retry else self._fresh
        queue.append(place)
        self._pump()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                # The place was given in the same turn in which the task was cancelled: it goes back.
                self._in_flight -= 1
            elif place in queue:
                queue.remove(place)
            self._pump()
            raise

    def _leave(self, *, clean: float | None, light: bool = False) -> None:
        """An attempt left the wire; `clean` is when it was sent, where the server answered it well."""
        self._in_flight -= 1
        self._slot_missing = False
        if clean is not None:
            if light:
                self._learn(refused=False)
            self._slot_row = 0
            self._row = 0
            if self._ceiling < self._limit:
                self._lift_ceiling()
            else:
                self._grow(clean)
        self._pump()

    def _refuse(self, sent: float, wait: float | None, why: str, *, light: bool) -> None:
        now = self.clock()
        self._in_flight -= 1
        self._why = why
        if wait == 0.0:
            self._miss_slot(now)
        else:
            if light:
                self._learn(refused=True)
            self._refuse_load(sent, wait, now)
        self._pump()

    def _refuse_load(self, sent: float, wait: float | None, now: float) -> None:
        """Too fast: nobody goes before the server's own moment, or before ours where it names none."""
        if sent > self._last_cut and self._cut(sent):
            self._last_cut = now
        if sent > self._row_at:
            self._row_at = now
            self._row += 1
        asked = wait if wait is not None and wait >= AT_ONCE_S else self._own_wait(wait)
        self._heeding = asked == wait and asked <= LONGEST_CHANCE_WAIT_S
        if asked > self._longest_wait_s:
            self._shut(now + asked)
        self._hold_until(now + asked * (1.0 + JITTER * self._draw()))

    def _own_wait(self, wait: float | None) -> float:
        """Seconds where the server named none, or "at once"; they double with each refusal in a row."""
        doubled = 2.0 ** min(self._row, 10)
        if wait is None:
            return min(LONGEST_OWN_WAIT_S, FIRST_WAIT_S * doubled)
        return min(
            LONGEST_OWN_WAIT_S, max(wait, wait if self._row < HALF_OPEN_AFTER else AFTER_AT_ONCE_S * doubled)
        )

    def _miss_slot(self, now: float) -> None:
        """Too many at once: the next goes when one of ours ends, and no more than the server took this time.

        Where none of ours is left, somebody else holds the places: then time has to pass.
        """
        if self._ceiling <= self._in_flight + 1:
            self._patience = min(MOST_PATIENCE, self._patience * 2)
        self._ceiling = min(self._ceiling, max(1, self._in_flight))
        self._clean_at_ceiling = 0
        self._lifted = False
        self._slot_missing = self._in_flight > 0
        if self._slot_missing:
            return
        self._slot_row += 1
        own = min(LONGEST_OWN_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._slot_row, 6))
        self._hold_until(now + own * (1.0 + JITTER * self._draw()))

    def _lift_ceiling(self) -> None:
        """Try one place more after enough clean rounds.

        Each refusal doubles how many that are; a place that held makes it one round again.
        """
        self._clean_at_ceiling += 1
        needed = self._ceiling if self._lifted else self._ceiling * self._patience
        if self._clean_at_ceiling >= needed:
            self._patience = 1 if self._lifted else self._patience
            self._lifted = True
            self._clean_at_ceiling = 0
            self._ceiling += 1

    def _hold_until(self, moment: float) -> None:
        self._not_before = max(self._not_before, moment)

    def _shut(self, until: float) -> None:
        self._shut_until = max(self._shut_until, until)
        for queue in (self._retries, self._fresh):
            while queue:
                place = queue.popleft()
                if not place.done():
                    place.set_exception(self._closed_error())

    def _raise_if_shut(self) -> None:
        if self.clock() < self._shut_until:
            raise self._closed_error()

    def _closed_error(self) -> GateClosed:
        wait = max(0.0, self._shut_until - self.clock())
        return GateClosed(
            _("the server asks to stay away for {seconds:.0f} s, until {moment}").format(
                seconds=wait, moment=f"{utc_now() + timedelta(seconds=wait):%Y-%m-%d %H:%M:%S} UTC"
            ),
            until=self._shut_until,
            evidence=self._why,
            fix=_("start again after that; what is done is kept"),
        )

    # -- admission -------------------------------------------------------------------------------------------

    def _places(self) -> int:
        return max(1, int(min(self._limit, self._ceiling)))

    def _may_admit(self) -> bool:
        if self._paused or self._slot_missing or self.clock() < self._not_before:
            return False
        return self._in_flight < (1 if self._row >= HALF_OPEN_AFTER else self._places())

    def _admit(self) -> bool:
        light = self._heeding and 2 * self._in_flight < self._places()
        self._heeding = False
        self._in_flight += 1
        return light

    def _pump(self) -> None:
        while (self._retries or self._fresh) and self._may_admit():
            place = (self._retries or self._fresh).popleft()
            if not place.done():
                place.set_result(self._admit())
        if (self._retries or self._fresh) and self.clock() < self._not_before:
            if self._waker is None:
                self._waker = asyncio.get_running_loop().create_task(self._wake())
        elif self._waker is not None and not (self._retries or self._fresh):
            self._waker.cancel()
            self._waker = None

    async def _wake(self) -> None:
        while (wait := self._not_before - self.clock()) > 0:
            await self._sleep(wait)
        self._waker = None
        self._pump()

    # -- adaptation ------------------------------------------------------------------------------------------

    def _grow(self, sent: float) -> None:
        """A fixed gate does not grow."""

    def _cut(self, sent: float) -> bool:
        """Whether a refusal is a reason to admit fewer; a fixed gate only waits."""
        return True

    def _learn(self, *, refused: bool) -> None:
        """A fixed gate draws nothing from attempts that found places empty."""
