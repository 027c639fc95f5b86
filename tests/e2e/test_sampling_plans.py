"""Sampling plans that share calls, over HTTP against the demo gateway."""

from __future__ import annotations

import csv
import json
import random
import shutil
import signal
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.renaming_gateway import KEY, gateway, lines, write_experiment
from tests.e2e.workspace import Workspace

LADDER = "strategies: [sample_1, sample_2, sample_4, random_4, rounds_2, rounds_4]"
TASKS, RUNS = 3, 2
# One stock per (task, run): four answers, and three revisions of the first.
CALLS = TASKS * RUNS * (4 + 3)
USES = {"sample_1": 1, "sample_2": 2, "sample_4": 4, "random_4": 4, "rounds_2": 2, "rounds_4": 4}


def nested(plan: str) -> str:
    return f"sampling: {{plan: {plan}, runs: {RUNS}}}"


def write(place: Workspace, name: str, url: str, plan: str, strategies: str = LADDER, more: str = "") -> Path:
    spec = write_experiment(place, name, url, strategies=strategies, tasks=TASKS, runs=RUNS, more=more)
    spec.write_text(spec.read_text().replace(f"sampling: {{runs: {RUNS}}}", nested(plan)))
    return spec


def finals(folder: Path) -> list[dict[str, Any]]:
    return [line for line in lines(folder / "token_ledger.jsonl") if line["final"]]


def founding(ledger: list[dict[str, Any]]) -> dict[str | None, float]:
    """The founding sum: total_tokens of all lines, by strategy."""
    sums: dict[str | None, float] = defaultdict(float)
    for line in ledger:
        sums[line["strategy"]] += line["total_tokens"] or 0
    return dict(sums)


