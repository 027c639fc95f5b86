"""Revision in rounds, and the controls beside it, over HTTP against the demo gateway."""

from __future__ import annotations

import csv
import json
import random
import signal
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.renaming_gateway import KEY, gateway, lines, write_experiment
from tests.e2e.workspace import Workspace

ROUNDS = "strategies: [sample_1, rounds_2, {name: long, rounds: 4, keep: last}]"


def finals(folder: Path) -> list[dict[str, Any]]:
    return [line for line in lines(folder / "token_ledger.jsonl") if line["final"]]


def test_each_round_follows_the_answer_before_it_and_the_last_one_is_kept(place: Workspace) -> None:
    with gateway() as url:
        spec = write_experiment(place, "rounds", url, strategies=ROUNDS)
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    folder = place.experiments / "rounds"
    made = finals(folder)
    assert Counter((line["strategy"], line["round"]) for line in made) == {
        ("sample_1", 1): 4,
        **{("rounds_2", number): 4 for number in (1, 2)},
        **{("long", number): 4 for number in (1, 2, 3, 4)},
    }
    assert {line["phase"] for line in made if line["round"] == 1} == {"sample"}
    assert {line["phase"] for line in made if line["round"] > 1} == {"revise"}
    assert len({line["seed"] for line in made}) == len(made)
    # A later round goes onto the wire after the answer before it is on the disk.
    order: dict[str, list[tuple[str, int]]] = defaultdict(list)
    rounds = {line["call_id"]: (line["task"], line["round"]) for line in made if line["strategy"] == "long"}
    for event in lines(folder / "events.jsonl"):
        if event["event"] in ("call_sent", "attempt_ended") and event["call_id"] in rounds:
            task, number = rounds[event["call_id"]]
            order[task].append((event["event"], number))
    assert len(order) == 4
    for steps in order.values():
        assert steps == [(kind, number) for number in (1, 2, 3, 4) for kind in ("call_sent", "attempt_ended")]
    # The prompt grows once, by the answer and the instruction, and the growth is shown.
    prompts: dict[int, list[int]] = defaultdict(list)
    for line in made:
        if line["strategy"] == "long":
            prompts[line["round"]].append(line["prompt_tokens"])
    means = {number: sum(found) / len(found) for number, found in prompts.items()}
    assert means[2] > means[1] + 30
    assert means[4] < 1.5 * means[2]
    shown = " → ".join(f"{means[number]:,.0f}" for number in (1, 2, 3, 4))
    assert f"long: mean prompt tokens by round {shown}" in " ".join(done.stdout.split())
    # The last round's answer is the strategy's.
    texts = {
        (item["task"], item["attempt"]["round"]): item
        for item in lines(folder / "samples.jsonl")
        if item["strategy"] == "long"
    }
    for outcome in lines(folder / "outcomes.jsonl"):
        if outcome["strategy"] == "long":
            assert outcome["answer"] == texts[outcome["task"], 4]["extracted"]
            assert outcome["sample"] == 4


def test_a_killed_start_resumes_in_the_middle_of_a_chain(place: Workspace) -> None:
    with gateway(latency=(0.05, 0.15)) as url:
        whole = write_experiment(place, "whole", url, strategies=ROUNDS, more="seed: 5")
        assert place.run("run", whole, "--plain", TAOTOKEN_API_KEY=KEY).returncode == 0
        spec = write_experiment(place, "chain", url, strategies=ROUNDS, more="seed: 5")
        folder = place.experiments / "chain"
        for answered in (3, 9):
            process = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
            while process.poll() is None and len(lines_so_far(folder)) < answered:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
    assert set(Counter(line["call_id"] for line in finals(folder)).values()) == {1}
    assert len(finals(folder)) == 4 * 7

    def seeds(name: str) -> dict[tuple[str, str, int], int]:
        return {
            (line["strategy"], line["task"], line["round"]): line["seed"]
            for line in finals(place.experiments / name)
        }

    assert seeds("chain") == seeds("whole")
    assert pairs(folder) == pairs(place.experiments / "whole")


def pairs(folder: Path) -> list[dict[str, Any]]:
    return [{**record, "experiment_id": ""} for record in lines(folder / "pairwise_records.jsonl")]


