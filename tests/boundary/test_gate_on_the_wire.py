"""The real gates under the real client, against a server with three places on loopback."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter

import pytest

from elometer.boundary.adaptive import AdaptiveGate
from elometer.boundary.gate import FixedGate
from elometer.core.attempt import Attempt, Call, Message
from elometer.wire.client import GatewayClient

REPLY = json.dumps(
    {
        "choices": [{"message": {"content": "42"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
).encode()
# LiteLLM's refusal: it says a minute, but the place is free as soon as a call ends.
REFUSAL = json.dumps(
    {
        "error": {
            "message": "Limit type: max_parallel_requests. Current limit: 3",
            "type": "None",
            "code": "429",
        }
    }
).encode()
REFUSAL_HEAD = b"retry-after: 60\r\nrate_limit_type: max_parallel_requests\r\n"


class ThreePlaces:
    def __init__(self) -> None:
        self.running = self.peak = 0
        self.statuses: Counter[int] = Counter()

    def answer(self) -> tuple[int, bytes, bytes]:
        return (200, REPLY, b"") if self.running < 3 else (429, REFUSAL, REFUSAL_HEAD)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split()[1]))
            status, body, more = self.answer()
            self.statuses[status] += 1
            if status == 200:
                self.running += 1
                self.peak = max(self.peak, self.running)
                await asyncio.sleep(0.02)
                self.running -= 1
            writer.write(b"HTTP/1.1 %d X\r\n%scontent-length: %d\r\n\r\n" % (status, more, len(body)) + body)
        writer.close()


class Fickle(ThreePlaces):
    """Refuses six of ten for reasons of its own and names a tenth of a second."""

    def __init__(self) -> None:
        super().__init__()
        self.draw = random.Random(20261129)

    def answer(self) -> tuple[int, bytes, bytes]:
        if self.draw.random() < 0.6:
            body = b'{"error": {"message": "Too many requests", "type": "requests"}}'
            return 429, body, b"retry-after: 1\r\nretry-after-ms: 100\r\n"
        return 200, REPLY, b""


async def ask(places: ThreePlaces, gate: FixedGate, calls: int) -> tuple[float, list[Attempt]]:
    """Seconds until all calls are answered, and their attempts."""
    attempts: list[Attempt] = []

    async def on_attempt(attempt: Attempt, _text: str) -> None:
        attempts.append(attempt)

    def call(number: int) -> Call:
        return Call(
            call_id=f"c{number}",
            experiment_id="e",
            run_id="r",
            strategy="sample_1",
            task="t",
            run=1,
            phase="sample",
            model="m",
            messages=(Message("user", f"{number}"),),
            stream=False,
        )

    server = await asyncio.start_server(places.handle, "127.0.0.1", 0)
    root = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    began = time.monotonic()
    async with server, GatewayClient(root, None, gate_for=lambda _model: gate) as client:
        answers = await asyncio.gather(*(client.send(call(n), on_attempt=on_attempt) for n in range(calls)))
    assert all(answer.text == "42" for answer in answers)
    return time.monotonic() - began, attempts


@pytest.mark.parametrize("fixed", [True, False])
async def test_refusals_by_chance_cost_their_named_waits(fixed: bool) -> None:
    server = Fickle()
    gate = FixedGate(16) if fixed else AdaptiveGate(16)
    took, attempts = await ask(server, gate, calls=150)
    # A place waits half a wave of 0.11 s for its first attempt and a whole one after each of 1.5 refusals:
    # 150 calls in 2.3 s; ten times that was lost to waits of our own.
    assert took < 8
    assert sum(attempt.final for attempt in attempts) == 150 == server.statuses[200]
    assert server.statuses[429] == pytest.approx(150 * 1.5, rel=0.3)


@pytest.mark.parametrize("fixed", [True, False])
async def test_a_parallel_limit_costs_milliseconds_not_minutes(fixed: bool) -> None:
    places = ThreePlaces()
    gate = FixedGate(16) if fixed else AdaptiveGate(16)
    took, attempts = await ask(places, gate, calls=60)
    assert took < 5
    assert places.peak == 3 and places.statuses[200] == 60
    refused = [attempt for attempt in attempts if attempt.error_class == "concurrency_limit"]
    assert len(attempts) - len(refused) == 60 and len(refused) == places.statuses[429] <= 25
    assert sum(attempt.final for attempt in attempts) == 60
    assert gate.status().in_flight == 0 and gate.status().waiting == 0