def table(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "elo_result.csv").open() as rows:
        return {row["strategy"]: row for row in csv.DictReader(rows)}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A nested start; returns its folder."""
    place = Workspace(tmp_path_factory.mktemp("home"))
    with gateway() as url:
        spec = write(place, "shared", url, "nested")
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
    return place.experiments / "shared"


def test_each_call_is_made_once_and_names_its_users(shared: Path) -> None:
    made = finals(shared)
    assert len(made) == len({line["call_id"] for line in made}) == CALLS
    assert len({line["seed"] for line in made}) == CALLS
    users = {(line["sample"], line["round"]): line["used_by"] for line in made}
    everyone = ["random_4", "rounds_2", "rounds_4", "sample_1", "sample_2", "sample_4"]
    assert users == {
        (1, 1): everyone,
        (2, 1): ["random_4", "sample_2", "sample_4"],
        (3, 1): ["random_4", "sample_4"],
        (4, 1): ["random_4", "sample_4"],
        (1, 2): ["rounds_2", "rounds_4"],
        (1, 3): ["rounds_4"],
        (1, 4): ["rounds_4"],
    }
    # The largest user owns a call, a contestant before a control.
    owners = {(line["sample"], line["round"]): line["strategy"] for line in made}
    assert Counter(owners.values()) == {"sample_4": 3, "rounds_4": 4}
    assert owners[1, 1] == "rounds_4"


def test_a_strategy_is_charged_for_every_call_that_its_answer_rests_on(shared: Path) -> None:
    charged: dict[str, int] = defaultdict(int)
    calls: Counter[str] = Counter()
    for line in lines(shared / "token_ledger.jsonl"):
        for name in line["used_by"] or ():
            charged[name] += line["total_tokens"]
            calls[name] += 1
    rows = table(shared)
    assert {name: int(row["total_tokens"]) for name, row in rows.items()} == charged
    assert {name: int(row["calls"]) for name, row in rows.items()} == calls
    assert calls == {name: count * TASKS * RUNS for name, count in USES.items()}
    for name, row in rows.items():
        assert float(row["tokens_per_task_run"]) == pytest.approx(charged[name] / (TASKS * RUNS), abs=0.06)


def test_the_expanded_export_gives_the_founding_sum_what_is_charged(shared: Path) -> None:
    place = Workspace(shared.parent.parent)
    done = place.run("ledger", "export", shared, "--expand")
    assert done.returncode == 0, done.stderr
    expanded = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(expanded) == sum(USES.values()) * TASKS * RUNS
    assert founding(expanded) == {name: int(row["total_tokens"]) for name, row in table(shared).items()}
    # What is spent is there once.
    spent = sum(line["total_tokens"] for line in expanded if line["spent"])
    assert spent == sum(line["total_tokens"] for line in lines(shared / "token_ledger.jsonl"))


def test_why_and_the_result_speak_of_shared_calls(shared: Path) -> None:
    place = Workspace(shared.parent.parent)
    done = place.run("why", "shared", "sample_1")
    assert done.returncode == 0, done.stderr
    assert "has no line in the ledger" not in done.stdout
    fit = json.loads((shared / "fit.json").read_text())
    rows = table(shared)
    spent = sum(line["total_tokens"] for line in lines(shared / "token_ledger.jsonl"))
    charged = sum(int(row["total_tokens"]) for row in rows.values())
    assert fit["sharing"] == {"plan": "nested", "charged_tokens": charged, "spent_tokens": spent}
    assert spent < charged
    # Every round's prompt, also of a first round that others rest on.
    assert list(fit["prompt_tokens_by_round"]) == ["rounds_2", "rounds_4"]
    assert list(fit["prompt_tokens_by_round"]["rounds_2"]) == ["1", "2"]


def test_smaller_strategies_are_the_first_part_of_larger_ones(shared: Path) -> None:
    texts = {
        (item["task"], item["run"], item["attempt"]["sample"], item["attempt"]["round"]): item
        for item in lines(shared / "samples.jsonl")
    }
    outcomes = {
        (item["task"], item["run"], item["strategy"]): item for item in lines(shared / "outcomes.jsonl")
    }
    for (task, run, name), outcome in outcomes.items():
        if name.startswith("rounds"):
            state = texts[task, run, 1, int(name[-1])]
            assert outcome["answer"] == state["extracted"]
        if name == "sample_1":
            assert outcome["answer"] == texts[task, run, 1, 1]["extracted"]


def test_the_archive_audits_and_says_the_plan(shared: Path) -> None:
    place = Workspace(shared.parent.parent)
    packed = next((shared / "archive").iterdir())
    done = place.run("archive", "audit", packed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nested" in (packed / "report.md").read_text()
    assert json.loads((packed / "manifest.json").read_text())["sampling"]["plan"] == "nested"


def test_rounds_8_holds_rounds_4(place: Workspace) -> None:
    """The same experiment under both plans: five calls of thirteen are saved, and nothing else changes."""
    counts = {}
    with gateway() as url:
        for plan in ("independent", "nested"):
            spec = write(place, plan, url, plan, "strategies: [sample_1, rounds_4, rounds_8]")
            done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
            assert done.returncode == 0, done.stderr
            counts[plan] = len(finals(place.experiments / plan))
    assert counts == {"independent": TASKS * RUNS * 13, "nested": TASKS * RUNS * 8}
    folder = place.experiments / "nested"
    state = {
        (item["task"], item["run"], item["attempt"]["round"]): item["extracted"]
        for item in lines(folder / "samples.jsonl")
    }
    for item in lines(folder / "outcomes.jsonl"):
        number = {"sample_1": 1, "rounds_4": 4, "rounds_8": 8}[item["strategy"]]
        assert item["answer"] == state[item["task"], item["run"], number]


@pytest.mark.slow
def test_a_killed_nested_start_makes_no_answered_call_again(place: Workspace) -> None:
    with gateway(latency=(0.03, 0.1)) as url:
        whole = write(place, "whole", url, "nested", more="seed: 5")
        assert place.run("run", whole, "--plain", TAOTOKEN_API_KEY=KEY).returncode == 0
        spec = write(place, "killed", url, "nested", more="seed: 5")
        folder = place.experiments / "killed"
        for answered in (3, 11, 25):
            process = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
            while process.poll() is None and len(lines(folder / "token_ledger.jsonl")) < answered:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
    assert set(Counter(line["call_id"] for line in finals(folder)).values()) == {1}
    assert len(finals(folder)) == CALLS

    def pairs(name: str) -> list[dict[str, Any]]:
        return [
            {**one, "experiment_id": ""} for one in lines(place.experiments / name / "pairwise_records.jsonl")
        ]

    assert pairs("killed") == pairs("whole")


def test_a_missing_shared_call_leaves_out_each_of_its_users(place: Workspace) -> None:
    """One call at a time; the third one of the start fails for good."""
    with gateway(fails=lambda n: n > 2) as url:
        spec = write(place, "missing", url, "nested", "k_values: [1, 2, 4]")
        text = spec.read_text().replace("max_concurrency: 2", "max_concurrency: 1")
        spec.write_text(text + "retry: {infra: 0}\n")
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 5, done.stderr
    folder = place.experiments / "missing"
    assert [line["sample"] for line in finals(folder) if line["status"] == "ok"] == [1, 2]
    first = finals(folder)[0]
    found = {
        item["strategy"]: item["outcome"]
        for item in lines(folder / "outcomes.jsonl")
        if (item["task"], item["run"]) == (first["task"], first["run"])
    }
    assert found["sample_4"] == "infra_error"
    assert found["sample_1"] in ("ok", "wrong", "no_answer")
    assert found["sample_2"] in ("ok", "wrong", "no_answer")


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A start that draws from a pool; returns its folder."""
    place = Workspace(tmp_path_factory.mktemp("home"))
    with gateway() as url:
        spec = write(place, "pooled", url, "pool", "strategies: [sample_1, sample_2, sample_4, oracle_2]")
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
    return place.experiments / "pooled"


