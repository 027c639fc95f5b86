"""`why` on a finished demo as it is, and with four causes planted into copies of its files."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.workspace import Workspace

from elometer.checks.why import Why
from elometer.core.errors import UsageError
from elometer.gateway.demo.experiment import demo_experiment
from elometer.jobs.why import why

ODD, USUAL = "sample_8", "sample_4"
TASK = "demo-03"
Row = dict[str, Any]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Path]:
    place = Workspace(tmp_path_factory.mktemp("why"))
    folder = place.experiments / "demo-why"
    folder.mkdir(parents=True, mode=0o700)
    spec, tasks = demo_experiment(
        11, experiment_id="demo-why", tasks=8, runs=3, k_values=(1, 2, 4, 8), max_concurrency=32
    )
    (folder / "experiment.yaml").write_text(spec)
    (folder / "tasks.jsonl").write_text(tasks)
    for file in folder.iterdir():
        file.chmod(0o600)
    done = place.run("run", folder, "--plain")
    assert done.returncode == 0, done.stderr
    return place, folder


@pytest.fixture
def copy(
    finished: tuple[Workspace, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Path]:
    """The finished folder again, for a plant to be put in."""

    def make() -> Path:
        target = tmp_path / "bt-eval" / "demo-why"
        shutil.copytree(finished[1], target)
        monkeypatch.setenv("ELOMETER_HOME", str(target.parent))
        return target

    return make


def edit(path: Path, change: Callable[[Row], None]) -> None:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        change(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def causes(found: Why) -> list[str]:
    return [finding.code for finding in found.findings if finding.weight == "cause"]


def seen(outcomes: Path, strategy: str) -> dict[tuple[str, int], Row]:
    rows = [json.loads(line) for line in outcomes.read_text().splitlines()]
    return {(row["task"], row["run"]): row for row in rows if row["strategy"] == strategy}


def as_if(outcomes: Path, model: str) -> Callable[[Row], None]:
    """Gives the odd strategy the outcomes of another one."""
    others = seen(outcomes, model)

    def change(row: Row) -> None:
        if row["strategy"] == ODD:
            other = others[row["task"], row["run"]]
            row |= {"outcome": other["outcome"], "score": other["score"]}

    return change


@pytest.mark.parametrize("strategy", ["sample_1", "sample_2", "sample_4", "sample_8"])
def test_on_a_clean_run_nothing_is_found_and_noise_is_that_of_the_table(
    copy: Callable[[], Path], strategy: str
) -> None:
    folder = copy()
    found = why("demo-why", strategy)
    assert not causes(found), found.conclusion
    # One sample has more blocks without an answer than a vote has: worth knowing, and no cause.
    notes = {finding.code for finding in found.findings if finding.weight == "note"}
    assert notes <= ({"unfinished"} if "sample_1" in (strategy, found.case.compared) else set())
    with (folder / "elo_result.csv").open() as table:
        rows = {row["strategy"]: row for row in csv.DictReader(table)}
    row = rows["sample_2" if strategy == "sample_1" else strategy]
    noise = (float(row["delta_hi"]) - float(row["delta_lo"])) / 2
    assert found.conclusion == f"nothing found; noise is ±{noise:.0f} Elo"
    sign = -1 if strategy == "sample_1" else 1
    assert found.difference.elo == pytest.approx(sign * float(row["delta_elo"]))


def test_stages_stand_in_the_founding_order(copy: Callable[[], Path]) -> None:
    copy()
    found = why("demo-why", ODD)
    stages = list(dict.fromkeys(finding.stage for finding in found.findings))
    assert stages == ["metadata", "ledger", "pairs", "fit"]


@pytest.mark.parametrize("said", [True, False], ids=["the gateway says so", "only the answers tell"])
def test_cached_draws_are_named(copy: Callable[[], Path], said: bool) -> None:
    folder = copy()
    first: dict[tuple[str, int], Row] = {}

    def repeat(row: Row) -> None:
        if row["strategy"] != ODD or row["status"] != "ok":
            return
        origin = first.setdefault((row["task"], row["run"]), row)
        row["answer_sha"] = origin["answer_sha"]
        if said and row is not origin:
            row |= {"response_id": origin["response_id"], "gateway_cache": "hit"}

    edit(folder / "token_ledger.jsonl", repeat)
    edit(folder / "outcomes.jsonl", as_if(folder / "outcomes.jsonl", "sample_1"))
    found = why("demo-why", ODD)
    assert causes(found) == ["cache" if said else "copies"]
    if said:
        # 8 × 3 blocks of eight draws, of which the first is one.
        assert found.conclusion.startswith("explained: a cache answered 168 of 192 calls of sample_8")
    else:
        assert found.conclusion.startswith("explained: 100% of sample_8's answers repeat one of their block")
    assert not causes(why("demo-why", "sample_2"))


def test_a_foreign_model_in_one_task_is_named_with_what_is_left_without_it(copy: Callable[[], Path]) -> None:
    folder = copy()

    def reroute(row: Row) -> None:
        if row["strategy"] == ODD and row["task"] == TASK:
            row["model"] = "cheaper-model"

    def lose(row: Row) -> None:
        if row["strategy"] == ODD and row["task"] == TASK:
            row |= {"outcome": "wrong", "score": 0.0}

    edit(folder / "token_ledger.jsonl", reroute)
    edit(folder / "outcomes.jsonl", lose)
    found = why("demo-why", ODD)
    assert causes(found)[0] == "stranger"
    assert found.conclusion.startswith(
        f"explained: cheaper-model answered 24 of 192 calls of sample_8, in {TASK}; without it "
    )


def test_an_outlier_task_is_named_with_what_it_moves(copy: Callable[[], Path]) -> None:
    folder = copy()
    outcomes = folder / "outcomes.jsonl"
    edit(outcomes, as_if(outcomes, USUAL))

    def turn(row: Row) -> None:
        if row["task"] == TASK:
            row |= (
                {"outcome": "wrong", "score": 0.0}
                if row["strategy"] == ODD
                else {"outcome": "ok", "score": 1.0}
            )

    edit(outcomes, turn)
    found = why("demo-why", ODD)
    assert causes(found) == ["one-task"]
    assert re.match(
        rf"explained: {TASK} alone moves -\d+; without it sample_8 = sample_4 \(ΔElo \+0 ±", found.conclusion
    ), found.conclusion


def test_unequal_errors_are_named(copy: Callable[[], Path]) -> None:
    folder = copy()

    def fail(row: Row) -> None:
        if row["strategy"] == ODD and row["task"] in (TASK, "demo-05"):
            row |= {"outcome": "infra_error", "score": None, "answer": None}

    edit(folder / "outcomes.jsonl", fail)
    found = why("demo-why", ODD)
    assert causes(found)[0] == "exclusions"
    assert found.conclusion.startswith(
        "explained: errors are unequal: 6 of 24 blocks of sample_8 are not compared (infra_error 6); "
        "0 of 72 of the others"
    )


def test_every_command_that_is_shown_shows_something(finished: tuple[Workspace, Path]) -> None:
    place, folder = finished
    done = place.run("why", "demo-why", ODD, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["explained"] is False
    import sys

    bin_folder = Path(sys.executable).parent
    for finding in found["findings"]:
        shell = subprocess.run(
            ["bash", "-o", "pipefail", "-c", finding["command"]],
            env=place.environment(PATH=f"{bin_folder}:/usr/local/bin:/usr/bin:/bin"),
            capture_output=True, text=True, cwd=folder, check=False,
        )  # fmt: skip
        assert shell.returncode == 0, (finding, shell.stderr)


def test_unknown_names_are_usage_errors_with_the_nearest_one(copy: Callable[[], Path]) -> None:
    copy()
    with pytest.raises(UsageError) as caught:
        why("demo-why", "sample_9")
    assert caught.value.fix == "Did you mean 'sample_8'?"
    with pytest.raises(UsageError):
        why("demo-why-2", ODD)


def test_a_start_that_died_early_says_that_nothing_can_be_fitted(copy: Callable[[], Path]) -> None:
    folder = copy()
    (folder / "outcomes.jsonl").unlink()
    lines = (folder / "token_ledger.jsonl").read_text().splitlines(keepends=True)
    of_the_odd_one = [line for line in lines if f'"{ODD}"' in line]
    (folder / "token_ledger.jsonl").write_text("".join([*of_the_odd_one[:5], of_the_odd_one[5][:40]]))
    events = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    (folder / "events.jsonl").write_text("".join(events[:10]))
    found = why(str(folder), ODD)
    assert found.conclusion.startswith("explained: nothing can be fitted")
    assert any("died" in finding.text for finding in found.findings)
    gone = why(str(folder), "sample_2")
    assert causes(gone)[0] == "no-lines"
    (folder / "token_ledger.jsonl").unlink()
    with pytest.raises(UsageError):
        why(str(folder), ODD)
