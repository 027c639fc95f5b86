"""The main job as a newcomer sees it: one command, three artefacts, numbers that agree with one another."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from tests.e2e.workspace import Workspace

FOUNDING_FIELDS = [
    "experiment_id",
    "strategy",
    "task",
    "run",
    "model",
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "timestamp",
]
FOUNDING_QUERY = (
    "group_by(.strategy) | map({strategy: .[0].strategy, runs: length, "
    "total_tokens: (map(.total_tokens) | add), avg_tokens: ((map(.total_tokens) | add) / length)})"
)


@pytest.fixture(scope="module")
def finished(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Workspace, Path, subprocess.CompletedProcess[str]]:
    place = Workspace(tmp_path_factory.mktemp("home"))
    folder = place.small_demo("demo-small", tasks=10)
    return place, folder, place.run("run", folder, "--plain")


Finished = tuple[Workspace, Path, subprocess.CompletedProcess[str]]


def ledger(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "token_ledger.jsonl").read_text().splitlines()]


def test_it_ends_well_and_leaves_the_three_artefacts(finished: Finished) -> None:
    _place, folder, done = finished
    assert done.returncode == 0, done.stderr
    assert "SIMULATION" in done.stderr
    for name in ("token_ledger.jsonl", "pairwise_records.jsonl", "elo_result.csv"):
        assert (folder / name).stat().st_size > 0
    packed = list((folder / "archive").iterdir())
    assert len(packed) == 1
    assert {"manifest.json", "token_ledger.jsonl", "elo_result.csv"} <= {
        item.name for item in packed[0].iterdir()
    }


def test_ledger_lines_carry_the_nine_founding_fields_first_and_say_demo(finished: Finished) -> None:
    lines = ledger(finished[1])
    assert len(lines) >= 10 * 31
    for line in lines:
        assert list(line)[:9] == FOUNDING_FIELDS
        assert line["origin"] == "demo"


def test_every_call_of_every_block_has_one_final_line(finished: Finished) -> None:
    finals: dict[str, int] = defaultdict(int)
    for line in ledger(finished[1]):
        if line["final"]:
            finals[str(line["call_id"])] += 1
    assert len(finals) == 10 * 31
    assert set(finals.values()) == {1}


def test_the_table_has_the_ledgers_tokens(finished: Finished) -> None:
    sums: dict[str, int] = defaultdict(int)
    for line in ledger(finished[1]):
        sums[str(line["strategy"])] += int(line["total_tokens"] or 0)  # type: ignore[call-overload]
    with (finished[1] / "elo_result.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert [row["strategy"] for row in rows] == ["sample_1", "sample_2", "sample_4", "sample_8", "sample_16"]
    assert {row["strategy"]: int(row["total_tokens"]) for row in rows} == dict(sums)


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_founding_totals_equal_the_founding_query_in_every_field(finished: Finished) -> None:
    place, folder, _done = finished
    theirs = subprocess.run(
        ["jq", "-s", FOUNDING_QUERY, str(folder / "token_ledger.jsonl")],
        capture_output=True,
        text=True,
        check=True,
    )
    ours = place.run("ledger", "totals", folder, "--founding", "--json")
    assert ours.returncode == 0, ours.stderr
    assert json.loads(ours.stdout) == json.loads(theirs.stdout)


def test_a_pair_record_for_every_pair_of_every_block(finished: Finished) -> None:
    records = [json.loads(line) for line in (finished[1] / "pairwise_records.jsonl").read_text().splitlines()]
    assert len(records) == 10 * 10  # ten blocks, five strategies: ten pairs
    assert {record["outcome"] for record in records} <= {"a", "b", "tie"}


def test_starting_a_finished_one_again_prints_its_table_and_calls_nobody(finished: Finished) -> None:
    place, folder, first = finished
    before = (folder / "token_ledger.jsonl").read_bytes()
    again = place.run("run", folder, "--plain")
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout
    assert (folder / "token_ledger.jsonl").read_bytes() == before


def test_the_archive_can_be_audited(finished: Finished) -> None:
    place, folder, _done = finished
    packed = next((folder / "archive").iterdir())
    done = place.run("archive", "audit", packed)
    assert done.returncode == 0, done.stdout + done.stderr


def test_events_are_what_run_json_prints(place: Workspace) -> None:
    folder = place.small_demo("demo-json", tasks=2)
    done = place.run("run", folder, "--json")
    assert done.returncode == 0, done.stderr
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert printed == [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert printed[0]["event"] == "start_opened"
    assert printed[-1] == {**printed[-1], "event": "start_ended", "status": "complete"}
