"""The ledger commands as a user calls them: output, exit codes, three-line errors."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from elometer.cli.main import run

FOUNDING = Path(__file__).parents[1] / "fixtures" / "founding" / "token_ledger.jsonl"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    workspace = tmp_path / "bt-eval"
    workspace.mkdir()
    monkeypatch.setenv("ELOMETER_HOME", str(workspace))
    return workspace


def call(*argv: object) -> int:
    return run(["ledger", *map(str, argv)], open_app=lambda folder: None)


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_totals_without_an_id_sum_the_workspace_and_its_imports(home: Path, capsys) -> None:
    for folder in (home / "bt-eval-001", home / "imports" / "codex", home / "bt-eval-001" / "archive" / "x"):
        folder.mkdir(parents=True)
        shutil.copy(FOUNDING, folder)
    assert call("totals", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["strategy"], row["total_tokens"]) for row in rows] == [
        ("sample_1", 1816),
        ("sample_2", 3680),
    ]
    assert call("totals", "bt-eval-001", "--by", "model", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["model"], row["total_tokens"], row["runs"]) == ("your-agent-model", 2748, 1)
    assert call("totals", "codex") == 0
    assert "1,840" in capsys.readouterr().out


def test_the_readmes_jq_for_models_agrees(home: Path, capsys) -> None:
    if shutil.which("jq") is None:
        pytest.skip("the comparison needs jq on PATH")
    query = "group_by(.model) | map({model: .[0].model, total: (map(.total_tokens) | add)})"
    theirs = subprocess.run(["jq", "-s", query, FOUNDING], capture_output=True, check=True).stdout
    assert call("totals", FOUNDING, "--by", "model", "--json") == 0
    ours = json.loads(capsys.readouterr().out)
    assert [{"model": row["model"], "total": row["total_tokens"]} for row in ours] == json.loads(theirs)


def test_a_damaged_ledger_is_summed_verified_and_exported(home: Path, tmp_path: Path, capsys) -> None:
    path = tmp_path / "l.jsonl"
    path.write_bytes(FOUNDING.read_bytes() + b'{"torn\n')
    assert call("totals", path, "--founding", "--json") == 0
    out, err = capsys.readouterr()
    assert [row["total_tokens"] for row in json.loads(out)] == [908, 1840]
    assert "1 damaged line was skipped" in err
    assert call("verify", path) == 6
    out, err = capsys.readouterr()
    assert out.startswith(f"{path}:3: torn:")
    assert len(err.strip().splitlines()) == 3
    assert call("verify", FOUNDING) == 0
    capsys.readouterr()
    assert call("export", path) == 0
    assert capsys.readouterr().out.encode() == FOUNDING.read_bytes()


def test_tail_shows_the_last_lines(home: Path, capsys) -> None:
    assert call("tail", "1", FOUNDING) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["timestamp", "experiment_id", "strategy"]
    assert "sample_2" in line
    assert "your-agent-model" in line
    assert call("tail", FOUNDING, "--json") == 0
    assert capsys.readouterr().out.encode() == FOUNDING.read_bytes()


def test_add_takes_lines_that_fit_and_nothing_if_one_does_not(
    home: Path, tmp_path: Path, capsys, monkeypatch
):
    assert call("add", FOUNDING) == 0
    ledger = home / "bt-eval-001" / "token_ledger.jsonl"
    assert ledger.read_bytes() == FOUNDING.read_bytes()
    identified = json.loads(FOUNDING.read_bytes().splitlines()[0]) | {
        "call_id": "c1",
        "attempt": 1,
        "new": [1],
    }
    feed(monkeypatch, json.dumps(identified).encode())  # no newline at the end
    assert call("add") == 0
    assert json.loads(ledger.read_bytes().splitlines()[-1])["new"] == [1]
    feed(monkeypatch, json.dumps(identified).encode())
    assert call("add", "-") == 0
    assert "1 line was there already" in capsys.readouterr().err
    before = ledger.read_bytes()
    for fault in ({"total_tokens": 1}, {"experiment_id": "../x"}, {"run": None}):
        feed(monkeypatch, json.dumps(identified | {"call_id": "c2"}).encode() + b"\n" + json.dumps(
            identified | fault).encode())  # fmt: skip
        assert call("add") == 2
        err = capsys.readouterr().err.strip().splitlines()
        assert len(err) == 3
        assert err[0].startswith("Line 2")
    assert ledger.read_bytes() == before
    assert sorted(entry.name for entry in home.iterdir()) == ["bt-eval-001"]


def test_csv_has_every_field_of_every_line(home: Path, tmp_path: Path, capsys) -> None:
    path = tmp_path / "l.jsonl"
    first = json.loads(FOUNDING.read_bytes().splitlines()[0])
    path.write_text(
        json.dumps(first | {"raw_usage": {"a": 1}, "of_later": "x,y", "total_tokens": None}) + "\n"
    )
    out = tmp_path / "out.csv"
    assert call("export", path, "--format", "csv", "--output", out) == 0
    import csv

    (row,) = csv.DictReader(out.open(newline=""))
    assert list(row)[:9] == list(first)
    assert (row["raw_usage"], row["of_later"], row["total_tokens"]) == ('{"a":1}', "x,y", "")


@pytest.mark.parametrize(
    "argv",
    [("totals", "no-such"), ("totals",), ("verify", "/nowhere"), ("import", "codex"), ("add", "/nowhere")],
)
def test_what_is_not_there_exits_2_with_three_lines(home: Path, capsys, argv: tuple[str, ...]) -> None:
    assert call(*argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 3
