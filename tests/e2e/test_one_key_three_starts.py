"""Three starts of different experiments on one key, each with more work than the day's budget has room for."""

from __future__ import annotations

import json
import time
import urllib.request
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.e2e.renaming_gateway import KEY, gateway, lines, write_experiment
from tests.e2e.workspace import Workspace

from elometer.runs.calls import StartFacts, all_calls, worst_case
from elometer.runs.spec import load_experiment
from elometer.runs.tasks import load_tasks

BUDGET = 15_000
PLACES = 5
NAMES = ("one", "two", "three")


def told(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/demo/counters", timeout=10) as reply:
        found: dict[str, Any] = json.loads(reply.read())
    return found


def dearest_call(spec: Path) -> int:
    experiment = load_experiment(spec)
    facts = StartFacts(
        run_id="", origin="live", pid=0, host="", gateway="", key_label="", key_fp="", profile=None
    )
    return max(worst_case(call) for call in all_calls(experiment, load_tasks(experiment, spec.parent), facts))


def dear_block(folders: list[Path]) -> float:
    """The 90th percentile of tokens of a finished block."""
    found: list[int] = []
    for folder in folders:
        tokens: dict[int, int] = defaultdict(int)
        for line in lines(folder / "token_ledger.jsonl"):
            tokens[line["block"]] += line["total_tokens"] or 0
        found += tokens.values()
    return sorted(found)[int(0.9 * len(found))]


def test_budget_and_places_hold_over_all_of_them(place: Workspace) -> None:
    with gateway(latency=(0.02, 0.08)) as url:
        specs = []
        for name in NAMES:
            spec = write_experiment(place, name, url, tasks=48, runs=2)
            bound = f"max_concurrency: {PLACES}, daily_budget_tokens: {BUDGET}"
            spec.write_text(spec.read_text().replace("max_concurrency: 2", bound))
            specs.append(spec)
        starts = [place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY) for spec in specs]
        ended = [start.communicate(timeout=120) for start in starts]
        seen = told(url)
    assert [start.returncode for start in starts] == [4, 4, 4], ended
    folders = [place.experiments / name for name in NAMES]
    booked = [line for folder in folders for line in lines(folder / "token_ledger.jsonl")]
    assert sum(line["total_tokens"] or 0 for line in booked) == seen["total_tokens"] <= BUDGET
    assert BUDGET - seen["total_tokens"] < dear_block(folders) + dearest_call(specs[0])
    assert seen["peak_in_flight"] <= PLACES
    assert seen["statuses"] == {"200": seen["calls"]}, "nobody was refused for a missing place"
    assert Counter(line["final"] for line in booked)[True] == seen["calls"]
    for folder in folders:
        assert lines(folder / "events.jsonl")[-1]["reason"] == "budget"


def test_a_paused_start_leaves_its_places_to_another(place: Workspace) -> None:
    with gateway(latency=(0.05, 0.1)) as url:
        held, other = (write_experiment(place, name, url, tasks=12) for name in ("held", "other"))
        process = place.start("run", held, "--plain", TAOTOKEN_API_KEY=KEY)
        folder = place.experiments / "held"
        deadline = time.monotonic() + 30
        while not lines(folder / "token_ledger.jsonl"):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        assert place.run("control", "held", "pause").returncode == 0
        done = place.run("run", other, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
        assert place.run("control", "held", "resume").returncode == 0
        _out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert told(url)["peak_in_flight"] <= 2
