"""The gateway as a process: one line when ready, a clean end, no key in sight."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from demo_client import KEY, MODEL, ask, body, headers

from elometer.gateway.demo.server import listen
from elometer.gateway.demo.speech import answer
from elometer.gateway.demo.tasks import short_tasks

COMMAND = [sys.executable, "-m", "elometer", "gateway", "demo"]
FAST = ["--latency-ms", "0", "0", "--rate-429", "0"]


@contextmanager
def started(*arguments: str, key: str | None = KEY) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    environment = {name: value for name, value in os.environ.items() if name != "ELOMETER_DEMO_KEY"}
    if key is not None:
        environment["ELOMETER_DEMO_KEY"] = key
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def test_it_serves_the_seed_under_the_prefix_and_ends_on_sigterm() -> None:
    with started("--seed", "5", "--prefix", "/api", *FAST) as (process, line):
        assert line["url"].startswith("http://127.0.0.1:")
        assert line["url"].endswith("/api")
        assert {key: line[key] for key in ("models", "simulation", "key_env", "pid", "seed")} == {
            "models": [MODEL],
            "simulation": True,
            "key_env": "ELOMETER_DEMO_KEY",
            "pid": process.pid,
            "seed": 5,
        }
        task = short_tasks(5, 1)[0]
        with httpx.Client(base_url=line["url"]) as client:
            assert ask(client, "chat", task.prompt, seed=1).text == answer(task, 1)
            client.post("/v1/chat/completions", json={}, headers=headers("chat", key="wrong"))
        assert KEY not in Path(f"/proc/{process.pid}/cmdline").read_text()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (0, "", "")


def test_it_ends_on_sigint_with_a_stream_open() -> None:
    with started("--latency-ms", "20000", "20000", "--rate-429", "0") as (process, line):
        prompt = short_tasks(0, 1)[0].prompt
        with httpx.Client(base_url=line["url"]) as client:
            data = body("chat", prompt, stream=True)
            with pytest.raises(httpx.ReadTimeout):
                client.post("/v1/chat/completions", json=data, headers=headers("chat"), timeout=0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


def test_without_a_key_it_makes_one_in_a_private_file() -> None:
    with started(*FAST, key=None) as (process, line):
        file = Path(line["key_file"])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        value = file.read_text().strip()
        assert value not in json.dumps(line)
        auth = {"authorization": f"Bearer {value}"}
        assert httpx.get(f"{line['url']}/v1/models", headers=auth).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert not file.exists()


def test_it_ends_with_its_parent() -> None:
    script = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen({COMMAND!r} + ['--with-parent', str(os.getpid())], stdout=subprocess.PIPE)\n"
        "sys.stdout.write(child.stdout.readline().decode())\n"
        "sys.stdout.flush()\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "ELOMETER_DEMO_KEY": KEY},
    )
    assert parent.stdout is not None
    line = json.loads(parent.stdout.readline())
    # The read end is a pidfd: it becomes readable when the process has ended.
    descriptor = os.pidfd_open(line["pid"])
    parent.kill()
    parent.communicate()
    import select

    ready, _, _ = select.select([descriptor], [], [], 10)
    os.close(descriptor)
    assert ready


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--break", "429-strom"], "Did you mean '429-storm'?"),
        (["--host", "0.0.0.0"], "not a loopback address"),
        (["--host", "example.org"], "not a loopback address"),
    ],
)
def test_errors_are_three_lines(arguments: list[str], word: str) -> None:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env={**os.environ, "ELOMETER_DEMO_KEY": KEY}
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert word in done.stderr
    assert len(done.stderr.splitlines()) == 3


def test_a_port_that_is_taken() -> None:
    with listen() as bound:
        port = str(bound.getsockname()[1])
        done = subprocess.run(
            [*COMMAND, "--port", port],
            capture_output=True,
            text=True,
            env={**os.environ, "ELOMETER_DEMO_KEY": KEY},
        )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 3
    assert f"127.0.0.1:{port}" in done.stderr


def test_the_relay_says_that_it_is_not_there_yet() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "elometer", "gateway", "relay"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "not built yet" in done.stderr
