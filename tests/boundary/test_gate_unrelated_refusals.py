"""Refusals in virtual time that have little or nothing to do with our load. Bounds are closed forms of the
scenario: what L places give when nothing but the named waits holds them back."""

from __future__ import annotations

import asyncio
import collections
import math
import random
import statistics
from collections.abc import Callable

import pytest
from gate_simulation import drive, in_virtual_time, now

from elometer.boundary.adaptive import AdaptiveGate
from elometer.boundary.chance import LightAttempts, Yield
from elometer.boundary.gate import FixedGate

REFUSAL_S = 0.08
NAMED_S = 0.2
PLACES = 16
SPREAD = 0.3


class Fickle:
    """Refuses where `refuses(moment)` says so and names a short wait; else answers in about `seconds`."""

    def __init__(
        self,
        draw: random.Random,
        refuses: Callable[[float], bool],
        seconds: float = 0.5,
        named: float | None = NAMED_S,
    ) -> None:
        self.draw, self.refuses, self.seconds, self.named = draw, refuses, seconds, named
        self.counts: collections.Counter[int] = collections.Counter()
        self.running = self.peak = 0
        self.sent: list[float] = []

    async def call(self) -> tuple[int, float | None]:
        self.sent.append(now())
        if self.refuses(now()):
            self.counts[429] += 1
            await asyncio.sleep(REFUSAL_S)
            return 429, self.named
        self.running += 1
        self.peak = max(self.peak, self.running)
        await asyncio.sleep(self.draw.lognormvariate(math.log(self.seconds), SPREAD))
        self.running -= 1
        self.counts[200] += 1
        return 200, None

    @property
    def refused_per_answer(self) -> float:
        return self.counts[429] / self.counts[200]


class Bucket(Fickle):
    """A token bucket that names the exact wait, however short, and at most `places` at once."""

    def __init__(
        self,
        draw: random.Random,
        rate: float,
        places: int = 10**6,
        seconds: float = 2.0,
        least: float = 0.001,
    ) -> None:
        super().__init__(draw, self._limit, seconds)
        self.rate, self.places, self.least = rate, places, least
        self.tokens, self.at = rate, 0.0

    def _limit(self, moment: float) -> bool:
        self.tokens = min(self.rate, self.tokens + (moment - self.at) * self.rate)
        self.at = moment
        if self.running >= self.places:
            self.named = NAMED_S
            return True
        if self.tokens < 1:
            self.named = max(self.least, (1 - self.tokens) / self.rate)
            return True
        self.tokens -= 1
        return False


def mean_s(seconds: float) -> float:
    """Mean of the lognormal latency."""
    return seconds * math.exp(SPREAD**2 / 2)


def run(gates: list[FixedGate], server: Fickle, calls: int) -> float:
    async def work() -> float:
        await asyncio.gather(*(drive(gates[i % len(gates)], server) for i in range(calls)))
        assert all(gate.status().in_flight == 0 for gate in gates)
        return now()

    done = in_virtual_time(work)
    assert server.counts[200] == calls
    return float(done)


def with_chance(share: float, seconds: float, *, fixed: bool, calls: int = 1000) -> tuple[float, float]:
    """Medians over seeds of the seconds and of refusals per answer."""
    trials = []
    for seed in range(5):
        draw = random.Random(seed)
        server = Fickle(draw, lambda _moment, draw=draw: draw.random() < share, seconds)  # type: ignore[misc]
        kind = FixedGate if fixed else AdaptiveGate
        done = run([kind(PLACES, clock=now, draw=draw.random)], server, calls)
        trials.append((done, server.refused_per_answer))
    return statistics.median(t[0] for t in trials), statistics.median(t[1] for t in trials)


def held_back_by_named_waits(share: float, seconds: float, calls: int = 1000) -> float:
    """Seconds for `calls` on all places, each wave of attempts one refusal and one named wait apart.

    A place waits half a wave for its first attempt and a whole one after each of its p / (1 - p) refusals.
    """
    wave = REFUSAL_S + NAMED_S * 1.1
    return calls / PLACES * (mean_s(seconds) + wave * (0.5 + share / (1 - share)))


