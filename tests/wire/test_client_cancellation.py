"""A cancelled call leaves its line and a usable client."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from client_recorder import (
    GOOD_BODY,
    GOOD_STREAM,
    Recorder,
    call,
)
from loopback import (
    STREAM,
    Script,
    chat_chunk,
    loopback,
    sse,
)

from elometer.core.attempt import Attempt


@pytest.mark.parametrize(
    "script",
    [
        Script(delay=30.0, body=b""),
        Script(headers=STREAM, pieces=[*sse(chat_chunk("a"), chat_chunk("b"), done=False), "hang"]),
    ],
)
async def test_a_cancelled_call_leaves_its_line(script: Script) -> None:
    recorder = Recorder()
    async with loopback(script) as gateway, recorder.client(gateway.root) as client:
        task = asyncio.create_task(recorder.send(client, call()))
        await gateway.arrived.wait()
        if script.pieces:
            await recorder.wait_for_chunks(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        attempt, text = recorder.attempts[0]
        assert (attempt.status, attempt.final, attempt.billed) == ("cancelled", False, "unknown")
        assert (attempt.usage_source, attempt.usage_final) == ("estimated", False)
        assert text == ("ab" if script.pieces else "")
        assert attempt.completion_tokens == (2 if script.pieces else None)
        assert recorder.gate.inside == 0 and recorder.inside_at_report == [0]
        # The client still works.
        gateway.scripts = [GOOD_BODY]
        assert (await recorder.send(client, call("c2", stream=False))).text == "42"


async def test_a_second_cancellation_does_not_stop_the_line_from_being_written() -> None:
    recorder = Recorder()
    written = []

    async def slow(attempt: Attempt, _text: str) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        written.append(attempt.status)

    async with loopback(Script(delay=30.0, body=b"")) as gateway, recorder.client(gateway.root) as client:
        task = asyncio.create_task(client.send(call(), on_attempt=slow))
        await gateway.arrived.wait()
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert written == ["cancelled"]


async def test_cancelling_at_every_step_books_every_request() -> None:
    for step in range(1, 40):
        recorder = Recorder()
        async with loopback(GOOD_STREAM) as gateway, recorder.client(gateway.root) as client:
            task = asyncio.create_task(recorder.send(client, call()))
            for _ in range(step):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert recorder.gate.inside == 0
            assert len(recorder.attempts) == len(recorder.sent) <= 1
            assert len(gateway.requests) <= len(recorder.attempts)


async def test_what_on_attempt_raises_is_raised() -> None:
    recorder = Recorder()

    async def full(_attempt: Attempt, _text: str) -> None:
        raise OSError(28, "No space left on device")

    async with loopback(GOOD_BODY) as gateway, recorder.client(gateway.root) as client:
        with pytest.raises(OSError, match="No space"):
            await client.send(call(), on_attempt=full)
    assert recorder.gate.inside == 0


async def test_many_cancelled_calls_leave_the_client_usable() -> None:
    recorder = Recorder()
    hang = Script(delay=30.0, body=b"")
    async with loopback(hang) as gateway, recorder.client(gateway.root, connections=20) as client:
        for _ in range(5):
            tasks = [asyncio.create_task(recorder.send(client, call(f"c{n}"))) for n in range(20)]
            await asyncio.sleep(0.02)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        gateway.scripts = [GOOD_BODY]
        answers = await asyncio.gather(
            *(recorder.send(client, call(f"d{n}", stream=False)) for n in range(20))
        )
    assert all(answer.text == "42" for answer in answers)
