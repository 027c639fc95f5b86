"""A clock that is set back and forward while a start runs: nothing is lost, paid twice, or waited for."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.e2e.renaming_gateway import KEY, gateway, lines, write_experiment
from tests.e2e.workspace import Workspace

from elometer.core.clock import parse_timestamp

# The wall clock of the start's process alone; the steady clock, like the real one, does not jump.
JUMPING = """
import datetime, time
import elometer.core.clock as clock

JUMPS = {jumps}
BEGAN, REAL = time.monotonic(), time.time

def offset():
    passed = time.monotonic() - BEGAN
    return sum(by for after, by in JUMPS if passed >= after)

time.time = lambda: REAL() + offset()
clock.utc_now = lambda: datetime.datetime.fromtimestamp(REAL() + offset(), datetime.timezone.utc)
"""
HOUR = 3600


def with_jumps(place: Workspace, *jumps: tuple[float, int]) -> dict[str, str]:
    """The environment of a process whose clock jumps by so many seconds after so many of its life."""
    folder = place.home / "clock"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(JUMPING.format(jumps=list(jumps)))
    return {"TAOTOKEN_API_KEY": KEY, "PYTHONPATH": str(folder)}


def finals(folder: Path) -> Counter[str]:
    return Counter(line["call_id"] for line in lines(folder / "token_ledger.jsonl") if line["final"])


@pytest.mark.parametrize(
    "jumps",
    [((2.0, -2 * HOUR),), ((2.0, 26 * HOUR),), ((1.5, -HOUR), (2.5, 2 * HOUR), (3.5, -HOUR))],
    ids=["back two hours", "forward over a day", "to and fro"],
)
def test_a_start_whose_clock_jumps(place: Workspace, jumps: tuple[tuple[float, int], ...]) -> None:
    with gateway(latency=(0.1, 0.3)) as url:
        spec = write_experiment(place, "jumping", url, tasks=8)
        spec.write_text(
            spec.read_text().replace("max_concurrency: 2", "max_concurrency: 2, daily_budget_tokens: 90000")
        )
        began = time.monotonic()
        done = place.run("run", spec, "--plain", **with_jumps(place, *jumps))
        took = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    assert took < 40
    folder = place.experiments / "jumping"
    stamps = [line["timestamp"] for line in lines(folder / "token_ledger.jsonl")]
    moments = [parse_timestamp(stamp).timestamp() for stamp in stamps]
    assert max(moments) - min(moments) >= HOUR - 60, "the clock did not jump within the start"
    assert set(finals(folder).values()) == {1} and len(finals(folder)) == 24
    for line in lines(folder / "token_ledger.jsonl"):
        assert 0 <= line["latency_ms"] < 30_000 and 0 <= line["queue_ms"] < 30_000
    audit = place.run("archive", "audit", next((folder / "archive").iterdir()))
    assert audit.returncode == 0, audit.stderr + audit.stdout
    assert place.run("runs").returncode == 0


def test_a_start_that_died_before_the_clock_was_set_back_is_resumed(place: Workspace) -> None:
    with gateway(latency=(0.05, 0.1)) as url:
        spec = write_experiment(place, "back", url, tasks=8)
        folder = place.experiments / "back"
        ahead = with_jumps(place, (0.0, 3 * HOUR))
        process = place.start("run", spec, "--plain", **ahead)
        deadline = time.monotonic() + 30
        while len(finals(folder)) <= 6:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
        process.communicate()
        before = finals(folder)
        assert "died" in place.run("runs").stdout
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
    assert set(finals(folder).values()) == {1} and len(finals(folder)) == 24
    assert set(before) <= set(finals(folder))
    table = json.loads((folder / "fit.json").read_text())
    assert len(table["strategies"]) == 2
