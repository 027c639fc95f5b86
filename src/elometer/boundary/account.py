"""The token account of one key for one day: reserve the worst case, settle with what was used."""

from __future__ import annotations

import asyncio

from elometer.core.errors import BudgetStop
from elometer.core.text import gettext as _


class TokenAccount:
    """Tokens of a daily budget. `spent + reserved` never passes `budget`; None is no budget.

    A reservation that does not fit waits for settlements. When nothing is left to settle it raises
    BudgetStop, so less than one worst case stays unspent.
    """

    def __init__(self, budget: int | None, spent: int = 0) -> None:
        self.budget = budget
        self.spent = spent
        self.reserved = 0
        self._settled = asyncio.Condition()

    def fits(self, tokens: int) -> bool:
        """True where that many further tokens can be reserved now."""
        return self.budget is None or self.spent + self.reserved + tokens <= self.budget

    async def reserve(self, tokens: int) -> None:
        """Take `tokens` out of the day's budget, waiting for settlements where needed.

        Raises BudgetStop where they cannot fit any more today.
        """
        async with self._settled:
            while not self.fits(tokens):
                if not self.reserved:
                    raise BudgetStop(
                        _("The daily token budget of this key is used up."),
                        evidence=_(
                            "{spent:,} of {budget:,} tokens spent; the next call may need {tokens:,}."
                        ).format(spent=self.spent, budget=self.budget or 0, tokens=tokens),
                        fix=_("Run the same command tomorrow; it goes on where this start ended."),
                    )
                await self._settled.wait()
            self.reserved += tokens

    async def settle(self, reserved: int, used: int) -> None:
        """Give a reservation back and book what was used."""
        async with self._settled:
            self.reserved -= reserved
            self.spent += used
            self._settled.notify_all()

    def _used_up(self, tokens: int) -> BudgetStop:
        evidence = _("{spent:,} of {budget:,} tokens spent; the next call may need {tokens:,}.")
        return BudgetStop(
            _("The daily token budget of this key is used up."),
            evidence=evidence.format(spent=self.spent, budget=self.budget or 0, tokens=tokens),
            fix=_("Run the same command tomorrow; it goes on where this start ended."),
        )
