"""What `elometer --help` costs, beside an interpreter that imports click and nothing else."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

import pytest

pytestmark = pytest.mark.benchmark

RUNS = 15


def cpu_seconds(command: list[str]) -> float:
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def test_help_takes_at_most_one_and_a_half_bare_imports_of_click() -> None:
    ours, bare = [], []
    for _ in range(RUNS):
        ours.append(cpu_seconds([sys.executable, "-m", "elometer", "--help"]))
        bare.append(cpu_seconds([sys.executable, "-c", "import click"]))
    ratio = statistics.median(ours) / statistics.median(bare)
    print(
        f"\n--help {statistics.median(ours):.3f} s of CPU, import click {statistics.median(bare):.3f} s, {ratio:.2f}"
    )
    assert ratio <= 1.5
