"""Running foreign code in a limited child process: what it printed, how it ended, how far it was isolated.

Contained: processor time, memory, file sizes, open files, processes, output, wall clock, the environment,
and, where the kernel lets users make namespaces, the network and every process it leaves behind. Not
contained: the files that this user may read and write, and the number of root's processes, which the system
does not bound. A grader is the user's own code and is trusted so far.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from elometer.runs.graders.launcher import FAILED, HALF_WAY

LAUNCHER = Path(__file__).with_name("launcher.py")
MOST_OUTPUT = 256 << 10  # bytes of stdout and of stderr
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use; `seconds` of wall clock, and as many of processor time."""

    seconds: float = 10.0
    memory_mb: int = 512
    file_mb: int = 16
    processes: int = 64
    open_files: int = 128

    def for_launcher(self) -> dict[str, int]:
        """In the units of the system."""
        return {
            "cpu_s": max(1, math.ceil(self.seconds)),
            "memory": self.memory_mb << 20,
            "file": self.file_mb << 20,
            "processes": self.processes,
            "open_files": self.open_files,
        }


@dataclass(frozen=True, slots=True)
class Finished:
    """How a child ended. `fault` is empty where it ended by itself with an exit code of its own."""

    code: int
    out: str
    err: str
    isolation: str
    fault: str = ""


@dataclass(slots=True)
class Children:
    """The children of one start, so that leaving at once leaves none behind."""

    live: set[int] = field(default_factory=set)
    ended: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end_all(self) -> None:
        """Kill them, and let no further one begin."""
        with self.lock:
            self.ended = True
            for group in self.live:
                _kill(group)


CHILDREN: contextvars.ContextVar[Children] = contextvars.ContextVar("children", default=Children())  # noqa: B039


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """An empty folder that only this user can enter; gone afterwards with all that is in it."""
    with tempfile.TemporaryDirectory(prefix="elometer-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def run_limited(
    limits: Limits, cwd: Path, *, argv: Sequence[str] = (), python: str | None = None
) -> Finished:
    """Run a command, or `grade` of a Python file, in `cwd`; never raises for what the child does."""
    work: dict[str, Any] = {"argv": list(argv)} if python is None else {"python": python}
    finished = _run(limits, cwd, {**work, "isolate": True})
    if finished.isolation == HALF_WAY.decode():
        finished = _run(limits, cwd, {**work, "isolate": False})
    return finished


def _run(limits: Limits, cwd: Path, work: dict[str, Any]) -> Finished:
    children = CHILDREN.get()
    report, said = os.pipe()
    job = {**work, "limits": limits.for_launcher(), "report": said}
    flags = ["-I"] if "python" in work else ["-I", "-S"]
    try:
        with children.lock:
            if children.ended:
                return Finished(FAILED, "", "", "", "cancelled")
            process = subprocess.Popen(
                [sys.executable, *flags, str(LAUNCHER), json.dumps(job)],
                cwd=cwd,
                env={name: os.environ.get(name, value) for name, value in _ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(said,),
                start_new_session=True,
            )
            children.live.add(process.pid)
        os.close(said)
        said = -1
        try:
            out, err, fault = _watch(process, limits.seconds)
        finally:
            _kill(process.pid)  # also what the child left running in its group
            with children.lock:
                children.live.discard(process.pid)
            code = process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        isolation = os.read(report, 64).decode()
    finally:
        os.close(report)
        if said >= 0:
            os.close(said)
    return Finished(code, out, err, isolation, fault or _fault_of(code, limits))


_ENVIRONMENT = (("PATH", os.defpath), ("LANG", "C.UTF-8"))


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _watch(process: subprocess.Popen[bytes], seconds: float) -> tuple[str, str, str]:
    """Read both outputs until the child ends, its time is over, or it prints too much."""
    deadline = time.monotonic() + seconds
    read: dict[Any, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    fault = ""
    with selectors.DefaultSelector() as ready:
        for pipe in read:
            os.set_blocking(pipe.fileno(), False)
            ready.register(pipe, selectors.EVENT_READ)
        while not fault:
            for key, _mask in ready.select(POLL_S) if ready.get_map() else ():
                if not _take(key.fileobj, read[key.fileobj]):  # type: ignore[arg-type]
                    ready.unregister(key.fileobj)
            if any(len(data) > MOST_OUTPUT for data in read.values()):
                fault = f"printed more than {MOST_OUTPUT} bytes"
            elif _has_ended(process):
                break
            elif time.monotonic() > deadline:
                fault = f"not done after {seconds:g} s"
            elif not ready.get_map():
                time.sleep(POLL_S / 5)
        for key in list(ready.get_map().values()):  # what was printed at the very end
            _take(key.fileobj, read[key.fileobj])  # type: ignore[arg-type]
    out, err = (bytes(data[:MOST_OUTPUT]).decode(errors="replace") for data in read.values())
    return out, err, fault


def _take(pipe: IO[bytes], data: bytearray) -> bool:
    """Read what is there; False at the end."""
    while len(data) <= MOST_OUTPUT:
        try:
            more = os.read(pipe.fileno(), 65_536)
        except BlockingIOError:
            return True
        if not more:
            return False
        data += more
    return True


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the child is done, without reaping it, so that its group's number stays its own."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _fault_of(code: int, limits: Limits) -> str:
    number = -code if code < 0 else code - 128 if code > 128 else 0
    words = {
        signal.SIGXCPU: f"used more than {limits.seconds:g} s of processor time",
        signal.SIGXFSZ: f"wrote a file of more than {limits.file_mb} MB",
    }
    if number in (signal.SIGXCPU, signal.SIGXFSZ):
        return words[signal.Signals(number)]
    if number:
        with contextlib.suppress(ValueError):
            return f"ended by {signal.Signals(number).name}"
    return ""
