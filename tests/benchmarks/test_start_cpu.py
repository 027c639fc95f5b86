"""CPU per call of a whole start (ledger, samples, events, account and gate on), beside a bare loop.

The bare loop is httpx on aiohttp's connector with the same requests, against answers that come whole after
500 ± 250 ms and against the demo gateway's streams of about forty pieces, which it can serve up to 64 at once.
A start also has costs that do not depend on the number of calls; the difference of a long and a short one
leaves them out.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest
from httpx_aiohttp import HttpxAiohttpClient
from tests.benchmarks.test_start_speed import KEY, gateway, sampling_seconds, write
from tests.e2e.workspace import Workspace

from elometer.gateway.demo.experiment import SYSTEM

pytestmark = pytest.mark.benchmark

BAR = 1.3
PACE = 0.98
SHORT = 4  # tasks; 31 calls each
ROUNDS = 3


async def bare(url: str, bodies: list[bytes], in_flight: int) -> tuple[float, float]:
    """CPU and wall seconds."""
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    places = asyncio.Semaphore(in_flight)
    limits = httpx.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    async with HttpxAiohttpClient(limits=limits, timeout=60.0, trust_env=False) as client:

        async def call(body: bytes) -> None:
            rest = b""
            async with (
                places,
                client.stream("POST", f"{url}/v1/chat/completions", content=body, headers=headers) as answer,
            ):
                assert answer.status_code == 200
                async for piece in answer.aiter_raw():
                    *events, rest = (rest + piece).split(b"\n\n")
                    for event in events:
                        if event != b"data: [DONE]":
                            msgspec.json.decode(event[6:])
            if rest:
                msgspec.json.decode(rest)

        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*(call(body) for body in bodies))
        return time.process_time() - cpu, time.perf_counter() - wall


@contextmanager
def mock_gateway() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("mock_gateway.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.stdin.close()
        process.wait()


def same_calls(folder: Path) -> list[bytes]:
    """The requests that a finished start made, in its order: latencies are a function of prompt and seed."""
    tasks = {task["id"]: task for task in map(json.loads, (folder / "tasks.jsonl").read_text().splitlines())}
    return [
        json.dumps(
            {
                "model": "demo-agent",
                "messages": [
                    {"role": "system", "content": SYSTEM},
                    {"role": "user", "content": tasks[line["task"]]["prompt"]},
                ],
                "temperature": 0.8,
                "max_tokens": 256,
                "seed": line["seed"],
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()
        for line in map(json.loads, (folder / "token_ledger.jsonl").read_text().splitlines())
    ]


def start(place: Workspace, folder: Path, in_flight: int) -> tuple[float, float]:
    """CPU seconds of a start's process and the wall seconds of its sampling."""
    before = os.times()
    # A fixed cap, as the bare loop has one: the adaptive gate begins at 8 and finds its way up.
    fixed = ["--max-in-flight", str(in_flight)]
    done = place.run("run", folder, "--plain", *fixed, ELOMETER_DEMO_KEY=KEY)
    after = os.times()
    assert done.returncode in (0, 5), done.stderr  # 5: whole answers hold no answer line
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, sampling_seconds(folder)


def measure(place: Workspace, url: str, in_flight: int, tasks: int) -> tuple[float, float]:
    """Medians over the rounds: CPU per call and pace, as shares of the bare loop's in the same round."""
    ratios, paces = [], []
    for number in range(ROUNDS):
        folders = [
            write(place, url, f"cpu-{size}-{number}", tasks=size, in_flight=in_flight)
            for size in (SHORT, tasks)
        ]
        (short, _), (long, wall) = (start(place, folder, in_flight) for folder in folders)
        bodies = same_calls(folders[1])
        cpu, bare_wall = asyncio.run(bare(url, bodies, in_flight))
        ours, theirs = (long - short) / ((tasks - SHORT) * 31), cpu / len(bodies)
        ratios.append(ours / theirs)
        paces.append(bare_wall / wall)
        print(
            f"\n{in_flight} in flight: start {ours * 1e3:.2f} ms a call, bare {theirs * 1e3:.2f} ms, "
            f"{ratios[-1]:.2f}; pace {paces[-1]:.3f}"
        )
    return statistics.median(ratios), statistics.median(paces)


@pytest.mark.parametrize(("in_flight", "tasks"), [(16, 40), (64, 80), (256, 200)])
def test_whole_answers(place: Workspace, in_flight: int, tasks: int) -> None:
    with mock_gateway() as url:
        ratio, pace = measure(place, f"{url}/L500/J50", in_flight, tasks)
    assert ratio <= BAR
    assert pace >= PACE


@pytest.mark.parametrize(("in_flight", "tasks"), [(16, 40), (64, 80)])
def test_streams(place: Workspace, in_flight: int, tasks: int) -> None:
    with gateway(place, 250, 750, in_flight) as url:
        ratio, pace = measure(place, url, in_flight, tasks)
    assert ratio <= BAR
    assert pace >= PACE
