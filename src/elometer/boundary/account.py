"""The account of one key in this process: reserve the worst case, settle with what was used.

Between contacts with the book it lives on its lease, so a call costs no transaction of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

from elometer.boundary.book import AccountBook, Grant, Limits, Standing
from elometer.core.clock import utc_now
from elometer.core.errors import BudgetStop
from elometer.core.text import gettext as _

RETRY_S = 0.1


def day_of(moment: datetime, zone: str) -> str:
    """The calendar day of a moment in a time zone: `2026-11-29`."""
    return moment.astimezone(ZoneInfo(zone)).date().isoformat()


class KeyAccount:
    """Tokens and permits of one key.

    `spent` is the key's of today over all processes, `reserved` this process's for calls that are not
    settled. Over all processes spent + reserved never passes the budget, except by what a server itself used
    beyond a call's worst case. `permits` is how many calls this process may have in flight; `occupied` tells
    how many it has, and `on_permits` is told at once where they change: what it lets through must not exceed
    what the book was last told.
    """

    def __init__(
        self,
        book: AccountBook,
        key_fp: str,
        *,
        budget: int | None,
        permits: int | None,
        zone: str = "UTC",
        owner: str = "",
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.budget = budget
        self.reserved = 0
        self.spent = 0
        self.permits = 0
        self.others = 0
        self.wants = permits or 1
        self.in_flight = 0
        self.occupied: Callable[[], int] = lambda: self.in_flight
        self.on_permits: Callable[[int], None] = lambda _permits: None
        self._book = book
        self._key_fp = key_fp
        self._limits = Limits(budget, permits)
        self._zone = zone
        self._owner = owner
        self._now = now
        self._lease: int | None = None
        self._tokens = 0
        self._used = 0
        self._held_elsewhere = 0
        self._contact = asyncio.Lock()
        self._settled = asyncio.Event()
        self._waiting: list[int] = []  # worst cases of calls that wait for tokens

    async def open(self, *, spent_by_ledgers: int = 0) -> None:
        """Take a lease. `spent_by_ledgers` raises the book's sum of today where ledgers show more.

        A lease that a dead process of the same owner left is dropped uncharged: the owner's ledger already
        has an estimate for each call that was in flight.
        """
        day = self._day()
        self._lease = await asyncio.to_thread(
            self._book.open_lease, self._key_fp, day, time.time(), self._owner
        )
        await asyncio.to_thread(self._book.at_least, self._key_fp, day, spent_by_ledgers)
        await self.renew()

    async def close(self) -> None:
        """Book the last use and give the lease back."""
        async with self._contact:
            if self._lease is None:
                return
            lease, self._lease = self._lease, None
            used, self._used = self._used + self.reserved, 0
            await asyncio.shield(
                asyncio.to_thread(self._book.close_lease, lease, self._key_fp, self._day(), used)
            )

    async def renew(self) -> None:
        """Contact the book: book what was used, ask for what calls wait for.

        A cancellation ends the waiting and not the contact: what the book has taken must not be told again.
        """
        await asyncio.shield(self._renew())

    async def _renew(self) -> None:
        async with self._contact:
            if self._lease is None:
                return
            used, needs = self._used, min(self._waiting, default=0)
            standing = Standing(used, self.reserved, needs, self.occupied(), self.wants, self.permits)
            grant = await asyncio.to_thread(
                self._book.renew, self._lease, self._key_fp, self._day(), self._limits, standing, time.time()
            )
            self._take(grant, used)

    def _take(self, grant: Grant, used: int) -> None:
        self._used -= used
        self._tokens = grant.tokens
        self._held_elsewhere = grant.held_elsewhere
        self.spent = grant.spent
        self.others = grant.others
        if grant.permits != self.permits:
            self.permits = grant.permits
            self.on_permits(grant.permits)

    @property
    def most_permits(self) -> int | None:
        """Calls that the key's boundary allows in flight, over all processes."""
        return self._limits.permits

    def fits(self, tokens: int) -> bool:
        """True where that many further tokens are within today's budget, as far as this process knows."""
        return self.budget is None or self.spent + self._used + self.reserved + tokens <= self.budget

    async def reserve(self, tokens: int) -> None:
        """Take `tokens` out of today's budget, waiting for settlements here and elsewhere where needed.

        Raises BudgetStop where they cannot fit any more today.
        """
        if self.budget is None:
            self.reserved += tokens
            return
        if self.reserved + self._used + tokens > self._tokens:
            self._waiting.append(tokens)
            try:
                await self._room_for(tokens)
            finally:
                self._waiting.remove(tokens)
        self.reserved += tokens

    async def _room_for(self, tokens: int) -> None:
        while True:
            self._settled.clear()
            await self.renew()
            if self.reserved + self._used + tokens <= self._tokens:
                return
            if not self.reserved and not self._used and not self._held_elsewhere:
                raise self._used_up(tokens)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), RETRY_S)

    def settle(self, reserved: int, used: int) -> None:
        """Give a reservation back and book what was used."""
        self.reserved -= reserved
        self._used += used
        self._settled.set()

    def _day(self) -> str:
        return day_of(self._now(), self._zone)

    def _used_up(self, tokens: int) -> BudgetStop:
        evidence = _("{spent:,} of {budget:,} tokens spent; the next call may need {tokens:,}.")
        return BudgetStop(
            _("The daily token budget of this key is used up."),
            evidence=evidence.format(spent=self.spent, budget=self.budget or 0, tokens=tokens),
            fix=_("Run the same command tomorrow; it goes on where this start ended."),
        )
