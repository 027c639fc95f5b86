"""The read timeout of a connection: how long a server may be silent, on one timer for all its packets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp.client_exceptions import SocketTimeoutError

from elometer.wire.transport import _response_handler


@dataclass
class Timer:
    at: float
    callback: Callable[[], None]
    cancelled: bool = False

    def when(self) -> float:
        return self.at

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Clock:
    """A loop of which a connection uses the time and the timers alone."""

    now: float = 0.0
    timers: list[Timer] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(at, callback))
        return self.timers[-1]

    def create_future(self) -> Any:
        return asyncio.Future(loop=asyncio.new_event_loop())

    def advance(self, to: float) -> None:
        for timer in [timer for timer in self.timers if not timer.cancelled and timer.at <= to]:
            self.timers.remove(timer)
            self.now = timer.at
            timer.callback()
        self.now = to


@pytest.fixture
def clock() -> Clock:
    return Clock()


def connection(clock: Clock, seconds: float | None) -> Any:
    handler = _response_handler()(loop=clock)  # type: ignore[arg-type]
    handler.read_timeout = seconds
    return handler


def test_packets_in_time_share_one_timer(clock: Clock) -> None:
    handler = connection(clock, 10.0)
    for moment in range(100):
        clock.advance(moment / 10)
        handler.data_received(b"x")
    assert len(clock.timers) == 1
    clock.advance(15.0)
    assert handler.exception() is None  # the last packet came at 9.9


def test_silence_ends_the_connection_after_exactly_the_timeout(clock: Clock) -> None:
    handler = connection(clock, 10.0)
    handler.data_received(b"x")
    clock.advance(4.0)
    handler.data_received(b"x")
    clock.advance(13.9)
    assert handler.exception() is None
    clock.advance(14.0)
    assert isinstance(handler.exception(), SocketTimeoutError)


def test_a_shorter_timeout_holds_at_once(clock: Clock) -> None:
    handler = connection(clock, 600.0)
    handler.start_timeout()
    handler.read_timeout = 5.0
    handler.data_received(b"x")
    clock.advance(5.0)
    assert isinstance(handler.exception(), SocketTimeoutError)


@pytest.mark.parametrize("seconds", [None, 0])
def test_without_a_timeout_there_is_no_timer(clock: Clock, seconds: float | None) -> None:
    handler = connection(clock, seconds)
    handler.data_received(b"x")
    assert clock.timers == []
