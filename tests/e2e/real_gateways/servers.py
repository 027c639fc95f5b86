"""Servers that nobody here wrote, on free ports of 127.0.0.1, each stopped by whoever started it.

Where a server lies is said by variables (see README.md in this folder); a test whose server is absent is
skipped with the variable's name.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# LiteLLM was seen to take 4 to 96 seconds.
LONGEST_START_S = 120.0


def program(variable: str) -> str:
    """The file that a variable names; skips the test where there is none."""
    named = os.environ.get(variable, "")
    if not named:
        pytest.skip(f"{variable} is not set: see tests/e2e/real_gateways/README.md")
    if not Path(named).is_file():
        pytest.skip(f"{variable} names no file: {named}")
    return named


def on_path(name: str) -> str:
    """A program of PATH; skips the test where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on PATH")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str | Path],
    port: int,
    *,
    ready: str,
    folder: Path,
    environment: dict[str, str] | None = None,
) -> Iterator[str]:
    """A server in a process group of its own, whose output goes to a file; yields its root once it answers."""
    root = f"http://127.0.0.1:{port}"
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            env=os.environ | {"NO_PROXY": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1"} | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _wait_for(root + ready, process, folder / "server.log")
            yield root
        finally:
            _stop(process)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + LONGEST_START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            continue


def ask(url: str, body: object = None, *, method: str | None = None) -> Any:
    """A JSON question to a server's own control path."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data=data, headers={"content-type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.loads(reply.read())
