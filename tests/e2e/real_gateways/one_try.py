"""Single tries and whole calls of our client against a server, as a start would make them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from elometer.boundary.gate import FixedGate
from elometer.core.attempt import Answer, Attempt, Call, Message
from elometer.core.redact import Secret
from elometer.wire.client import GatewayClient, RetryPolicy, Timeouts

# A try that is not made again, whatever its class.
ONCE = RetryPolicy(infra=0, deadline_s=0.0)
# Short waits, drawn near their upper end, so that each is longer than the last.
PATIENT = RetryPolicy(infra=4, backoff=(0.2, 5.0), deadline_s=60.0)
DRAW = 0.9

_numbers = itertools.count(1)


def call_of(prompt: str, *, model: str = "some-model", **more: Any) -> Call:
    """A call with a seed of its own: servers that compare bodies take equal ones for retries."""
    number = next(_numbers)
    fields: dict[str, Any] = {
        "call_id": f"call-{number}",
        "experiment_id": "real-gateways",
        "run_id": "real-gateways-1",
        "strategy": "sample_1",
        "task": "t",
        "run": 1,
        "phase": "sample",
        "model": model,
        "messages": (Message("user", prompt),),
        "params": {"max_tokens": 32, "temperature": 0.8},
        "seed": number,
    }
    return Call(**{**fields, **more})


@dataclass
class Told:
    """What came of a call: its answer, and every attempt with its text and what the gate was told."""

    answer: Answer | None = None
    attempts: list[tuple[Attempt, str]] = field(default_factory=list)
    waits: list[tuple[float, str]] = field(default_factory=list)

    @property
    def classes(self) -> list[str | None]:
        return [attempt.error_class for attempt, _text in self.attempts]

    @property
    def last(self) -> Attempt:
        return self.attempts[-1][0]


async def send(
    root: str,
    call: Call,
    *,
    key: str = "sk-planted-real-gateways-01",
    retry: RetryPolicy = PATIENT,
    read_s: float = 5.0,
    places: int = 1,
) -> Told:
    """Make one call with a client of its own."""
    gate = FixedGate(places)
    told = Told()

    async def on_attempt(attempt: Attempt, text: str) -> None:
        told.attempts.append((attempt, text))

    client = GatewayClient(
        root,
        Secret(key),
        gate_for=lambda _model: gate,
        retry=retry,
        timeout=Timeouts(connect_s=5.0, read_s=read_s, total_s=20.0),
        draw=lambda: DRAW,
    )
    async with client:
        told.answer = await client.send(
            call, on_attempt=on_attempt, on_wait=lambda _call, wait, why: told.waits.append((wait, why))
        )
    return told