@pytest.mark.slow
def test_fifteen_kills_among_rounds_verifiers_and_canaries(place: Workspace) -> None:
    """Same pairs as an undisturbed start, no answered call made again, no call without a line."""
    strategies = "strategies: [sample_1, rounds_3, {name: checked_3, samples: 3, select: verifier}, oracle_2]"
    more = "seed: 9\nschedule: {canary_every: 3}"
    chance = random.Random(20261129)
    with gateway(latency=(0.02, 0.08)) as url:
        for name in ("calm", "shaken"):
            spec = write_experiment(place, name, url, strategies=strategies, tasks=10, runs=2, more=more)
            (spec.parent / "visible.py").write_text("def grade(answer, task):\n    return len(answer)\n")
            tasks = lines(spec.parent / "tasks.jsonl")
            for task in tasks:
                task["verify"] = {"type": "python", "file": "visible.py"}
            (spec.parent / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
            folder = place.experiments / name
            for _kill in range(15 if name == "shaken" else 0):
                process = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
                before = len(lines_so_far(folder))
                while process.poll() is None and len(lines_so_far(folder)) == before:
                    time.sleep(0.01)
                time.sleep(chance.uniform(0, 0.3))
                process.send_signal(signal.SIGKILL)
                process.communicate()
            done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
            assert done.returncode == 0, done.stderr
    assert pairs(folder) == pairs(place.experiments / "calm")
    whole = finals(folder)
    assert set(Counter(line["call_id"] for line in whole).values()) == {1}
    assert len(whole) == 20 * (1 + 3 + 3 + 2) + 7
    sent = {
        (event["call_id"], event["attempt"])
        for event in lines(folder / "events.jsonl")
        if event["event"] == "call_sent"
    }
    assert sent <= {(line["call_id"], line["attempt"]) for line in lines(folder / "token_ledger.jsonl")}


def lines_so_far(folder: Path) -> list[bytes]:
    ledger = folder / "token_ledger.jsonl"
    return ledger.read_bytes().splitlines() if ledger.exists() else []


@pytest.fixture(scope="module")
def controls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = Workspace(tmp_path_factory.mktemp("home"))
    with gateway(latency=(0.0, 0.0)) as url:
        spec = write_experiment(
            place,
            "controls",
            url,
            strategies="strategies: [sample_1, sample_8, random_8, oracle_8]",
            tasks=16,
            runs=2,
        )
        spec.write_text(spec.read_text().replace("max_concurrency: 2", "max_concurrency: 8"))
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
        assert "oracle_8" in done.stdout
    return place.experiments / "controls"


def rows(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "elo_result.csv").open() as table:
        return {row["strategy"]: row for row in csv.DictReader(table)}


def test_the_ceiling_stands_beside_the_fit(controls: Path) -> None:
    ceiling = rows(controls)["oracle_8"]
    assert ceiling["role"] == "ceiling"
    assert ceiling["elo"] == ceiling["delta_elo"] == ceiling["marginal_elo_per_1k"] == ""
    assert ceiling["k"] == "8"
    ledger = [line for line in lines(controls / "token_ledger.jsonl") if line["strategy"] == "oracle_8"]
    assert int(ceiling["total_tokens"]) == sum(line["total_tokens"] or 0 for line in ledger)
    assert int(ceiling["calls"]) == 16 * 2 * 8
    fit = json.loads((controls / "fit.json").read_text())
    assert "oracle_8" not in {row["strategy"] for row in fit["strategies"]}
    scores = [item["score"] for item in lines(controls / "outcomes.jsonl") if item["strategy"] == "oracle_8"]
    (found,) = fit["ceilings"]
    assert found["strategy"] == "oracle_8"
    assert found["mean_score"] == pytest.approx(sum(scores) / len(scores))
    assert found["tokens_per_task_run"] == pytest.approx(float(ceiling["tokens_per_task_run"]))
    # The best of eight by the grader is never below one of the eight's majority in expectation.
    assert found["mean_score"] > fit["mean_scores"]["sample_8"]


def test_the_founding_columns_are_read_back_from_a_table_with_a_ceiling(controls: Path) -> None:
    place = Workspace(controls.parent.parent)
    done = place.run("fit", "--table", controls / "elo_result.csv")
    assert done.returncode == 0, done.stderr
    assert "sample_8" in done.stdout
    assert "oracle_8" not in done.stdout
    planned = place.run("plan", controls, "--tokens", controls / "elo_result.csv", "--json")
    assert json.loads(planned.stdout)["tokens_high"] > 0


def test_a_random_choice_among_eight_is_no_better_than_one(controls: Path) -> None:
    records = [
        line
        for line in lines(controls / "pairwise_records.jsonl")
        if {line["a"], line["b"]} == {"random_8", "sample_1"}
    ]
    assert len(records) == 32
    fit = json.loads((controls / "fit.json").read_text())
    row = next(row for row in fit["strategies"] if row["strategy"] == "random_8")
    assert row["gain_lo"] <= 0 <= row["gain_hi"]
    assert rows(controls)["random_8"]["role"] == "control"


def test_the_audit_derives_the_ceiling_again(controls: Path) -> None:
    place = Workspace(controls.parent.parent)
    packed = next((controls / "archive").iterdir())
    done = place.run("archive", "audit", packed)
    assert done.returncode == 0, done.stdout + done.stderr
    table = packed / "elo_result.csv"
    table.write_text("".join(line for line in table.read_text().splitlines(True) if "oracle_8" not in line))
    assert place.run("archive", "audit", packed).returncode == 6
