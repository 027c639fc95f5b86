"""The client against the bare loops on which it stands, interleaved in one run: ratios of medians.

Read the ratios: CPU is this process's alone, the mock gateway is a process of its own.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import httpx
import msgspec
import pytest
from httpx_aiohttp import HttpxAiohttpClient

from elometer.boundary.gate import FixedGate
from elometer.core.attempt import Attempt, Call, Message
from elometer.core.redact import Secret
from elometer.wire.client import GatewayClient

pytestmark = pytest.mark.benchmark

ROUNDS = 5
MESSAGES = (Message("user", "Say something about sampling. " * 12),)
PARAMS = {"max_tokens": 128, "temperature": 1.0}
HEADERS = {"authorization": "Bearer sk-benchmark", "content-type": "application/json"}

One = Callable[[], Awaitable[int]]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("mock_gateway.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None and server.stdin is not None
    try:
        yield int(server.stdout.readline())
    finally:
        server.stdin.close()
        server.wait(10)


def payload(stream: bool) -> dict[str, object]:
    body: dict[str, object] = {
        "model": "mock",
        "messages": [{"role": message.role, "content": message.content} for message in MESSAGES],
        **PARAMS,
    }
    return {**body, "stream": True, "stream_options": {"include_usage": True}} if stream else body


@asynccontextmanager
async def bare_httpx(root: str, connections: int, stream: bool) -> AsyncIterator[One]:
    """A plain user of httpx on aiohttp's connector: post, check, decode; lines for streams."""
    limits = httpx.Limits(
        max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=60.0
    )
    url = root + "/v1/chat/completions"
    async with HttpxAiohttpClient(limits=limits, timeout=60.0, trust_env=False, verify=False) as client:

        async def whole() -> int:
            response = await client.post(url, json=payload(False), headers=HEADERS)
            response.raise_for_status()
            return len(response.json()["choices"])

        async def chunks() -> int:
            count, rest = 0, b""
            async with client.stream("POST", url, json=payload(True), headers=HEADERS) as response:
                async for piece in response.aiter_raw():
                    *events, rest = (rest + piece).split(b"\n\n")
                    for event in events:
                        if event != b"data: [DONE]":
                            count += len(msgspec.json.decode(event[6:])["choices"])
            return count

        yield chunks if stream else whole


@asynccontextmanager
async def bare_aiohttp(root: str, connections: int, stream: bool) -> AsyncIterator[One]:
    """The floor: aiohttp itself."""
    url = root + "/v1/chat/completions"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as session:

        async def whole() -> int:
            async with session.post(url, json=payload(False), headers=HEADERS) as response:
                return len(msgspec.json.decode(await response.read())["choices"])

        async def chunks() -> int:
            count, rest = 0, b""
            async with session.post(url, json=payload(True), headers=HEADERS) as response:
                async for piece in response.content.iter_any():
                    *events, rest = (rest + piece).split(b"\n\n")
                    for event in events:
                        if event != b"data: [DONE]":
                            count += len(msgspec.json.decode(event[6:])["choices"])
            return count

        yield chunks if stream else whole


@asynccontextmanager
async def ours(root: str, connections: int, stream: bool) -> AsyncIterator[One]:
    """GatewayClient with its gate and a ledger line per attempt."""
    gate = FixedGate(connections)
    counter = iter(range(10**9))
    chunks = [0]

    async def on_attempt(attempt: Attempt, _text: str) -> None:
        assert attempt.status == "ok", attempt
        msgspec.json.encode(attempt)

    def on_chunk(_call: Call, _count: int) -> None:
        chunks[0] += 1

    async with GatewayClient(
        root, Secret("sk-benchmark"), gate_for=lambda _m: gate, connections=connections
    ) as client:

        async def one() -> int:
            call = Call(
                call_id=f"c{next(counter)}",
                experiment_id="e",
                run_id="r",
                strategy="sample_1",
                task="t",
                run=1,
                phase="sample",
                model="mock",
                messages=MESSAGES,
                params=PARAMS,
                stream=stream,
            )
            await client.send(call, on_attempt=on_attempt, on_chunk=on_chunk)
            return 1

        yield one


