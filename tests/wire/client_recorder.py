"""What the tests of the client share: an open gate, a recorder of what a caller sees, calls and answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from loopback import (
    STREAM,
    Loopback,
    Script,
    chat_body,
    chat_chunk,
    loopback,
    sse,
)

from elometer.core.attempt import Answer, Attempt, Call, Message
from elometer.core.limits import GateStatus
from elometer.core.redact import Secret
from elometer.wire.client import GatewayClient

KEY = "sk-planted-7c1e5b0a9d"
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
GOOD_STREAM = Script(
    headers=STREAM,
    pieces=sse(chat_chunk("4"), chat_chunk("2"), chat_chunk(None, "stop"), {"choices": [], "usage": USAGE}),
)
GOOD_BODY = Script(body=chat_body())


class OpenGate:
    """Admits everyone and remembers what it was told."""

    def __init__(self) -> None:
        self.inside = 0
        self.entered: list[bool] = []
        self.refusals: list[tuple[float | None, str]] = []
        self.failures = 0

    @contextlib.asynccontextmanager
    async def permit(self, *, retry: bool = False) -> AsyncIterator[OpenGate]:
        self.entered.append(retry)
        self.inside += 1
        try:
            yield self
        finally:
            self.inside -= 1

    def refused(self, wait_seconds: float | None, *, why: str) -> None:
        self.refusals.append((wait_seconds, why))

    def overloaded(self) -> None:
        self.failures += 1

    def status(self) -> GateStatus:
        return GateStatus(self.inside, 1, 0)


class Recorder:
    """What the caller of `send` sees."""

    def __init__(self) -> None:
        self.gate = OpenGate()
        self.attempts: list[tuple[Attempt, str]] = []
        self.inside_at_report: list[int] = []
        self.slept: list[float] = []
        self.sent: list[int] = []
        self.chunks: list[int] = []
        self.waits: list[tuple[float, str]] = []
        self.wanted = 2
        self.reached = asyncio.Event()

    async def on_attempt(self, attempt: Attempt, text: str) -> None:
        self.inside_at_report.append(self.gate.inside)
        await asyncio.sleep(0)
        self.attempts.append((attempt, text))

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def wait_for_chunks(self, count: int) -> None:
        self.wanted = count
        await self.reached.wait()

    def on_chunk(self, _call: Call, count: int) -> None:
        self.chunks.append(count)
        if count >= self.wanted:
            self.reached.set()

    def client(self, root: str, key: str | None = KEY, **options: Any) -> GatewayClient:
        return GatewayClient(
            root,
            Secret(key) if key is not None else None,
            gate_for=lambda _model: self.gate,
            sleep=self.sleep,
            draw=lambda: 1.0,
            **options,
        )

    async def send(self, client: GatewayClient, call: Call) -> Answer:
        return await client.send(
            call,
            on_attempt=self.on_attempt,
            on_sent=lambda _call, number: self.sent.append(number),
            on_chunk=self.on_chunk,
            on_wait=lambda _call, seconds, why: self.waits.append((seconds, why)),
        )


def call(name: str = "c1", **more: Any) -> Call:
    fields: dict[str, Any] = {
        "call_id": name,
        "experiment_id": "e",
        "run_id": "r",
        "strategy": "sample_1",
        "task": "t",
        "run": 1,
        "phase": "sample",
        "model": "m",
        "messages": (Message("user", "6*7?"),),
        "params": {"max_tokens": 64, "temperature": 0.7},
        "seed": 7,
    }
    return Call(**{**fields, **more})


async def one(
    *scripts: Script, options: dict[str, Any] | None = None, **more: Any
) -> tuple[Recorder, Answer, Loopback]:
    """One call against these answers."""
    recorder = Recorder()
    async with loopback(*scripts) as gateway, recorder.client(gateway.root, **(options or {})) as client:
        answer = await recorder.send(client, call(**more))
    return recorder, answer, gateway


def error(status: int, message: str = "x", code: str | None = None, **headers: str) -> Script:
    body = json.dumps({"error": {"message": message, "type": "x", "code": code}}).encode()
    return Script(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


MESSAGES_REPLY = {
    "id": "msg_1",
    "model": "m",
    "content": [{"type": "text", "text": "42"}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 5,
        "cache_read_input_tokens": 128_955,
        "cache_creation_input_tokens": 1_253,
        "output_tokens": 7,
    },
}
