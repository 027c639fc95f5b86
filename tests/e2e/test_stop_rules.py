"""Rules that end a start early, canaries, and halves: what the user asked for, told apart from a fault."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.renaming_gateway import KEY, gateway, lines, write_experiment
from tests.e2e.workspace import Workspace

from elometer.core.clock import parse_timestamp

FAST = {"latency": (0.0, 0.01)}


def manifest(folder: Path) -> dict[str, Any]:
    newest = max((folder / "archive").iterdir(), key=lambda path: path.name)
    found: dict[str, Any] = json.loads((newest / "manifest.json").read_text())
    return found


def spent(folder: Path) -> int:
    return sum(line["total_tokens"] or 0 for line in lines(folder / "token_ledger.jsonl"))


def blocks_done(folder: Path) -> int:
    return len({(item["task"], item["run"]) for item in lines(folder / "outcomes.jsonl")})


def test_spend_tokens_is_kept_and_is_no_fault(place: Workspace) -> None:
    with gateway(**FAST) as url:
        spec = write_experiment(place, "thrifty", url, tasks=20, runs=2, more="stop: {spend_tokens: 4000}")
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
        folder = place.experiments / "thrifty"
        assert 3000 < spent(folder) <= 4000
        assert blocks_done(folder) < 40
        assert manifest(folder)["status"] == "partial"
        assert manifest(folder)["reason"] == "stop_rule"
        assert "spend_tokens" in manifest(folder)["message"]
        assert "spend_tokens" in done.stderr
        assert {item["outcome"] for item in lines(folder / "outcomes.jsonl")} <= {"ok", "wrong", "no_answer"}
        before = spent(folder)
        again = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert again.returncode == 0, again.stderr
        assert spent(folder) <= max(4000, before)
        spec.write_text(spec.read_text().replace("spend_tokens: 4000", "spend_tokens: 900000"))
        assert place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY).returncode == 0
        assert blocks_done(folder) == 40


def test_a_deadline_drains(place: Workspace) -> None:
    with gateway(latency=(0.2, 0.4)) as url:
        deadline = datetime.now(UTC) + timedelta(seconds=6)
        more = f"stop: {{deadline: '{deadline.isoformat()}'}}"
        spec = write_experiment(place, "late", url, tasks=60, runs=2, more=more)
        began = time.monotonic()
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 20
    folder = place.experiments / "late"
    assert manifest(folder)["reason"] == "stop_rule"
    assert "deadline" in manifest(folder)["message"]
    assert all(line["status"] == "ok" for line in lines(folder / "token_ledger.jsonl"))


def test_a_key_that_expires_within_a_start_is_used_no_more(place: Workspace) -> None:
    with gateway(latency=(0.2, 0.4)) as url:
        spec = write_experiment(place, "expiring", url, tasks=60, runs=2)
        expires = datetime.now(UTC) + timedelta(seconds=6)
        bound = f"max_concurrency: 2, expires_at: '{expires.isoformat()}'"
        spec.write_text(spec.read_text().replace("max_concurrency: 2", bound))
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 3, done.stderr
        assert "expired" in done.stderr and expires.isoformat() in done.stderr
        folder = place.experiments / "expiring"
        sent = [parse_timestamp(line["timestamp"]) for line in lines(folder / "token_ledger.jsonl")]
        assert sent and max(sent) < expires + timedelta(seconds=1)
        assert all(line["status"] == "ok" for line in lines(folder / "token_ledger.jsonl"))
        assert manifest(folder)["reason"] == "expired"
        again = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert again.returncode == 3
        assert len(lines(folder / "token_ledger.jsonl")) == len(sent)


def test_precision_ends_it_at_a_look_and_not_between(place: Workspace) -> None:
    with gateway(**FAST) as url:
        more = "stop: {ci_halfwidth_elo: 400, looks: [0.5, 0.25, 1.0]}"
        spec = write_experiment(place, "precise", url, tasks=20, runs=2, more=more)
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
        folder = place.experiments / "precise"
        looks = [event for event in lines(folder / "events.jsonl") if event["event"] == "look"]
        assert [look["share"] for look in looks] in ([0.25], [0.25, 0.5])
        assert looks[-1]["enough"]
        assert looks[-1]["halfwidth_elo"] <= 400
        assert manifest(folder)["reason"] == "stop_rule"
        assert blocks_done(folder) < 40
        # Open blocks were finished: nothing is half done, and going on stops at once without a call.
        assert all(item["score"] is not None for item in lines(folder / "outcomes.jsonl"))
        before = spent(folder)
        assert place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY).returncode == 0
        assert spent(folder) == before


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Path]:
    place = Workspace(tmp_path_factory.mktemp("home"))
    with gateway(**FAST) as url:
        spec = write_experiment(
            place, "watched", url, tasks=10, runs=2, more="schedule: {canary_every: 5, half_check: true}"
        )
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
        assert "Canary: 4 answers, 4 like the first, 0 failed" in done.stdout
        assert "First half of the blocks against the second" in done.stdout
        planned = json.loads(place.run("plan", spec, "--json").stdout)
        assert planned["calls"] == 20 * 3 + 4
    return place, place.experiments / "watched"


def test_canaries_are_charged_to_nobody(watched: tuple[Workspace, Path]) -> None:
    place, folder = watched
    canaries = [line for line in lines(folder / "token_ledger.jsonl") if line["phase"] == "canary"]
    assert [line["block"] for line in sorted(canaries, key=lambda line: line["run"])] == [0, 5, 10, 15]
    assert {line["strategy"] for line in canaries} == {None}
    assert len({line["seed"] for line in canaries}) == 1
    assert {line["temperature"] for line in canaries} == {0}
    rows = json.loads(place.run("ledger", "totals", folder, "--json").stdout)
    assert {row["strategy"]: row["calls"] for row in rows} == {"sample_1": 20, "sample_2": 40, None: 4}
    assert set(manifest(folder)["totals"]) == {"sample", "canary"}


def test_a_canary_that_died_is_booked_and_asked_again(place: Workspace) -> None:
    with gateway(latency=(0.4, 0.6)) as url:
        spec = write_experiment(place, "bird", url, tasks=2, more="schedule: {canary_every: 1}")
        folder = place.experiments / "bird"
        process = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        while not any(
            event["event"] == "call_sent" and event["strategy"] is None
            for event in lines(folder / "events.jsonl")
        ):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.communicate()
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
    canaries = [line for line in lines(folder / "token_ledger.jsonl") if line["phase"] == "canary"]
    assert sorted((line["run"], line["status"]) for line in canaries) in (
        [(1, "cancelled"), (1, "ok"), (2, "ok")],
        [(1, "cancelled"), (1, "ok"), (2, "cancelled"), (2, "ok")],
    )
    assert {line["error_class"] for line in canaries if line["status"] == "cancelled"} == {"process_died"}


def test_halves_are_in_fit_and_report(watched: tuple[Workspace, Path]) -> None:
    place, folder = watched
    fit = json.loads((folder / "fit.json").read_text())
    assert fit["halves"]["blocks"] == [10, 10]
    assert [change["strategy"] for change in fit["halves"]["changes"]] in (["sample_2"], [])
    assert fit["canary"]["answers"] == 4
    (packed,) = (folder / "archive").iterdir()
    assert "Canary: 4 answers" in (packed / "report.md").read_text()
    assert place.run("archive", "audit", packed).returncode == 0
