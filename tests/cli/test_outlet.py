"""Lines that nobody takes, and readers that leave, hold up nobody."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time

import pytest

from elometer.cli.outlet import Outlet


def test_lines_come_in_order_and_closing_waits_for_them() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        outlet = Outlet(stream)
        for number in range(1000):
            outlet.line(str(number))
        outlet.close()
    with os.fdopen(reading) as stream:
        assert stream.read().split() == [str(number) for number in range(1000)]


def test_a_full_pipe_does_not_make_the_caller_wait() -> None:
    reading, writing = os.pipe()
    size = fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)
    lines = 4 * size // 1000
    with os.fdopen(writing, "w") as stream:
        outlet = Outlet(stream)
        began = time.monotonic()
        for _ in range(lines):
            outlet.line("x" * 999)
        assert time.monotonic() - began < 1.0
        taken = 0
        while taken < lines * 1000:
            taken += len(os.read(reading, 65536))
        outlet.close()
    os.close(reading)


@pytest.mark.parametrize("streams", ["stdout", "stdout and stderr"])
def test_a_reader_that_leaves_changes_no_exit_code(streams: str) -> None:
    program = """
import sys
from elometer.cli.outlet import Outlet
outlet = Outlet(sys.stdout)
outlet.line("first")
sys.stdin.readline()
for _ in range(100):
    outlet.line("nobody reads this")
outlet.close()
print("nor this", file=sys.stderr)
sys.exit(7)
"""
    same = streams == "stdout and stderr"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if same else subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "first\n"
    process.stdout.close()
    process.stdin.write("\n")
    process.stdin.close()
    if not same:
        assert process.stderr is not None
        assert process.stderr.read() == "nor this\n"
    assert process.wait(20) == 7
