"""kill -9 at any moment, start again: nothing lost, nothing paid twice, the same result."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.e2e.workspace import Workspace


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def pairs(folder: Path) -> list[dict[str, object]]:
    return [{**line, "experiment_id": ""} for line in lines(folder / "pairwise_records.jsonl")]


def ratings(folder: Path) -> dict[str, float]:
    """Elo and interval ends; the last bits of a matrix product may differ from process to process."""
    fit = json.loads((folder / "fit.json").read_text())
    numbers = ("elo", "elo_lo", "elo_hi", "theta", "se")
    return {f"{row['strategy']} {name}": row[name] for row in fit["strategies"] for name in numbers}


def kill_after(place: Workspace, folder: Path, seconds: float) -> None:
    """Start, wait until calls are made, kill the start (its gateway ends with it)."""
    process = place.start("run", folder, "--plain")
    events = folder / "events.jsonl"
    size = events.stat().st_size if events.exists() else 0
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        if events.exists() and events.stat().st_size > size + 1000:
            break
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def check_kills(place: Workspace, moments: list[float], *, tasks: int = 6) -> None:
    undisturbed = place.small_demo("demo-whole", seed=11, tasks=tasks, runs=2)
    done = place.run("run", undisturbed, "--plain")
    assert done.returncode == 0, done.stderr
    folder = place.small_demo("demo-killed", seed=11, tasks=tasks, runs=2)
    paid: Counter[str] = Counter()
    for seconds in moments:
        kill_after(place, folder, seconds)
        verified = place.run("ledger", "verify", folder)
        assert verified.returncode in (0, 6), verified.stderr
        finals = Counter(
            str(line["call_id"]) for line in lines(folder / "token_ledger.jsonl") if line["final"]
        )
        assert set(paid) <= set(finals), "a line that was there is gone"
        paid = finals
    done = place.run("run", folder, "--plain")
    assert done.returncode == 0, done.stderr
    finals = Counter(str(line["call_id"]) for line in lines(folder / "token_ledger.jsonl") if line["final"])
    assert set(finals.values()) == {1}, "a call with a final line was made again"
    assert len(finals) == tasks * 2 * 31
    assert pairs(folder) == pairs(undisturbed)
    assert ratings(folder) == pytest.approx(ratings(undisturbed), abs=1e-7)


def test_three_kills(place: Workspace) -> None:
    check_kills(place, [0.1, 0.4, 0.9])


@pytest.mark.slow
def test_twenty_kills_at_random_moments(place: Workspace) -> None:
    chance = random.Random(20261129)
    check_kills(place, [chance.uniform(0.0, 0.35) for _ in range(20)])


@pytest.mark.slow
def test_a_hundred_kills_at_random_moments(place: Workspace) -> None:
    chance = random.Random(20261130)
    check_kills(place, [chance.uniform(0.0, 0.35) for _ in range(100)], tasks=40)


def test_a_torn_line_is_reported_and_the_rest_is_whole(place: Workspace) -> None:
    folder = place.small_demo("demo-torn", tasks=3)
    kill_after(place, folder, 0.5)
    ledger = folder / "token_ledger.jsonl"
    whole = ledger.read_bytes()
    ledger.write_bytes(whole + b'{"experiment_id":"demo-torn","strategy":"sam')
    reported = place.run("ledger", "verify", folder)
    assert reported.returncode == 6
    assert "torn" in (reported.stdout + reported.stderr).lower()
    done = place.run("run", folder, "--plain")
    assert done.returncode == 0, done.stderr
    assert ledger.read_bytes().startswith(whole)


def test_sigterm_drains_and_says_how_to_go_on(place: Workspace) -> None:
    folder = place.small_demo("demo-term", tasks=6)
    process = place.start("run", folder, "--plain")
    events = folder / "events.jsonl"
    while not events.exists() or b"attempt_ended" not in events.read_bytes():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "goes on" in err
    sent = Counter(
        (str(item["call_id"]), item["attempt"]) for item in lines(events) if item["event"] == "call_sent"
    )
    booked = {(str(item["call_id"]), item["attempt"]) for item in lines(folder / "token_ledger.jsonl")}
    assert set(sent) <= booked, "a call that went onto the wire has no ledger line"
