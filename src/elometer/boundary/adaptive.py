"""The gate that finds its limit by itself: slow start, then additive growth and multiplicative cuts (AIMD).

It reaches about 0.8 of the rate that a well-chosen `FixedGate` reaches.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from elometer.boundary.chance import LightAttempts, Yield
from elometer.boundary.gate import Clock, FixedGate, Sleep

CHANCE_WINDOW = 32  # attempts over which refusals are held against those that chance explains


class AdaptiveGate(FixedGate):
    """Finds the limit between 1 and `limit_max` by itself.

    It doubles per clean round until the first refusal, then grows by max(1, 5 %) per clean round in which at
    least 80 % of the limit was in use. A refusal cuts the limit to 80 %, but only if the refused attempt was
    sent after the last cut: one burst cuts once. Refusals that the load does not explain (`boundary.chance`)
    cut nothing.
    """

    def __init__(
        self,
        limit_max: int,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        *,
        start: int = 8,
        cut: float = 0.8,
        growth: float = 0.05,
        saturation: float = 0.8,
        longest_wait_s: float = 120.0,
        draw: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(min(start, limit_max), clock, sleep, longest_wait_s=longest_wait_s, draw=draw)
        self._limit_max = limit_max
        self._cut_factor = cut
        self._growth = growth
        self._saturation = saturation
        self._clean = 0
        self._slow_start = True
        self._light = LightAttempts()
        self._yield = Yield()
        self._window_from = float("-inf")
        self._window_sent = 0
        self._window_refused = 0

    def set_limit(self, limit: int) -> None:
        """Change the highest limit; the present one follows downwards at once, upwards by growth."""
        if limit < 1:
            raise ValueError("a gate admits at least one attempt")
        self._limit_max = limit
        self._limit = min(self._limit, float(limit))
        self._pump()

    def _admit(self) -> bool:
        self._window_sent += 1
        return super()._admit()

    def _grow(self, sent: float) -> None:
        self._yield.answered(self.clock())
        if sent <= self._last_cut or not self._saturated():
            return
        self._clean += 1
        if self._clean < self._places():
            return
        self._clean = 0
        step = self._limit if self._slow_start else max(1.0, self._growth * self._limit)
        self._limit = min(float(self._limit_max), self._limit + step)

    def _saturated(self) -> bool:
        """Whether the limit is what holds calls back; refusals by chance leave places empty meanwhile."""
        if self._light.share > 0.0 and (self._retries or self._fresh):
            return True
        return self._in_flight + 1 >= self._places() * self._saturation

    def _cut(self, sent: float) -> bool:
        if self._light.share > 0.0 and not self._beyond(sent):
            return False
        self._limit = max(1.0, self._limit * self._cut_factor)
        self._clean = 0
        self._slow_start = False
        self._new_window()
        return True

    def _beyond(self, sent: float) -> bool:
        """Count a refusal in its window; whether there are more than chance explains."""
        self._window_refused += sent > self._window_from
        beyond = not self._light.explains(self._window_refused, self._window_sent)
        if beyond or self._window_sent >= CHANCE_WINDOW:
            self._close_window(cut=beyond)
        return beyond

    def _close_window(self, *, cut: bool) -> None:
        if self._light.exceeds(self._window_refused, self._window_sent):
            self._light.forget()
        elif self._limit < self._limit_max and not self._yield.pays(self._limit, cut=cut):
            self._light.take_back()
        self._new_window()

    def _new_window(self) -> None:
        self._window_from = self.clock()
        self._window_sent = self._window_refused = 0

    def _learn(self, *, refused: bool) -> None:
        before = self._light.share
        self._light.came_back(refused=refused)
        if before == 0.0 < self._light.share:
            # The cuts so far answered refusals that had nothing to do with the limit.
            self._slow_start = True
            self._yield.mark(self._limit)
            self._new_window()