CONTENDERS = {"elometer": ours, "httpx on aiohttp": bare_httpx, "aiohttp": bare_aiohttp}


async def load(one: One, in_flight: int, calls: int) -> tuple[float, float]:
    """CPU seconds per call and wall seconds of `calls` calls."""
    await asyncio.gather(*(one() for _ in range(in_flight)))  # connections and caches are not counted
    left = calls

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await one()

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return (time.process_time() - cpu) / calls, time.perf_counter() - wall


def compare(
    root: str, in_flight: int, calls: int, *, stream: bool = False, rounds: int = ROUNDS
) -> dict[str, tuple[float, float]]:
    """Median CPU seconds per call and wall of every contender, round by round so that drift hits all alike."""

    async def trial(name: str) -> tuple[float, float]:
        async with CONTENDERS[name](root, in_flight, stream) as one:
            return await load(one, in_flight, calls)

    found: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name in CONTENDERS:
            found[name].append(asyncio.run(trial(name)))
    return {
        name: (statistics.median(t[0] for t in trials), statistics.median(t[1] for t in trials))
        for name, trials in found.items()
    }


def show(title: str, medians: dict[str, tuple[float, float]]) -> None:
    base = medians["httpx on aiohttp"][0]
    print(f"\n{title}")
    for name, (cpu, wall) in medians.items():
        print(f"  {name:18s} {cpu * 1e3:7.3f} ms CPU/call  {wall:6.2f} s  x{cpu / base:.2f}")


@pytest.mark.parametrize(
    ("in_flight", "calls", "path"),
    [
        (16, 400, ""),
        (16, 320, "/L50/J50"),
        (64, 640, "/L50/J50"),
        (64, 320, "/L500/J50"),
        (256, 1024, "/L500/J50"),
    ],
)
def test_cpu_per_call(port: int, in_flight: int, calls: int, path: str) -> None:
    medians = compare(
        f"http://127.0.0.1:{port}{path}", in_flight, calls, rounds=3 if in_flight > 64 else ROUNDS
    )
    show(f"{in_flight} in flight, {path or 'no latency'}", medians)
    assert medians["elometer"][0] <= 1.3 * medians["httpx on aiohttp"][0]
    assert medians["httpx on aiohttp"][1] / medians["elometer"][1] >= 0.95


def test_added_latency_stays_within_the_jitter(port: int) -> None:
    # 64 in flight against 500 ms ± 250: the 99th percentile of a call, ours beside the bare loop's; a fifth
    # of the jitter is allowed.
    async def latencies(name: str) -> list[float]:
        found: list[float] = []
        async with CONTENDERS[name](f"http://127.0.0.1:{port}/L500/J50", 64, False) as one:
            await asyncio.gather(*(one() for _ in range(64)))

            async def worker() -> None:
                for _ in range(5):
                    begun = time.perf_counter()
                    await one()
                    found.append(time.perf_counter() - begun)

            await asyncio.gather(*(worker() for _ in range(64)))
        return found

    seen: dict[str, list[float]] = {"elometer": [], "httpx on aiohttp": []}
    for _ in range(3):
        for name, found in seen.items():
            found += asyncio.run(latencies(name))
    p99 = {name: statistics.quantiles(found, n=100)[98] for name, found in seen.items()}
    print("\n" + ", ".join(f"{name} p99 {seconds * 1e3:.1f} ms" for name, seconds in p99.items()))
    assert p99["elometer"] - p99["httpx on aiohttp"] <= 0.050


def test_paced_streams(port: int) -> None:
    # 64 streams at 50 tokens a second: 3,200 chunks a second.
    medians = compare(f"http://127.0.0.1:{port}/S100/I20", 64, 128, stream=True, rounds=3)
    show("64 streams of 100 chunks at 50/s", medians)
    ideal = 128 / 64 * 100 * 0.020
    assert ideal / medians["elometer"][1] >= 0.95


def test_burst_streams(port: int) -> None:
    medians = compare(f"http://127.0.0.1:{port}/S200", 16, 96, stream=True)
    show("16 streams of 200 chunks at once", medians)
    assert medians["elometer"][0] <= 1.3 * medians["httpx on aiohttp"][0]
