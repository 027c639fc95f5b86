"""`elometer init` and `elometer plan` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elometer.cli.main import run

FOUNDING = Path(__file__).parents[1] / "fixtures" / "founding"


def call(*words: object) -> int:
    return run([str(word) for word in words], open_app=lambda _path: None)


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELOMETER_HOME", str(tmp_path / "workspace"))
    return tmp_path / "workspace"


def test_the_founding_file_alone_can_be_planned(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("plan", FOUNDING / "experiment.yaml", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["blocks"], plan["calls"]) == (9, 279)
    assert plan["tokens_low"] is None
    assert plan["tokens_high"] is None
    assert plan["detectable_delta_elo"] > 0
    codes = [finding["code"] for finding in plan["findings"]]
    assert "tasks-missing" in codes
    assert "expired" in codes
    for finding in plan["findings"]:
        assert all(finding[part] for part in ("code", "message", "evidence", "fix"))


def test_the_founding_table_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("plan", FOUNDING / "experiment.yaml", "--tokens", FOUNDING / "table.csv", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["tokens_low"], plan["tokens_high"]) == (347_000, 347_000)
    assert (plan["days"], plan["fits_budget"]) == (3, False)
    assert call("plan", FOUNDING, "--tokens", FOUNDING / "table.csv") == 0
    said = capsys.readouterr().out
    assert "347,000 tokens do not fit 200,000 a day." in said
    assert "9 = 3 × 3" in said


def test_init_then_plan(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("init") == 0
    out, err = capsys.readouterr()
    file = workspace / "bt-eval-001" / "experiment.yaml"
    assert out.splitlines() == [str(file), str(file.with_name("tasks.jsonl"))]
    assert f"elometer plan {file}" in err
    assert f"elometer run {file}" in err
    assert call("plan", "bt-eval-001", "--json") == 0
    codes = [finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]]
    assert "tasks-missing" not in codes


def test_a_ledger_of_the_experiment_is_its_pilot(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("init")
    lines = []
    for strategy, samples in (
        ("sample_1", 1),
        ("sample_2", 2),
        ("sample_4", 4),
        ("sample_8", 8),
        ("sample_16", 16),
    ):
        for sample in range(samples):
            lines.append(
                {
                    "experiment_id": "bt-eval-001",
                    "strategy": strategy,
                    "task": "task-a",
                    "run": 1,
                    "model": "m",
                    "prompt_tokens": 60,
                    "completion_tokens": 40,
                    "total_tokens": 100,
                    "timestamp": "2026-11-29T12:00:00Z",
                    "final": True,
                    "sample": sample + 1,
                }
            )
    ledger = workspace / "bt-eval-001" / "token_ledger.jsonl"
    ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    assert call("plan", "bt-eval-001", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    # 31 calls of 100 tokens in each of nine blocks.
    assert (plan["tokens_low"], plan["tokens_high"], plan["days"]) == (27_900, 27_900, 1)
    assert plan["fits_budget"] is True


@pytest.mark.parametrize(
    "content", ["", "- a\n", "experiment_id: e\nexperiment_id: e\n", "experiment_id: e\nagnet: {}\n"]
)
def test_bad_files_are_three_lines_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(content)
    assert call("plan", file) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 3
    assert str(file) in err


def test_init_twice_is_three_lines_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("init", tmp_path / "e") == 0
    capsys.readouterr()
    assert call("init", tmp_path / "e") == 2
    assert len(capsys.readouterr().err.splitlines()) == 3
