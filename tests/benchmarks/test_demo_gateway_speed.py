"""What a call costs the demo gateway, beside a bare Starlette application on the same server."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from elometer.core.limits import Boundary
from elometer.gateway.demo.server import create_app, listen, root_url, uvicorn_server
from elometer.gateway.demo.tasks import short_tasks

pytestmark = pytest.mark.benchmark

KEY = "elometer-demo-bench-key"
CALLS = 1500
IN_FLIGHT = 16
# The bar: 300 answers a second on one core.
LEAST_A_CPU_SECOND = 300


async def echo(request: Request) -> JSONResponse:
    await request.json()
    return JSONResponse({"choices": [{"message": {"content": "ANSWER: 1"}}]})


def serve(bare: bool, ready: Connection) -> None:
    gateway = create_app(0, keys={KEY: Boundary()}, latency=(0, 0), rate_429=0)
    app = Starlette(routes=[Route("/v1/chat/completions", echo, methods=["POST"])]) if bare else gateway
    with listen() as bound:
        ready.send(root_url(bound))
        uvicorn_server(app).run(sockets=[bound])


@contextmanager
def process(bare: bool) -> Iterator[tuple[str, int]]:
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=serve, args=(bare, there), daemon=True)
    child.start()
    try:
        assert child.pid is not None
        yield here.recv(), child.pid
    finally:
        child.kill()
        child.join()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def call(url: str, calls: int, *, stream: bool) -> None:
    tasks = short_tasks(0, 20)
    numbers = iter(range(calls))
    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {KEY}"}) as session:

        async def worker() -> None:
            for number in numbers:
                turns = [{"role": "user", "content": tasks[number % 20].prompt}]
                data = {"model": "demo-agent", "seed": number, "stream": stream, "messages": turns}
                async with session.post(f"{url}/v1/chat/completions", data=json.dumps(data)) as reply:
                    assert reply.status == 200
                    await reply.read()

        await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


def cost(bare: bool, *, stream: bool = False) -> float:
    """Server CPU seconds per call, after a warm-up."""
    with process(bare) as (url, pid):
        asyncio.run(call(url, 100, stream=stream))
        before = cpu_seconds(pid)
        asyncio.run(call(url, CALLS, stream=stream))
        return (cpu_seconds(pid) - before) / CALLS


def test_an_answer_costs_little_more_than_a_bare_one() -> None:
    bare, whole, streamed = cost(True), cost(False), cost(False, stream=True)
    print(
        f"per CPU second: bare Starlette {1 / bare:.0f}, demo {1 / whole:.0f} ({whole / bare:.2f} times the cost), "
        f"demo streamed {1 / streamed:.0f} ({streamed / bare:.2f} times)"
    )
    assert 1 / whole >= LEAST_A_CPU_SECOND
    assert 1 / streamed >= LEAST_A_CPU_SECOND
    assert whole <= 3 * bare
