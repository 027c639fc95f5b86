"""The gate in virtual time. The simulated gateway (K places, a token bucket, refusals that cost 80 ms, storms) and
the thresholds are those of the measurements on which the gate's rules rest."""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
from collections.abc import Callable
from typing import Any

import pytest
from gate_simulation import Gateway, drive, in_virtual_time, now

from elometer.boundary.adaptive import AdaptiveGate
from elometer.boundary.gate import FixedGate
from elometer.core.limits import GateClosed


def simulate(seed: int, calls: int = 2000, **options: Any) -> tuple[float, float, Gateway]:
    """Seconds until all calls are answered, refusals per success, and the gateway."""
    draw = random.Random(seed)
    gateway = Gateway(draw, **options)

    async def work() -> float:
        gate = AdaptiveGate(256, clock=now, draw=draw.random)
        await asyncio.gather(*(drive(gate, gateway) for _ in range(calls)))
        assert gate.status().in_flight == 0
        return now()

    done = in_virtual_time(work)
    return done, (gateway.counts[429] + gateway.counts[529]) / gateway.counts[200], gateway


def medians(**options: Any) -> tuple[float, float]:
    """Medians over seeds of seconds and of refusals per success; every call of every seed was answered."""
    trials = [simulate(seed, **options) for seed in range(5)]
    assert all(gateway.counts[200] == 2000 for _done, _refused, gateway in trials)
    return statistics.median(trial[0] for trial in trials), statistics.median(trial[1] for trial in trials)


@pytest.mark.parametrize("mute", [False, True])
def test_plain_limit(mute: bool) -> None:
    # Reference policy: 123 s of an ideal 100, 0 given up, 0.02 refusals per success.
    done, refused = medians(mute=mute)
    assert refused <= 0.02
    assert done <= 126


def test_storm_of_overload_gives_nothing_up() -> None:
    # Reference policy: 243 s of an ideal 160, 0.07 refusals per success (and up to 8 given up by its try limit).
    done, refused = medians(storm=(20.0, 80.0), mute=True)
    assert refused <= 0.075
    assert done <= 245


def test_two_models_do_not_set_each_others_pace() -> None:
    # Reference: 96 s for the fast model with a gate each, 321 s with one for both.
    draw = random.Random(1)
    fast, slow = Gateway(draw), Gateway(draw, rate=2.0, burst=2.0)

    async def work() -> float:
        gates = {id(server): AdaptiveGate(256, clock=now, draw=draw.random) for server in (fast, slow)}
        fast_done = 0.0

        async def one(server: Gateway) -> None:
            nonlocal fast_done
            await drive(gates[id(server)], server)
            if server is fast:
                fast_done = now()

        await asyncio.gather(*(one(slow if i % 4 == 0 else fast) for i in range(2000)))
        return fast_done

    assert in_virtual_time(work) <= 105


@pytest.mark.parametrize("places", [3, 10])
@pytest.mark.parametrize("fixed", [True, False])
def test_missing_places_are_retried_when_a_call_ends(places: int, fixed: bool) -> None:
    # The server says 60 s; its places come free after about 2.4 s each (the mean of its lognormal).
    draw = random.Random(2)
    gateway = Gateway(draw, places=places, slots_only=True)

    async def work() -> float:
        gate = (
            FixedGate(32, clock=now, draw=draw.random)
            if fixed
            else AdaptiveGate(32, clock=now, draw=draw.random)
        )
        await asyncio.gather(*(drive(gate, gateway) for _ in range(400)))
        return now()

    done = in_virtual_time(work)
    assert gateway.peak == places
    assert done <= 400 / places * 2.4 * 1.1
    # The first burst shows how many places there are; later tries for one more become rare.
    assert gateway.counts[429] <= 32 - places + 12


def test_a_place_that_comes_free_for_good_is_found_again() -> None:
    draw = random.Random(3)
    gateway = Gateway(draw, places=4, slots_only=True)

    async def work() -> int:
        gate = FixedGate(16, clock=now, draw=draw.random)
        calls = [asyncio.create_task(drive(gate, gateway)) for _ in range(3000)]
        await asyncio.sleep(60)
        gateway.places = 16
        await asyncio.gather(*calls)
        return gate.status().limit

    assert in_virtual_time(work) == 16
    assert gateway.peak == 16


