"""Nothing that happens to a terminal delays a call: a reader that stops for 20 s, a session that is closed.

Measured on the times at which attempts went onto the wire, against the same start without a terminal.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from tests.e2e.workspace import Workspace

pytestmark = pytest.mark.slow

STALL_S = 20.0
TASKS = 80
CALLS = TASKS * 31
# A refusal for load holds everyone back for 0.2 s and a little; a blocked start would be silent for seconds.
LONGEST_GAP_S = 2.0


class Terminal:
    """A terminal with a program in it, whose reader can stop reading, and which can be closed."""

    def __init__(self, place: Workspace, *arguments: str | Path) -> None:
        self.far, near = os.openpty()
        fcntl.ioctl(near, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "elometer", *map(str, arguments)],
            env=place.environment(TERM="xterm-256color"),
            cwd=place.home,
            stdin=near,
            stdout=near,
            stderr=near,
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
        )
        os.close(near)
        self.seen = 0
        self.stalled = threading.Event()
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while not self._over.is_set():
            if self.stalled.is_set() or not select.select([self.far], [], [], 0.1)[0]:
                time.sleep(0.02)
                continue
            try:
                self.seen += len(os.read(self.far, 65536))
            except OSError:
                return

    def wait_for_calls(self, folder: Path) -> None:
        """Until the start in it is well under way."""
        wait_for(
            "the first calls",
            lambda: has(folder, b"attempt_ended", 50) or self.process.poll() is not None,
            60.0,
        )
        assert self.process.poll() is None, "the program has ended"

    def close(self) -> None:
        """As when a connection is lost: the far end goes, the kernel hangs up."""
        if not self._over.is_set():
            self._over.set()
            self._reader.join()
            os.close(self.far)


@dataclass(frozen=True)
class Cadence:
    """When attempts went onto the wire, from one moment to another, in seconds."""

    sent: list[float]
    start: float
    end: float

    def between(self, start: float, end: float) -> Cadence:
        return Cadence([at for at in self.sent if start <= at <= end], start, end)

    @property
    def per_second(self) -> float:
        return len(self.sent) / (self.end - self.start)

    @property
    def longest_gap(self) -> float:
        """The longest silence; one that lasts to the end counts too."""
        return max(later - earlier for earlier, later in pairwise([self.start, *self.sent, self.end]))


def cadence_of(folder: Path) -> Cadence:
    lines = (json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines())
    at = [datetime.fromisoformat(line["at"]).timestamp() for line in lines if line["event"] == "call_sent"]
    return Cadence(sorted(at), min(at), max(at))


def wait_for(what: str, met: Callable[[], object], seconds: float = 180.0) -> None:
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)


def has(folder: Path, event: bytes, count: int = 1) -> bool:
    file = folder / "events.jsonl"
    return file.exists() and file.read_bytes().count(b'"event":"' + event + b'"') >= count


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Cadence:
    place = Workspace(tmp_path_factory.mktemp("undisturbed"))
    folder = place.small_demo("stalls", tasks=TASKS)
    done = place.run("run", folder, "--plain")
    assert done.returncode == 0, done.stderr
    return cadence_of(folder)


def assert_not_delayed(part: Cadence, undisturbed: Cadence) -> None:
    print(
        f"{part.per_second:.1f} calls a second, longest gap {part.longest_gap:.2f} s;"
        f" undisturbed {undisturbed.per_second:.1f} and {undisturbed.longest_gap:.2f} s"
    )
    assert part.longest_gap <= max(LONGEST_GAP_S, 2 * undisturbed.longest_gap)
    assert part.per_second >= 0.75 * undisturbed.per_second


def assert_complete(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "token_ledger.jsonl").read_text().splitlines()]
    assert sum(line["final"] for line in lines) == CALLS
    assert (folder / "elo_result.csv").stat().st_size > 0


MODES = {"the app": (), "plain": ("--plain",), "json": ("--json",)}


@pytest.mark.parametrize("mode", MODES)
def test_a_terminal_that_stops_reading(place: Workspace, undisturbed: Cadence, mode: str) -> None:
    folder = place.small_demo("stalls", tasks=TASKS)
    terminal = Terminal(place, "run", folder, *MODES[mode])
    try:
        terminal.wait_for_calls(folder)
        terminal.stalled.set()
        began = time.time()
        time.sleep(STALL_S)
        ended = time.time()
        terminal.stalled.clear()
        wait_for("the end", lambda: has(folder, b"start_ended"))
        wait_for("the result", lambda: (folder / "elo_result.csv").exists())
    finally:
        terminal.close()
        terminal.process.kill()
        terminal.process.wait()
    cadence = cadence_of(folder)
    assert_not_delayed(cadence.between(began, min(ended, max(began + 1.0, cadence.end - 1.0))), undisturbed)
    assert_complete(folder)


def test_a_closed_session(place: Workspace, undisturbed: Cadence) -> None:
    folder = place.small_demo("stalls", tasks=TASKS)
    terminal = Terminal(place, "run", folder)
    try:
        terminal.wait_for_calls(folder)
        began = time.time()
        terminal.close()
        wait_for("the app to leave", lambda: terminal.process.poll() is not None, 20.0)
        wait_for("the end", lambda: has(folder, b"start_ended"))
        wait_for("the result", lambda: (folder / "elo_result.csv").exists())
    finally:
        terminal.close()
        terminal.process.kill()
        terminal.process.wait()
    cadence = cadence_of(folder)
    assert_not_delayed(cadence.between(began, cadence.end - 1.0), undisturbed)
    assert_complete(folder)


@pytest.mark.parametrize("flag", ["--plain", "--json"])
def test_a_closed_session_in_the_foreground_drains(place: Workspace, flag: str) -> None:
    # Nobody reads any more and the system hangs up: what is on the wire is waited for and booked.
    folder = place.small_demo("stalls", tasks=TASKS)
    terminal = Terminal(place, "run", folder, flag)
    try:
        terminal.wait_for_calls(folder)
        terminal.close()
        wait_for("the start to leave", lambda: terminal.process.poll() is not None, 20.0)
    finally:
        terminal.close()
        terminal.process.kill()
        terminal.process.wait()
    assert terminal.process.returncode == 130
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert (events[-1]["event"], events[-1]["status"], events[-1]["reason"]) == (
        "start_ended",
        "stopped",
        "SIGHUP",
    )
    sent = {(event["call_id"], event["attempt"]) for event in events if event["event"] == "call_sent"}
    lines = [json.loads(line) for line in (folder / "token_ledger.jsonl").read_text().splitlines()]
    assert sent == {(line["call_id"], line["attempt"]) for line in lines}


def test_a_reader_that_leaves_stops_nothing(place: Workspace) -> None:
    folder = place.small_demo("piped", tasks=6)
    process = place.start("run", folder, "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["event"] == "start_opened"
    process.stdout.close()
    assert process.wait(60) == 0, process.stderr.read()
    assert process.stderr.read() == ""
    assert (folder / "elo_result.csv").stat().st_size > 0
