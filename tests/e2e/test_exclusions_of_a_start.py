"""Errors of the gateway are nobody's losses: left out, counted, bounded, and filled by a later start."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.e2e.renaming_gateway import KEY, gateway, lines, write_experiment
from tests.e2e.workspace import Workspace


def fit_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "fit.json").read_text())
    return found


def report_of(folder: Path) -> str:
    newest = max((folder / "archive").iterdir(), key=lambda path: path.name)
    return (newest / "report.md").read_text()


def test_errors_are_left_out_counted_and_bounded(place: Workspace) -> None:
    healed = False
    # The first pass makes a hundred calls; in the second one everything fails again.
    with gateway(fails=lambda call: not healed and (call % 11 == 0 or call > 100)) as url:
        spec = write_experiment(
            place, "failing", url, strategies="k_values: [1, 4]", tasks=20, more="retry: {infra: 0}"
        )
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 5, done.stderr
        folder = place.experiments / "failing"
        outcomes = lines(folder / "outcomes.jsonl")
        errors = Counter(item["strategy"] for item in outcomes if item["outcome"] == "infra_error")
        # One failed call in eleven; four calls meet one far more often than one call does.
        assert errors["sample_4"] > errors["sample_1"]
        assert all(item["score"] is None for item in outcomes if item["outcome"] == "infra_error")
        found = fit_of(folder)["exclusions"]
        assert {name: kinds["infra_error"] for name, kinds in found["errors"].items()} == dict(errors)
        assert found["test"] == "Fisher"
        assert (found["p"] < 0.05) == any(
            warning["code"] == "exclusions_differ" for warning in fit_of(folder)["warnings"]
        )
        assert f"sample_4 {errors['sample_4']} of 20 (infra_error {errors['sample_4']})" in (
            report_of(folder)
        )
        won, lost = found["elo_if_all_won"]["sample_4"], found["elo_if_all_lost"]["sample_4"]
        elo = {row["strategy"]: row["elo"] for row in fit_of(folder)["strategies"]}["sample_4"]
        assert lost < won
        assert lost <= elo + 200
        records = lines(folder / "pairwise_records.jsonl")
        assert len(records) == 20 - len({item["task"] for item in outcomes if item["score"] is None})
        # A later start makes the missing calls alone.
        healed = True
        paid = {line["call_id"] for line in lines(folder / "token_ledger.jsonl") if line["status"] == "ok"}
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
    finals = Counter(
        line["call_id"] for line in lines(folder / "token_ledger.jsonl") if line["status"] == "ok"
    )
    assert set(finals.values()) == {1}
    assert len(finals) == 20 * 5
    assert paid <= set(finals)
    assert fit_of(folder)["exclusions"]["errors"] == {}
    assert "Excluded" not in done.stdout
    assert len(lines(folder / "pairwise_records.jsonl")) == 20


def test_what_passes_is_made_good_within_the_start(place: Workspace) -> None:
    """Only the missing calls of a block are made again, each as the next attempt of its own call."""
    with gateway(fails=lambda call: call % 9 == 0 and call <= 100) as url:
        spec = write_experiment(
            place, "healing", url, strategies="k_values: [1, 4]", tasks=20, more="retry: {infra: 0}"
        )
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    folder = place.experiments / "healing"
    ledger = lines(folder / "token_ledger.jsonl")
    assert len(ledger) == 100 + 11
    failed = {line["call_id"] for line in ledger if line["status"] == "error"}
    assert len(failed) == 11
    for call in failed:
        tries = [(line["attempt"], line["status"]) for line in ledger if line["call_id"] == call]
        assert tries == [(1, "error"), (2, "ok")]
    assert {item["outcome"] for item in lines(folder / "outcomes.jsonl")} <= {"ok", "wrong", "no_answer"}
    assert len(lines(folder / "outcomes.jsonl")) == 40
    ended = [event for event in lines(folder / "events.jsonl") if event["event"] == "block_ended"]
    assert len(ended) == len({event["block"] for event in ended}) == 20
    assert "Excluded" not in done.stdout