def test_a_pool_is_drawn_once_and_charged_by_share(pooled: Path) -> None:
    made = finals(pooled)
    # Four and two: the two largest share no draw.
    assert Counter((line["task"], line["run"]) for line in made) == Counter(
        {(line["task"], line["run"]): 6 for line in made}
    )
    assert {line["strategy"] for line in made} == {"sample_4"}
    rows = table(pooled)
    for name, k in {"sample_1": 1, "sample_2": 2, "sample_4": 4, "oracle_2": 2}.items():
        # k times the mean draw of each of six task-runs.
        means = defaultdict(list)
        for line in made:
            means[line["task"], line["run"]].append(line["total_tokens"])
        charged = sum(k * sum(tokens) / len(tokens) for tokens in means.values())
        assert int(rows[name]["total_tokens"]) == round(charged)
        assert int(rows[name]["calls"]) == k * TASKS * RUNS
        assert float(rows[name]["tokens_per_task_run"]) == pytest.approx(charged / 6, abs=0.06)


def test_pool_records_say_shares_and_the_audit_derives_them_again(pooled: Path) -> None:
    records = lines(pooled / "pairwise_records.jsonl")
    assert len(records) == 3 * TASKS * RUNS
    for one in records:
        assert 0 <= one["share_a"] + one["share_b"] <= 1
        assert one["outcome"] == (
            "tie" if one["share_a"] == one["share_b"] else "a" if one["share_a"] > one["share_b"] else "b"
        )
        # With scores of 0 and 1: mean scores differ by what each wins of the other, but for the redraws.
        assert one["score_b"] - one["score_a"] == pytest.approx(one["share_b"] - one["share_a"], abs=0.2)
    place = Workspace(pooled.parent.parent)
    packed = next((pooled / "archive").iterdir())
    done = place.run("archive", "audit", packed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pool of 6 draws" in (packed / "report.md").read_text()
    refit = place.run(
        "fit", packed / "pairwise_records.jsonl", "--ledger", packed / "token_ledger.jsonl", "--json"
    )
    assert refit.returncode == 0, refit.stderr
    again = {row["strategy"]: row for row in json.loads(refit.stdout)["strategies"]}
    for name, row in table(pooled).items():
        if row["role"] != "ceiling":
            assert again[name]["elo"] == pytest.approx(float(row["elo"]), abs=0.01)
            assert again[name]["total_tokens"] == int(row["total_tokens"])


def test_the_expanded_export_of_a_pool(pooled: Path) -> None:
    place = Workspace(pooled.parent.parent)
    done = place.run("ledger", "export", pooled, "--expand")
    expanded = [json.loads(line) for line in done.stdout.splitlines()]
    sums = founding(expanded)
    # What was paid is nobody's line; what each strategy is charged adds up to the table.
    assert sums.pop(None) == sum(line["total_tokens"] for line in lines(pooled / "token_ledger.jsonl"))
    assert {name: round(tokens) for name, tokens in sums.items()} == {
        name: int(row["total_tokens"]) for name, row in table(pooled).items()
    }


def test_continuous_scores_pair_across_runs_and_a_resumed_pool_asks_nothing_again(place: Workspace) -> None:
    from elometer.gateway.demo.experiment import continuous_experiment

    for plan in ("nested", "pool"):
        folder = place.experiments / plan
        folder.mkdir(parents=True)
        spec, tasks = continuous_experiment(3, experiment_id=plan, tasks=4, runs=2, k_values=(1, 2, 4))
        (folder / "experiment.yaml").write_text(spec.replace("sampling:\n", f"sampling:\n  plan: {plan}\n"))
        (folder / "tasks.jsonl").write_text(tasks)
        process = place.start("run", folder, "--plain")
        while process.poll() is None and len(lines(folder / "token_ledger.jsonl")) < 8:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        done = place.run("run", folder, "--plain")
        assert done.returncode == 0, done.stderr
        assert len(finals(folder)) == 4 * 2 * {"nested": 4, "pool": 6}[plan]
        assert set(Counter(line["call_id"] for line in finals(folder)).values()) == {1}
        records = lines(folder / "pairwise_records.jsonl")
        if plan == "nested":
            assert {(one["run_a"], one["run_b"]) for one in records} == {(1, 2), (2, 1)}
        audited = place.run("archive", "audit", next((folder / "archive").iterdir()))
        assert audited.returncode == 0, audited.stdout


def test_a_share_that_was_changed_is_found_by_the_audit(pooled: Path, tmp_path: Path) -> None:
    place = Workspace(pooled.parent.parent)
    copy = tmp_path / "archive"
    shutil.copytree(next((pooled / "archive").iterdir()), copy)
    records = copy / "pairwise_records.jsonl"
    records.write_text(records.read_text().replace('"share_a":', '"share_a":0.0,"was":', 1))
    done = place.run("archive", "audit", copy)
    assert done.returncode == 6
    assert "not the pair that the outcomes give" in done.stdout + done.stderr


def test_the_expanded_export_as_csv_and_back(shared: Path, tmp_path: Path) -> None:
    place = Workspace(shared.parent.parent)
    out = tmp_path / "uses.csv"
    assert (
        place.run("ledger", "export", shared, "--expand", "--format", "csv", "--output", out).returncode == 0
    )
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["strategy"] for row in rows) == {name: n * TASKS * RUNS for name, n in USES.items()}
    assert sum(int(row["total_tokens"]) for row in rows if row["spent"] == "true") == sum(
        line["total_tokens"] for line in lines(shared / "token_ledger.jsonl")
    )
    # Copies are no further calls: adding the export to a ledger that has them adds nothing.
    uses = tmp_path / "uses.jsonl"
    assert place.run("ledger", "export", shared, "--expand", "--output", uses).returncode == 0
    added = place.run("ledger", "add", uses, "--to", shared / "token_ledger.jsonl")
    assert added.returncode == 0, added.stderr
    assert "were there already" in added.stderr


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["nested", "pool"])
def test_fifteen_kills_under_plans_that_share_calls(place: Workspace, plan: str) -> None:
    """Same pairs as an undisturbed start, no answered call made again, every attempt that was sent booked."""
    ladder = LADDER if plan == "nested" else "strategies: [sample_1, sample_2, sample_4, random_4, oracle_2]"
    chance = random.Random(20261129)
    with gateway(latency=(0.02, 0.08)) as url:
        for name in ("calm", "shaken"):
            spec = write(place, name, url, plan, ladder, more="seed: 9")
            folder = place.experiments / name
            for _kill in range(15 if name == "shaken" else 0):
                process = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
                before = len(lines(folder / "token_ledger.jsonl"))
                while process.poll() is None and len(lines(folder / "token_ledger.jsonl")) == before:
                    time.sleep(0.01)
                time.sleep(chance.uniform(0, 0.2))
                process.send_signal(signal.SIGKILL)
                process.communicate()
            done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
            assert done.returncode == 0, done.stderr

    def pairs(name: str) -> list[dict[str, Any]]:
        records = lines(place.experiments / name / "pairwise_records.jsonl")
        return [{**one, "experiment_id": ""} for one in records]

    shaken = place.experiments / "shaken"
    assert pairs("shaken") == pairs("calm")
    assert len(finals(shaken)) == len(finals(place.experiments / "calm"))
    assert set(Counter(line["call_id"] for line in finals(shaken)).values()) == {1}
    sent = {
        (event["call_id"], event["attempt"])
        for event in lines(shaken / "events.jsonl")
        if event["event"] == "call_sent"
    }
    assert sent <= {(line["call_id"], line["attempt"]) for line in lines(shaken / "token_ledger.jsonl")}
    audited = place.run("archive", "audit", next((shaken / "archive").iterdir()))
    assert audited.returncode == 0, audited.stdout
