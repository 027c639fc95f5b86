"""A whole start at 16 in flight and 200 ms a call, beside a bare aiohttp loop on the same schedule."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest
from tests.e2e.workspace import Workspace

from elometer.core.clock import parse_timestamp
from elometer.gateway.demo.experiment import demo_experiment

pytestmark = pytest.mark.benchmark

KEY = "elometer-demo-bench-key"
IN_FLIGHT = 16
TASKS = 8
CALLS = TASKS * 31
ROUNDS = 5


@contextmanager
def gateway(
    place: Workspace, low_ms: int = 200, high_ms: int = 200, in_flight: int = IN_FLIGHT
) -> Iterator[str]:
    latency = ["--latency-ms", str(low_ms), str(high_ms)]
    command = [sys.executable, "-m", "elometer", "gateway", "demo", *latency]
    options = ["--rate-429", "0", "--max-concurrency", str(in_flight), "--seed", "1"]
    process = subprocess.Popen(
        [*command, *options, "--with-parent", str(os.getpid())],
        env=place.environment(ELOMETER_DEMO_KEY=KEY),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.wait()


def write(place: Workspace, url: str, name: str, *, tasks: int = TASKS, in_flight: int = IN_FLIGHT) -> Path:
    """The demo's tasks under kind `http`, so that the start talks to a gateway it did not start."""
    folder = place.experiments / name
    folder.mkdir(parents=True)
    spec, lines = demo_experiment(1, experiment_id=name, tasks=tasks, runs=1, max_concurrency=in_flight)
    spec = spec.replace("kind: demo", "kind: http").replace("taotoken:", f"taotoken:\n  base_url: {url}", 1)
    spec = re.sub(r"daily_budget_tokens: \d+", "daily_budget_tokens: 100000000", spec)
    (folder / "experiment.yaml").write_text(spec)
    (folder / "tasks.jsonl").write_text(lines)
    return folder


def sampling_seconds(folder: Path) -> float:
    """From the first event of a start to its last."""
    lines = (folder / "events.jsonl").read_bytes().splitlines()
    first, last = json.loads(lines[0]), json.loads(lines[-1])
    assert last["status"] == "complete", last
    return (parse_timestamp(last["at"]) - parse_timestamp(first["at"])).total_seconds()


async def bare(url: str, bodies: list[bytes]) -> float:
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    places = asyncio.Semaphore(IN_FLIGHT)
    connector = aiohttp.TCPConnector(limit=IN_FLIGHT)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def call(body: bytes) -> None:
            async with places, session.post(f"{url}/v1/chat/completions", data=body) as answer:
                assert answer.status == 200
                await answer.read()

        begun = time.perf_counter()
        await asyncio.gather(*(call(body) for body in bodies))
        return time.perf_counter() - begun


def bodies_of(folder: Path) -> list[bytes]:
    """The same prompts, streamed as the start streams them."""
    tasks = [json.loads(line) for line in (folder / "tasks.jsonl").read_text().splitlines()]
    return [
        json.dumps(
            {
                "model": "demo-agent",
                "messages": [{"role": "user", "content": task["prompt"]}],
                "max_tokens": 256,
                "seed": seed,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()
        for seed in range(1, 32)
        for task in tasks
    ]


def test_a_start_takes_at_most_1_15_of_a_bare_loop(place: Workspace) -> None:
    ours, theirs = [], []
    with gateway(place) as url:
        for number in range(ROUNDS):
            folder = write(place, url, f"speed-{number}")
            done = place.run("run", folder, "--plain", ELOMETER_DEMO_KEY=KEY)
            assert done.returncode == 0, done.stderr
            ours.append(sampling_seconds(folder))
            theirs.append(asyncio.run(bare(url, bodies_of(folder))))
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(
        f"\n{CALLS} calls: start {statistics.median(ours):.2f} s, bare aiohttp {statistics.median(theirs):.2f} s, {ratio:.3f}"
    )
    assert ratio <= 1.15


@contextmanager
def app_open(place: Workspace, folder: Path) -> Iterator[None]:
    """The app on a start, in a terminal that somebody reads."""
    pid, terminal = pty.fork()
    if pid == 0:
        environment = place.environment(TERM="xterm-256color", ELOMETER_DEMO_KEY=KEY)
        os.execve(sys.executable, [sys.executable, "-m", "elometer", "watch", str(folder)], environment)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    os.read(terminal, 65536)
                except OSError:
                    return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        os.write(terminal, b"q")
        stop.set()
        reader.join()
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_an_open_app_slows_a_start_by_at_most_a_tenth(place: Workspace) -> None:
    alone, watched = [], []
    with gateway(place) as url:
        for number in range(ROUNDS):
            for seconds, watching in ((alone, False), (watched, True)):
                folder = write(place, url, f"app-{number}-{watching}")
                process = place.start("run", folder, "--plain", ELOMETER_DEMO_KEY=KEY)
                while not (folder / "events.jsonl").exists():
                    time.sleep(0.01)
                if watching:
                    with app_open(place, folder):
                        _out, err = process.communicate(timeout=120)
                else:
                    _out, err = process.communicate(timeout=120)
                assert process.returncode == 0, err
                seconds.append(sampling_seconds(folder))
    ratio = statistics.median(watched) / statistics.median(alone)
    print(
        f"\nwith the app {statistics.median(watched):.2f} s, without {statistics.median(alone):.2f} s, {ratio:.3f}"
    )
    assert ratio <= 1.10