def test_at_once_is_heeded_the_first_time_only() -> None:
    async def work() -> list[float]:
        gate = FixedGate(1, clock=now, draw=lambda: 0.0)
        times: list[float] = []
        for _ in range(4):
            async with gate.permit() as permit:
                times.append(now())
                await asyncio.sleep(0.1)
                permit.refused(0.001, why="rate_limit")
        return times

    first, second, third, fourth = in_virtual_time(work)
    assert second - first == pytest.approx(0.101)
    # 0.1 s on the wire, then 0.1 s doubled with each refusal in a row.
    assert third - second == pytest.approx(0.1 + 0.4) and fourth - third == pytest.approx(0.1 + 0.8)


def test_a_place_held_by_somebody_else_is_not_hammered() -> None:
    async def work() -> list[float]:
        gate = FixedGate(4, clock=now, draw=lambda: 0.0)
        times: list[float] = []
        for _ in range(4):
            async with gate.permit() as permit:
                times.append(now())
                permit.refused(0.0, why="concurrency_limit")
        return times

    assert in_virtual_time(work) == pytest.approx([0.0, 1.0, 3.0, 7.0])


def test_one_burst_cuts_once() -> None:
    async def work() -> int:
        gate = AdaptiveGate(100, clock=now, start=20, draw=lambda: 0.0)

        async def refused() -> None:
            async with gate.permit() as permit:
                await asyncio.sleep(0.08)
                permit.refused(1.0, why="rate_limit")

        await asyncio.gather(*(refused() for _ in range(20)))
        return gate.status().limit

    assert in_virtual_time(work) == 16


def test_growth_doubles_until_the_first_refusal_and_then_adds() -> None:
    async def work() -> list[int]:
        gate = AdaptiveGate(64, clock=now, start=4, draw=lambda: 0.0)
        limits: list[int] = []
        refuse = [False]

        async def call() -> None:
            async with gate.permit() as permit:
                await asyncio.sleep(1.0)
                if refuse[0]:
                    refuse[0] = False
                    permit.refused(0.5, why="rate_limit")

        tasks = [asyncio.create_task(call()) for _ in range(600)]
        for second in range(9):
            await asyncio.sleep(0.5 if second == 0 else 1.0)
            limits.append(gate.status().limit)
            refuse[0] = second == 3
        await asyncio.gather(*tasks)
        return limits

    limits = in_virtual_time(work)
    # Doubling per round of one second; one refusal among 32 in flight; then steps of 5 % of about 26.
    assert limits[:4] == [4, 8, 16, 32]
    assert limits[4] == 25
    steps = [after - before for before, after in itertools.pairwise(limits[4:])]
    assert all(0 <= step <= 2 for step in steps) and sum(steps) >= 2


def test_a_server_failure_stops_growth_and_cuts_nothing() -> None:
    async def work() -> int:
        gate = AdaptiveGate(64, clock=now, start=4)
        for _ in range(40):
            async with gate.permit() as permit:
                permit.overloaded()
        return gate.status().limit

    assert in_virtual_time(work) == 4


def test_retries_go_first_and_in_order() -> None:
    async def work() -> list[str]:
        gate = FixedGate(1, clock=now)
        order: list[str] = []

        async def enter(name: str, retry: bool) -> None:
            async with gate.permit(retry=retry):
                order.append(name)
                await asyncio.sleep(1)

        tasks = [
            asyncio.create_task(enter(n, r))
            for n, r in (("a", False), ("b", False), ("c", True), ("d", True))
        ]
        await asyncio.gather(*tasks)
        return order

    assert in_virtual_time(work) == ["a", "c", "d", "b"]


def test_not_before_holds_everyone() -> None:
    async def work() -> list[float]:
        gate = FixedGate(8, clock=now, draw=lambda: 1.0)
        async with gate.permit() as permit:
            permit.refused(20.0, why="rate_limit")
        status = gate.status()
        assert (status.closed_until, status.why) == (pytest.approx(22.0), "rate_limit")
        times: list[float] = []

        async def enter() -> None:
            async with gate.permit():
                times.append(now())

        await asyncio.gather(*(enter() for _ in range(3)))
        return times

    assert in_virtual_time(work) == pytest.approx([22.0] * 3)


