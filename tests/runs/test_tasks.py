"""tasks.jsonl: what is accepted, what is refused and where, and which tasks an experiment names."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elometer.core.attempt import Message
from elometer.core.errors import NotSupportedYet, SpecError
from elometer.runs.spec import Experiment, load_experiment
from elometer.runs.tasks import load_tasks, missing_tasks, read_tasks

GOOD = {"id": "t-1", "prompt": "2 + 3?", "answer": "5", "grader": "numeric"}


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    file = tmp_path / "experiment.yaml"
    file.write_text(
        "experiment_id: e\ngateway: {base_url: 'https://g.example'}\nagent: {model: m}\neval: {tasks: ['*']}\n"
    )
    return load_experiment(file)


def write(folder: Path, *lines: dict[str, Any] | str) -> Path:
    file = folder / "tasks.jsonl"
    file.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    return file


def named(experiment: Experiment, *names: str) -> Experiment:
    return replace(experiment, eval=replace(experiment.eval, tasks=names))


def test_a_task_with_all_its_keys(tmp_path: Path, experiment: Experiment) -> None:
    turns = [
        {"role": "user", "content": "1 + 1?"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "2 + 3?"},
    ]
    write(
        tmp_path,
        {
            "id": "full",
            "messages": turns,
            "answer": [5, "five"],
            "grader": {"type": "exact"},
            "extract": "ANSWER: (.+)",
            "cluster": "sums",
            "weight": 2,
            "tags": ["a"],
            "x-note": 1,
        },
        "",
        {"id": "short", "prompt": "2 + 3?", "answer": 5},
    )
    full, short = load_tasks(experiment, tmp_path)
    assert full.messages == tuple(Message(**turn) for turn in turns)
    assert (full.answer, full.answers) == ("5", ("5", "five"))
    assert (full.cluster, full.weight, full.tags, full.extra) == ("sums", 2.0, ("a",), {"x-note": 1})
    assert full.extract is not None
    assert short.messages == (Message("user", "2 + 3?"),)
    assert (short.grader.type, short.cluster, short.weight) == ("exact", "short", 1.0)
    assert (full.line, short.line) == (1, 3)


def test_a_prompt_file_in_the_folder(tmp_path: Path, experiment: Experiment) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "prompt.md").write_text("Sum up.\n", encoding="utf-8")
    write(tmp_path, {"id": "a", "prompt_file": "pack/prompt.md", "answer": "x"})
    assert load_tasks(experiment, tmp_path)[0].prompt == "Sum up.\n"


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("b-1", "a-1"), ["a-1", "b-1"]),
        (("a-*",), ["a-1", "a-2"]),
        (("*-1", "a-2"), ["a-1", "a-2", "b-1"]),
        (("*",), ["a-1", "a-2", "b-1"]),
    ],
)
def test_ids_and_globs_in_the_files_order(
    tmp_path: Path, experiment: Experiment, names: tuple[str, ...], chosen: list[str]
) -> None:
    write(tmp_path, *({**GOOD, "id": name} for name in ("a-1", "a-2", "b-1")))
    assert [task.id for task in load_tasks(named(experiment, *names), tmp_path)] == chosen


def test_names_without_a_task(tmp_path: Path, experiment: Experiment) -> None:
    write(tmp_path, GOOD)
    asked = named(experiment, "t-1", "t-2", "u-*")
    assert missing_tasks(asked, read_tasks(tmp_path / "tasks.jsonl")) == ["t-2", "u-*"]
    with pytest.raises(SpecError) as caught:
        load_tasks(asked, tmp_path)
    assert "t-2, u-*" in caught.value.message
    assert "experiment.yaml:4" in caught.value.evidence
    assert "Did you mean t-1?" in caught.value.fix


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "b", "prompt": "?", "answer": "1"', ["not JSON"]),
        ("[1]", ["not an object"]),
        ('{"id": "b", "id": "c", "prompt": "?", "answer": "1"}', ["id stands twice"]),
        ({**GOOD}, ["t-1 stands twice", "lines 1 and 2"]),
        ({**GOOD, "id": 7}, ["id must be a name"]),
        ({**GOOD, "id": "../x y"}, ["id must be a name"]),
        ({"prompt": "?", "answer": "1"}, ["id must be a name"]),
        ({**GOOD, "id": "b", "anwser": "1"}, ["anwser is not known", "Did you mean answer?"]),
        ({"id": "b", "answer": "1"}, ["exactly one of prompt"]),
        ({**GOOD, "id": "b", "prompt_file": "p"}, ["exactly one of prompt"]),
        ({**GOOD, "id": "b", "prompt": ""}, ["prompt must be text"]),
        ({**GOOD, "id": "b", "prompt": 5}, ["prompt must be text"]),
        ({"id": "b", "prompt_file": "../secret", "answer": "1"}, ["outside the experiment's folder"]),
        ({"id": "b", "prompt_file": "/etc/hostname", "answer": "1"}, ["outside the experiment's folder"]),
        ({"id": "b", "prompt_file": "absent.md", "answer": "1"}, ["no such prompt file", "absent.md"]),
        ({"id": "b", "messages": [], "answer": "1"}, ["last turn must be the user's"]),
        ({"id": "b", "messages": [{"role": "user"}], "answer": "1"}, ["role and content"]),
        ({"id": "b", "messages": [{"role": "tool", "content": "x"}], "answer": "1"}, ["no role tool"]),
        ({**GOOD, "id": "b", "answer": None, "grader": None}, ["neither answer nor grader"]),
        ({**GOOD, "id": "b", "answer": True}, ["answer must be text"]),
        ({**GOOD, "id": "b", "answer": "five"}, ["five is no number"]),
        ({**GOOD, "id": "b", "grader": "exakt"}, ["no grader exakt", "Did you mean exact?"]),
        ({**GOOD, "id": "b", "extract": "("}, ["does not compile"]),
        ({**GOOD, "id": "b", "weight": 0}, ["weight must be a number above 0"]),
        ({**GOOD, "id": "b", "tags": "a"}, ["tags must be a list"]),
        ({**GOOD, "id": "b", "direction": "up"}, ["direction has no such value"]),
    ],
)
def test_faults_name_the_line(
    tmp_path: Path, experiment: Experiment, line: dict[str, Any] | str, words: list[str]
) -> None:
    write(tmp_path, GOOD, line)
    with pytest.raises(SpecError) as caught:
        load_tasks(experiment, tmp_path)
    assert "tasks.jsonl:2" in caught.value.evidence
    assert len(caught.value.lines()) == 3
    for word in words:
        assert word in " | ".join(caught.value.lines())


@pytest.mark.parametrize(
    "more",
    [
        {"grader": {"type": "judge", "rubric": "r"}},
        {"limits": {"seconds": 1}},
    ],
)
def test_what_is_not_built_names_the_task(
    tmp_path: Path, experiment: Experiment, more: dict[str, Any]
) -> None:
    write(tmp_path, {**GOOD, **more})
    with pytest.raises(NotSupportedYet) as caught:
        load_tasks(experiment, tmp_path)
    assert "t-1" in caught.value.message
    assert "tasks.jsonl:1" in caught.value.evidence


def test_files_that_are_not_there_or_hold_nothing(tmp_path: Path, experiment: Experiment) -> None:
    with pytest.raises(SpecError, match="no such file"):
        load_tasks(experiment, tmp_path)
    (tmp_path / "tasks.jsonl").write_text("\n\n")
    with pytest.raises(SpecError, match="empty"):
        load_tasks(experiment, tmp_path)
    (tmp_path / "tasks.jsonl").write_bytes(b'{"id": "\xff"}\n')
    with pytest.raises(SpecError, match="not JSON"):
        load_tasks(experiment, tmp_path)
    (tmp_path / "tasks.jsonl").unlink()
    (tmp_path / "tasks.jsonl").mkdir()
    with pytest.raises(NotSupportedYet, match="folder"):
        load_tasks(experiment, tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read(tmp_path: Path, experiment: Experiment) -> None:
    write(tmp_path, GOOD).chmod(0)
    with pytest.raises(SpecError, match="cannot be read"):
        load_tasks(experiment, tmp_path)


def test_several_samples_need_an_answer_to_vote_on(tmp_path: Path, experiment: Experiment) -> None:
    open_task = {"id": "open", "prompt": "?", "grader": {"type": "contains", "all": ["x"]}}
    write(tmp_path, GOOD, open_task)
    with pytest.raises(SpecError) as caught:
        load_tasks(experiment, tmp_path)
    assert "sample_2" in caught.value.message
    assert "open" in caught.value.message
    assert "tasks.jsonl:2" in caught.value.evidence
    # With an extract there is something to vote on; a task that is not named does not matter.
    write(tmp_path, GOOD, {**open_task, "extract": "ANSWER: (.+)"})
    assert len(load_tasks(experiment, tmp_path)) == 2
    write(tmp_path, GOOD, open_task)
    assert len(load_tasks(named(experiment, "t-*"), tmp_path)) == 1


def test_a_named_tasks_file_and_its_copy_in_the_experiments_folder(
    tmp_path: Path, experiment: Experiment
) -> None:
    asked = replace(experiment, eval=replace(experiment.eval, tasks_file="p/sums.jsonl"))
    with pytest.raises(SpecError, match="no such file"):
        load_tasks(asked, tmp_path)
    write(tmp_path, {**GOOD, "id": "copy"})
    assert [task.id for task in load_tasks(asked, tmp_path)] == ["copy"]
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "sums.jsonl").write_text(json.dumps({**GOOD, "id": "own"}) + "\n")
    assert [task.id for task in load_tasks(asked, tmp_path)] == ["own"]


def test_a_byte_order_mark_is_no_fault(tmp_path: Path, experiment: Experiment) -> None:
    (tmp_path / "tasks.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())
    assert load_tasks(experiment, tmp_path)[0].id == "t-1"
