"""A first experiment: it is valid, private, and never overwrites."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from elometer.core.errors import UsageError
from elometer.jobs.init import init
from elometer.runs.graders import extract, grade
from elometer.runs.spec import load_experiment
from elometer.runs.tasks import load_tasks


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_is_a_valid_experiment(tmp_path: Path) -> None:
    experiment_file, tasks_file = init(tmp_path / "My Experiment")
    experiment = load_experiment(experiment_file)
    tasks = load_tasks(experiment, experiment_file.parent)
    assert experiment.experiment_id == "my-experiment"
    assert [task.id for task in tasks] == ["task-a", "task-b", "task-c"]
    assert tasks_file.name == "tasks.jsonl"


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        # 06:10, 06:22 … 07:58 are ten departures.
        ("task-a", "10"),
        # Jupiter turns in 9 h 56 min.
        ("task-b", "Jupiter"),
        # 2028-02-25 is a Friday, and the 3rd of March is the next.
        ("task-c", "2028-02-25"),
    ],
)
def test_right_answers_are_right(tmp_path: Path, task: str, answer: str) -> None:
    file, _tasks = init(tmp_path / "e")
    found = {one.id: one for one in load_tasks(load_experiment(file), file.parent)}[task]
    text = f"Let me think.\nANSWER: {answer}"
    assert grade(found, extract(found, text), text).status == "ok"
    assert grade(found, None, "ANSWER: 2028-02-18").status in ("wrong", "no_answer")


def test_folders_and_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files = init(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700
    assert [mode(file) for file in files] == [0o600, 0o600]


def test_without_a_folder_a_new_one_of_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELOMETER_HOME", str(tmp_path))
    assert init()[0] == tmp_path / "bt-eval-001" / "experiment.yaml"
    assert init()[0] == tmp_path / "bt-eval-002" / "experiment.yaml"
    assert load_experiment(tmp_path / "bt-eval-002" / "experiment.yaml").experiment_id == "bt-eval-002"


@pytest.mark.parametrize("name", ["experiment.yaml", "tasks.jsonl"])
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError) as caught:
        init(tmp_path)
    assert len(caught.value.lines()) == 3
    assert (tmp_path / name).read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError):
        init(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError) as caught:
            init(folder)
        assert len(caught.value.lines()) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be written"):
        init(tmp_path / "e")
    tmp_path.chmod(0o700)