def test_half_open_after_two_refusals_in_a_row() -> None:
    async def work() -> int:
        gate = FixedGate(8, clock=now, draw=lambda: 0.0)
        for _ in range(2):
            async with gate.permit() as permit:
                await asyncio.sleep(0.1)
                permit.refused(1.0, why="overloaded")
        running = peak = 0

        async def enter() -> None:
            nonlocal running, peak
            async with gate.permit():
                running += 1
                peak = max(peak, running)
                await asyncio.sleep(1.0)
                running -= 1

        first = asyncio.create_task(enter())
        rest = [asyncio.create_task(enter()) for _ in range(4)]
        await asyncio.sleep(1.5)
        during = peak
        await asyncio.gather(first, *rest)
        assert peak == 4
        return during

    assert in_virtual_time(work) == 1


def test_too_long_a_wait_shuts_the_gate_for_all() -> None:
    async def work() -> None:
        gate = FixedGate(1, clock=now, draw=lambda: 0.0)

        async def wait() -> None:
            async with gate.permit():
                raise AssertionError("admitted")

        async with gate.permit() as permit:
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0)
            permit.refused(3600.0, why="rate_limit")
        with pytest.raises(GateClosed) as closed:
            await waiting
        assert closed.value.until == pytest.approx(3600.0)
        with pytest.raises(GateClosed):
            async with gate.permit():
                pass
        assert gate.status().in_flight == 0 and gate.status().waiting == 0
        await asyncio.sleep(3601)
        async with gate.permit():
            pass

    in_virtual_time(work)


def test_pause_and_set_limit() -> None:
    async def work() -> None:
        gate = FixedGate(2, clock=now)
        gate.pause()
        entered: list[float] = []

        async def enter() -> None:
            async with gate.permit():
                entered.append(now())
                await asyncio.sleep(10)

        tasks = [asyncio.create_task(enter()) for _ in range(4)]
        await asyncio.sleep(5)
        assert entered == [] and gate.status().why == "paused" and gate.status().waiting == 4
        gate.resume()
        await asyncio.sleep(1)
        assert len(entered) == 2
        gate.set_limit(3)
        await asyncio.sleep(1)
        assert len(entered) == 3
        await asyncio.gather(*tasks)
        with pytest.raises(ValueError):
            gate.set_limit(0)

    in_virtual_time(work)


@pytest.mark.parametrize("step", range(12))
@pytest.mark.parametrize(
    "make", [lambda: FixedGate(2, clock=now), lambda: AdaptiveGate(2, clock=now, start=1)]
)
def test_cancelling_at_each_await_gives_every_place_back(make: Callable[[], FixedGate], step: int) -> None:
    async def work() -> None:
        gate = make()

        async def enter(refuse: bool) -> None:
            async with gate.permit() as permit:
                await asyncio.sleep(0)
                await asyncio.sleep(0.5)
                if refuse:
                    permit.refused(1.0, why="rate_limit")

        tasks = [asyncio.create_task(enter(i % 3 == 2)) for i in range(6)]
        for _ in range(step):
            await asyncio.sleep(0)
            if step > 6:
                await asyncio.sleep(0.25)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        status = gate.status()
        assert (status.in_flight, status.waiting) == (0, 0)
        async with gate.permit():
            assert gate.status().in_flight == 1
        assert gate.status().in_flight == 0

    in_virtual_time(work)


def test_a_place_given_in_the_turn_of_a_cancellation_goes_on() -> None:
    async def work() -> None:
        gate = FixedGate(1, clock=now)
        release = asyncio.Event()

        async def hold() -> None:
            async with gate.permit():
                await release.wait()

        async def enter() -> None:
            async with gate.permit():
                pass

        holder = asyncio.create_task(hold())
        await asyncio.sleep(0)
        doomed, heir = asyncio.create_task(enter()), asyncio.create_task(enter())
        await asyncio.sleep(0)
        release.set()
        await holder
        doomed.cancel()
        await asyncio.wait_for(heir, 1)
        assert doomed.cancelled() or doomed.done()
        assert gate.status().in_flight == 0

    in_virtual_time(work)


def test_an_exception_inside_gives_the_place_back() -> None:
    async def work() -> None:
        gate = FixedGate(1, clock=now)
        with pytest.raises(ZeroDivisionError):
            async with gate.permit():
                raise ZeroDivisionError
        assert gate.status().in_flight == 0

    in_virtual_time(work)
