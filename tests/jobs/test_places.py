"""What an ID on the command line stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from elometer.core.errors import UsageError
from elometer.jobs.places import experiments, find_experiment, ledgers


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    workspace = tmp_path / "bt-eval"
    monkeypatch.setenv("ELOMETER_HOME", str(workspace))
    monkeypatch.chdir(tmp_path)
    return workspace


def make(folder: Path, *files: str) -> Path:
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).write_text("")
    return folder


def test_experiments_stand_in_natural_order_without_imports_and_other_folders(home: Path) -> None:
    assert experiments() == []
    for name in ("bt-10", "bt-2"):
        make(home / name, "experiment.yaml")
    make(home / "imports" / "codex", "token_ledger.jsonl")
    make(home / "notes", "x.txt")
    make(home / ".hidden", "experiment.yaml")
    assert [folder.name for folder in experiments()] == ["bt-2", "bt-10"]


def test_an_id_is_an_experiment_a_start_a_folder_or_a_file(home: Path, tmp_path: Path) -> None:
    inside = make(home / "bt-1", "experiment.yaml", "token_ledger.jsonl")
    stamped = make(home / "demo-20261129T193000Z", "events.jsonl")
    outside = make(tmp_path / "elsewhere", "token_ledger.jsonl")
    assert find_experiment("bt-1") == inside
    assert find_experiment("bt-1-20261129T193000Z") == inside
    assert find_experiment("demo-20261129T193000Z") == stamped
    assert find_experiment("demo-20261129T193000Z-20261129T193001Z") == stamped
    assert find_experiment("elsewhere").resolve() == outside
    assert find_experiment(outside / "token_ledger.jsonl") == outside


def test_a_name_in_the_workspace_goes_before_a_folder_here(home: Path, tmp_path: Path) -> None:
    make(tmp_path / "bt-1", "experiment.yaml")
    inside = make(home / "bt-1", "experiment.yaml")
    assert find_experiment("bt-1") == inside


@pytest.mark.parametrize("name", ["bt-9", "..", ".", "", "/nowhere", "imports", "~no-such-user/bt-1"])
def test_an_unknown_name_is_three_lines(home: Path, name: str) -> None:
    make(home / "bt-1", "experiment.yaml")
    with pytest.raises(UsageError) as unknown:
        find_experiment(name)
    assert len(unknown.value.lines()) == 3
    if name == "bt-9":
        assert "bt-1" in unknown.value.fix


def test_ledgers_without_an_id_are_all_but_the_archived(home: Path, tmp_path: Path) -> None:
    make(home / "bt-1" / "archive" / "bt-1-20261129T193000Z", "token_ledger.jsonl")
    (home / "bt-1" / "token_ledger.jsonl").write_text("")
    make(home / "bt-2", "experiment.yaml")
    make(home / "imports" / "claude-code", "token_ledger.jsonl")
    names = [str(path.parent.relative_to(home)) for path in ledgers()]
    assert names == ["bt-1", "imports/claude-code"]
    assert ledgers("claude-code") == [home / "imports" / "claude-code" / "token_ledger.jsonl"]
    assert ledgers(home) == [home / "bt-1" / "token_ledger.jsonl"]
    with pytest.raises(UsageError, match="no ledger yet"):
        ledgers("bt-2")


def test_a_path_of_any_name_is_a_ledger(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("")
    assert ledgers(path) == [path]
    with pytest.raises(UsageError):
        ledgers(tmp_path / "missing.jsonl")