@pytest.mark.parametrize("seconds", [0.5, 2.0])
@pytest.mark.parametrize("share", [0.2, 0.6])
def test_a_fixed_gate_loses_nothing_but_the_named_waits(share: float, seconds: float) -> None:
    done, refused = with_chance(share, seconds, fixed=True)
    assert done <= 1.1 * held_back_by_named_waits(share, seconds)
    assert refused == pytest.approx(share / (1 - share), rel=0.15)


@pytest.mark.parametrize(
    ("share", "seconds", "times"), [(0.6, 0.5, 1.4), (0.6, 2.0, 1.4), (0.2, 0.5, 2.2), (0.2, 2.0, 3.0)]
)
def test_the_adaptive_gate_finds_out_that_its_load_is_not_the_cause(
    share: float, seconds: float, times: float
) -> None:
    # Found out from about ten attempts; rare refusals take longer to tell from a limit. One place alone
    # (where cutting at every refusal ends up) would need 16 times the bound.
    done, refused = with_chance(share, seconds, fixed=False)
    assert done <= times * held_back_by_named_waits(share, seconds)
    assert refused == pytest.approx(share / (1 - share), rel=0.15)


def test_a_named_short_wait_is_believed_however_long_the_row() -> None:
    draw = random.Random(1)
    server = Fickle(draw, lambda moment: moment < 30.0)
    run([AdaptiveGate(PLACES, clock=now, draw=draw.random)], server, 50)
    alone = [b - a for a, b in zip(server.sent, server.sent[1:], strict=False) if 1.0 < a < 30.0]
    assert max(alone) <= REFUSAL_S + NAMED_S * 1.1 + 1e-9
    # One at a time all along: no more attempts than the named waits leave room for.
    assert len(alone) <= 30.0 / (REFUSAL_S + NAMED_S)


def test_our_own_row_of_waits_ends_at_an_answer() -> None:
    async def work() -> list[float]:
        gate = AdaptiveGate(4, clock=now, draw=lambda: 0.0)
        sent = []
        for answered in (False, False, False, True, False, True):
            async with gate.permit() as permit:
                sent.append(now())
                if not answered:
                    permit.refused(None, why="overloaded")
                else:
                    await asyncio.sleep(0.01)
        return sent

    # 1, 2, 4 s; at once after the answer; 1 s again.
    assert in_virtual_time(work) == pytest.approx([0.0, 1.0, 3.0, 7.0, 7.01, 8.01])


def test_half_open_ends_at_the_first_answer() -> None:
    async def work() -> tuple[int, int]:
        gate = FixedGate(8, clock=now, draw=lambda: 0.0)
        for _ in range(3):
            async with gate.permit() as permit:
                await asyncio.sleep(REFUSAL_S)
                permit.refused(NAMED_S, why="rate_limit")

        async def answered() -> None:
            async with gate.permit():
                await asyncio.sleep(1.0)

        tasks = [asyncio.create_task(answered()) for _ in range(20)]
        await asyncio.sleep(0.5)
        during = gate.status().in_flight
        await asyncio.sleep(1.0)
        after = gate.status().in_flight
        await asyncio.gather(*tasks)
        return during, after

    assert in_virtual_time(work) == (1, 8)


def test_bursts_of_refusals_cost_their_own_time_and_few_attempts() -> None:
    # 10 s of each minute refuse everything; a burst sees one attempt per named wait.
    draw = random.Random(4)
    server = Fickle(draw, lambda moment: moment % 60.0 >= 50.0, seconds=2.0)
    done = run([AdaptiveGate(PLACES, clock=now, draw=draw.random)], server, 2000)
    bursts = math.ceil(done / 60.0)
    ideal = 2000 * mean_s(2.0) / PLACES * 60.0 / 50.0
    assert done <= 1.5 * ideal
    assert server.counts[429] <= bursts * (PLACES + 10.0 / (REFUSAL_S + NAMED_S))


