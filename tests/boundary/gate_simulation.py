"""A gateway with limits, and a loop whose waiting costs no time: what the gate's tests run on."""

from __future__ import annotations

import asyncio
import collections
import math
import random
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

from elometer.boundary.gate import FixedGate


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose waiting costs no time."""

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())
        self.moment = 0.0
        select = self._selector.select  # type: ignore[attr-defined]

        def jump(timeout: float | None) -> Any:
            if timeout:
                self.moment += timeout
            return select(0)

        self._selector.select = jump  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.moment


def in_virtual_time(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work())
    finally:
        loop.close()


def now() -> float:
    return asyncio.get_running_loop().time()


class Gateway:
    """K in flight at most, a token bucket of `rate` per second, 60 s of 529 in a storm."""

    def __init__(
        self,
        draw: random.Random,
        places: int = 48,
        rate: float = 20.0,
        burst: float = 20.0,
        storm: tuple[float, float] | None = None,
        mute: bool = False,
        slots_only: bool = False,
    ) -> None:
        self.draw, self.places, self.rate, self.burst = draw, places, rate, burst
        self.storm, self.mute, self.slots_only = storm, mute, slots_only
        self.running = self.peak = 0
        self.tokens, self.at = burst, 0.0
        self.counts: collections.Counter[int] = collections.Counter()

    async def call(self) -> tuple[int, float | None]:
        self.tokens = min(self.burst, self.tokens + (now() - self.at) * self.rate)
        self.at = now()
        if self.storm and self.storm[0] <= now() < self.storm[1]:
            return await self.refuse(529, None)
        if self.running >= self.places:
            return await self.refuse(429, 0.0 if self.slots_only else 1.0)
        if not self.slots_only and self.tokens < 1:
            return await self.refuse(429, max(1.0, math.ceil((1 - self.tokens) / self.rate)))
        self.tokens -= 1
        self.running += 1
        self.peak = max(self.peak, self.running)
        await asyncio.sleep(min(60.0, self.draw.lognormvariate(math.log(2.0), 0.6)))
        self.running -= 1
        self.counts[200] += 1
        return 200, None

    async def refuse(self, status: int, wait: float | None) -> tuple[int, float | None]:
        self.counts[status] += 1
        await asyncio.sleep(0.08)
        return status, None if self.mute else wait


async def drive(gate: FixedGate, gateway: Gateway) -> None:
    """One call: a permit per attempt, until it is answered."""
    retry = False
    while True:
        async with gate.permit(retry=retry) as permit:
            status, wait = await gateway.call()
            if status != 200:
                permit.refused(wait, why=str(status))
        if status == 200:
            return
        retry = True
