"""Graders that are code: what they say, and what hostile ones cannot do."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from elometer.core.errors import SpecError
from elometer.runs.graders import Grade, child, grade
from elometer.runs.graders.child import CHILDREN, Children, Limits, run_limited
from elometer.runs.spec import load_experiment
from elometer.runs.tasks import Task, load_tasks

SPEC = """\
experiment_id: e
gateway: {base_url: https://g.example}
agent: {model: m, strategies: [sample_1]}
"""


def loaded(folder: Path, grader: dict[str, Any] | str, **more: Any) -> Task:
    (folder / "experiment.yaml").write_text(SPEC)
    line = {"id": "t", "prompt": "p", "answer": "42", "grader": grader, **more}
    (folder / "tasks.jsonl").write_text(json.dumps(line) + "\n")
    (task,) = load_tasks(load_experiment(folder / "experiment.yaml"), folder)
    return task


def judged(folder: Path, code: str, answer: str = "x", *, seconds: float = 5, **more: Any) -> Grade:
    (folder / "grade.py").write_text(code)
    task = loaded(folder, {"type": "python", "file": "grade.py", "seconds": seconds, **more})
    return grade(task, answer, answer)


@pytest.mark.parametrize(
    ("body", "score", "status"),
    [
        ("True", 1.0, "ok"),
        ("False", 0.0, "wrong"),
        ("0.25", 0.25, "wrong"),
        ("37", 37.0, "ok"),
        ("answer == task['answer']", 1.0, "ok"),
        ("{'score': 0, 'status': 'no_answer', 'detail': 'empty'}", 0.0, "no_answer"),
        ("print('noise') or 1", 1.0, "ok"),
    ],
)
def test_python_graders_say_a_score(tmp_path: Path, body: str, score: float, status: str) -> None:
    found = judged(tmp_path, f"def grade(answer, task):\n    return {body}\n", "42")
    assert (found.score, found.status) == (score, status)
    assert found.isolation in ("rlimit", "rlimit+nonet")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("None", "not a score"),
        ("float('nan')", "not a score"),
        ("'yes'", "not a score"),
        ("__import__('os')._exit(0)", "printed no result"),
        ("__import__('os')._exit(1)", "exit code 1"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", "SIGKILL"),
        ("__import__('sys').exit(0)", "SystemExit"),
        ("'x' * (1 << 30)", "failed"),  # a gigabyte under a limit of half of one
        ("print('x' * 10_000_000) or 1", "printed more than"),
        ("open('big', 'wb').write(b'x' * (20 << 20)) and 1", "failed"),
        ("[open('/dev/null') for _ in range(500)] and 1", "Too many open files"),
    ],
)
def test_a_crash_is_the_graders_never_the_models(tmp_path: Path, body: str, words: str) -> None:
    found = judged(tmp_path, f"def grade(answer, task):\n    return {body}\n")
    assert found.status == "grader_error"
    assert words in found.detail


@pytest.mark.parametrize("loop", ["while True: pass", "import time; time.sleep(60)"])
def test_one_that_does_not_end_is_ended(tmp_path: Path, loop: str) -> None:
    began = time.monotonic()
    found = judged(tmp_path, f"def grade(answer, task):\n    {loop}\n", seconds=0.5)
    assert found.status == "grader_error"
    assert "0.5 s" in found.detail
    assert time.monotonic() - began < 8


def test_what_it_leaves_running_ends_with_it(tmp_path: Path) -> None:
    """Also one in a session of its own, where processes can be given numbers of their own."""
    code = (
        "import os, time\n"
        "def grade(answer, task):\n"
        "    if os.fork() == 0:\n"
        "        {session}\n"
        "        while True:\n"
        f"            open({str(tmp_path / 'alive')!r}, 'a').write('x'); time.sleep(0.02)\n"
        "    time.sleep(0.2)\n"
        "    return 1\n"
    )
    found = judged(tmp_path, code.format(session="pass"))
    assert found.score == 1
    if found.isolation == "rlimit+nonet":
        assert judged(tmp_path, code.format(session="os.setsid()")).score == 1
    size = (tmp_path / "alive").stat().st_size
    assert size > 0
    time.sleep(0.2)
    assert (tmp_path / "alive").stat().st_size == size


def test_processes_are_bounded(tmp_path: Path) -> None:
    """A probe of a hundred children that sleep; a privileged user outside a namespace has no such bound."""
    code = (
        "import os, time\n"
        "def grade(answer, task):\n"
        "    made = 0\n"
        "    try:\n"
        "        for made in range(100):\n"
        "            if os.fork() == 0:\n"
        "                time.sleep(2); os._exit(0)\n"
        "    except BlockingIOError:\n"
        "        pass\n"
        "    return made\n"
    )
    found = judged(tmp_path, code)
    if os.geteuid() == 0 and found.score == 99:
        pytest.skip("this kernel does not bound the processes of root")
    assert 1 <= found.score < 70


def test_environment_and_folder_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOTOKEN_API_KEY", "sk-unit-0123456789abcdef")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "items.csv").write_text("a,b\n")
    code = (
        "import json, os\n"
        "def grade(answer, task):\n"
        "    return {'score': 1, 'detail': json.dumps([sorted(os.environ), sorted(os.listdir('.')), os.getcwd()])}\n"
    )
    (tmp_path / "grade.py").write_text(code)
    task = loaded(tmp_path, {"type": "python", "file": "grade.py"}, files=["items.csv"])
    names, files, cwd = json.loads(grade(task, "x", "x").detail)
    assert set(names) <= {"PATH", "LANG", "LC_CTYPE"}  # the interpreter itself adds the last one
    assert files == ["answer.txt", "grade.py", "items.csv", "task.json"]
    assert not Path(cwd).exists()
    assert task.attachments == ("items.csv", "grade.py")


def test_the_network_is_cut_where_the_level_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = (
            "import socket\n"
            "def grade(answer, task):\n"
            "    try:\n"
            f"        socket.create_connection(('127.0.0.1', {port}), 1); return 1\n"
            "    except OSError:\n"
            "        return 0\n"
        )
        found = judged(tmp_path, code)
    assert found.score == (0.0 if found.isolation == "rlimit+nonet" else 1.0)


def commanded(folder: Path, *argv: str, answer: str = "x", **more: Any) -> Grade:
    return grade(loaded(folder, {"type": "command", "argv": list(argv)}, **more), answer, answer)


def test_commands_judge_by_exit_code_or_last_line(tmp_path: Path) -> None:
    assert commanded(tmp_path, "true").status == "ok"
    assert commanded(tmp_path, "false").status == "wrong"
    assert commanded(tmp_path, "sh", "-c", "exit 2").status == "grader_error"
    assert commanded(tmp_path, "no-such-program").status == "grader_error"
    assert "no-such-program" in commanded(tmp_path, "no-such-program").detail
    assert commanded(tmp_path, "sh", "-c", "echo 0.5").score == 0.5
    assert commanded(tmp_path, "sh", "-c", "echo '{\"score\": 2}'; exit 1").score == 2
    assert commanded(tmp_path, "grep", "-q", "^42$", "{answer_file}", answer="42").score == 1
    assert commanded(tmp_path, "grep", "-q", "^42$", "{answer_file}", answer="43").score == 0
    assert commanded(tmp_path, "grep", "-q", '"answer": "42"', "{task_file}").score == 1
    assert commanded(tmp_path, "python3", "-c", "raise ValueError('mine')").status == "grader_error"
    assert commanded(tmp_path, "sh", "-c", "echo 3", direction="min").score == -3
    # Words are words: nothing is ever given to a shell.
    assert commanded(tmp_path, "test", "$(id)", "=", "$(id)").score == 1


def test_files_of_an_argv_are_there(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "score.py").write_text("import sys; print(len(open(sys.argv[1]).read()))")
    found = commanded(tmp_path, "python3", "pack/score.py", "{answer_file}", answer="abcd")
    assert found.score == 4


def test_faults_in_a_task_are_named(tmp_path: Path) -> None:
    for grader, word in (
        ({"type": "python"}, "needs a file"),
        ({"type": "python", "file": "absent.py"}, "absent.py"),
        ({"type": "python", "file": "../up.py"}, "outside"),
        ({"type": "command"}, "argv"),
        ({"type": "command", "argv": ["x", "{nope}"]}, "nope"),
        ({"type": "command", "argv": ["x"], "seconds": 0}, "seconds"),
    ):
        with pytest.raises(SpecError) as caught:
            loaded(tmp_path, grader)
        assert word in " ".join(caught.value.lines()), grader
    for name in ("/etc/hostname", str(tmp_path / "tasks.jsonl"), "../up.csv", "sub/../tasks.jsonl"):
        with pytest.raises(SpecError, match="outside"):
            loaded(tmp_path, "exact", files=[name])
    with pytest.raises(SpecError, match="direction"):
        loaded(tmp_path, "exact", direction="min")


@pytest.mark.parametrize("name", ["samples.jsonl", "archive/x.csv", "tasks.jsonl"])
def test_a_tasks_file_may_not_become_a_file_of_the_experiment(tmp_path: Path, name: str) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / name).write_text("{}")
    for more in (
        {"files": [name]},
        {"grader": {"type": "command", "argv": ["cat", name]}},
        {"prompt": None, "prompt_file": name},
    ):
        with pytest.raises(SpecError, match="of the experiment itself"):
            loaded(tmp_path, **{"grader": "exact", **more})


def test_namespaces_that_cannot_be_used_are_left_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a security module takes the capabilities of a new namespace away."""
    source = child.LAUNCHER.read_text().replace("/proc/self/{name}", "/proc/self/no-such-{name}")
    (tmp_path / "launcher.py").write_text(source)
    monkeypatch.setattr(child, "LAUNCHER", tmp_path / "launcher.py")
    found = judged(tmp_path, "import os\ndef grade(answer, task):\n    return os.system('true; true') == 0\n")
    assert (found.score, found.isolation) == (1, "rlimit")


def test_leaving_at_once_ends_the_children(tmp_path: Path) -> None:
    import contextvars
    import threading

    children = Children()

    def waits() -> None:
        CHILDREN.set(children)
        results.append(run_limited(Limits(seconds=30), tmp_path, argv=["sleep", "30"]))

    results: list[Any] = []
    thread = threading.Thread(target=contextvars.copy_context().run, args=(waits,))
    thread.start()
    while not children.live:
        time.sleep(0.01)
    began = time.monotonic()
    children.end_all()
    thread.join(10)
    assert time.monotonic() - began < 5
    assert results[0].fault


def test_a_verifier_never_sees_the_answer(tmp_path: Path) -> None:
    (tmp_path / "grade.py").write_text("def grade(answer, task):\n    return 'answer' not in task\n")
    task = loaded(tmp_path, "exact", verify={"type": "python", "file": "grade.py"})
    assert task.verify is not None
    assert task.verify.grade("x").score == 1