def test_a_storm_that_names_short_waits_is_no_chance() -> None:
    draw = random.Random(5)
    server = Fickle(draw, lambda moment: 20.0 <= moment < 80.0, seconds=2.0)
    gate = AdaptiveGate(PLACES, clock=now, draw=draw.random)
    done = run([gate], server, 1000)
    assert done <= 60.0 + 1.6 * 1000 * mean_s(2.0) / PLACES
    assert server.counts[429] <= PLACES + 60.0 / (REFUSAL_S + NAMED_S)
    assert gate._light.share == 0.0


@pytest.mark.parametrize("gates", [1, 3])
def test_a_rate_limit_with_exact_short_waits_is_kept_to(gates: int) -> None:
    # Also where three starts press against the same limit: what others take is no chance.
    draw = random.Random(6)
    server = Bucket(draw, rate=20.0)
    done = run([AdaptiveGate(64, clock=now, draw=draw.random) for _ in range(gates)], server, 2000)
    assert done <= 1.35 * 2000 / 20.0
    assert server.refused_per_answer <= 0.025


def test_what_was_taken_for_chance_is_taken_back_where_more_places_bring_no_more_answers() -> None:
    # Three starts on a limit so low that each sees refusals at its lightest. Every step back asks for twice
    # the evidence; without it each start would go on at its full cap, with some 16 refusals per answer.
    draw = random.Random(7)
    server = Bucket(draw, rate=2.0, least=NAMED_S)
    gates = [AdaptiveGate(64, clock=now, draw=draw.random) for _ in range(3)]
    done = run(list(gates), server, 600)
    assert done <= 1.3 * 600 / 2.0
    assert server.refused_per_answer <= 2.5
    assert max(gate._limit for gate in gates) <= 16


@pytest.mark.parametrize(("places", "refused"), [(10, 0.05), (2, 0.5), (1, 1.6)])
def test_a_limit_of_places_that_is_not_called_one(places: int, refused: float) -> None:
    draw = random.Random(8)
    server = Bucket(draw, rate=1000.0, places=places)
    done = run([AdaptiveGate(64, clock=now, draw=draw.random)], server, 300 * places)
    assert server.peak == places
    assert done <= 1.3 * 300 * mean_s(2.0)
    assert server.refused_per_answer <= refused


def test_two_models_one_of_them_fickle() -> None:
    draw = random.Random(9)
    fickle = Fickle(draw, lambda _moment: draw.random() < 0.6)
    steady = Fickle(draw, lambda _moment: False)

    async def work() -> float:
        gates = {id(server): AdaptiveGate(PLACES, clock=now, draw=draw.random) for server in (fickle, steady)}
        done = 0.0

        async def one(server: Fickle) -> None:
            nonlocal done
            await drive(gates[id(server)], server)
            if server is steady:
                done = now()

        await asyncio.gather(*(one(fickle if i % 2 else steady) for i in range(1000)))
        return done

    assert in_virtual_time(work) <= 1.15 * 500 * mean_s(0.5) / PLACES + 1.0


def test_chance_is_believed_after_enough_light_attempts_only() -> None:
    light = LightAttempts()
    for refused in (True, True, False, False, False):
        light.came_back(refused=refused)
    assert light.share == 0.0
    light.came_back(refused=False)
    assert light.share == pytest.approx(2 / 6)
    # 3 standard deviations of a binomial known from six: 8 / 3 + 3 sqrt(8 · 2/9 · (1 + 8/6)) = 8.8.
    assert light.explains(8, 8)
    light.take_back()
    for refused in (True, True, False, False, False, False):
        light.came_back(refused=refused)
    assert light.share == 0.0


def test_a_long_row_is_an_outage_and_no_chance() -> None:
    light = LightAttempts()
    for _ in range(9):
        light.came_back(refused=True)
    for _ in range(8):
        light.came_back(refused=False)
    assert light.share == 0.0


def test_growth_pays_where_answers_come_faster() -> None:
    for gain, pays in ((2.0, True), (1.1, False)):
        got = Yield()
        for step in range(16):
            got.answered(float(step))
        got.mark(2.0)
        assert got.pays(4.0, cut=False)
        for step in range(16):
            got.answered(16.0 + step / gain)
        assert got.pays(4.0, cut=False) is pays
