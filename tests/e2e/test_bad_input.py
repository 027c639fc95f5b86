"""What a user can do wrong: three short lines, the right exit code, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.e2e.workspace import Workspace

PLAIN = """\
experiment_id: bad-001
taotoken:
  base_url: {url}
  key_label: bt-eval
  key_boundary: {{allowed_models: [m], max_concurrency: 2}}
agent: {{framework: f, strategy: sample_k, k_values: [1, 2]}}
eval: {{tasks: [t1]}}
"""
TASK = {
    "id": "t1",
    "prompt": "2+2? End with ANSWER: n",
    "answer": "4",
    "grader": "exact",
    "extract": "ANSWER: *(.+)",
}


def write(folder: Path, spec: str, tasks: list[dict[str, object]] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.yaml").write_text(spec)
    (folder / "tasks.jsonl").write_text("".join(json.dumps(item) + "\n" for item in tasks or [TASK]))
    return folder / "experiment.yaml"


def check_error(place: Workspace, code: int, word: str, *arguments: str | Path, **environment: str) -> str:
    done = place.run(*arguments, **environment)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line]
    assert 1 <= len(said[-3:]) <= 3
    assert word in done.stderr, done.stderr
    return done.stderr


GOOD = PLAIN.format(url="http://127.0.0.1:9/api")
SPECS = {
    "empty": ("", "empty"),
    "a list": ("- a\n", "list"),
    "wrong type": (GOOD.replace("max_concurrency: 2", "max_concurrency: many"), "max_concurrency"),
    "unknown key": (GOOD.replace("k_values", "k_value"), "k_values"),
    "duplicate key": (GOOD + "experiment_id: other\n", "experiment_id"),
    "broken yaml": (GOOD + "a: [1\n", "line"),
    "no id": (GOOD.replace("experiment_id: bad-001\n", ""), "experiment_id"),
    "task not there": (GOOD.replace("[t1]", "[t1, t2]"), "t2"),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_faulty_experiment_is_named_with_its_key(place: Workspace, name: str) -> None:
    spec, word = SPECS[name]
    check_error(place, 2, word, "run", write(place.home / "x", spec), "--plain")


def test_duplicate_task_ids(place: Workspace) -> None:
    check_error(place, 2, "t1", "run", write(place.home / "x", GOOD, [TASK, TASK]), "--plain")


def test_missing_file(place: Workspace) -> None:
    check_error(place, 2, "no such", "run", place.home / "nothing.yaml", "--plain")


def test_no_key(place: Workspace) -> None:
    check_error(place, 3, "TAOTOKEN_API_KEY", "run", write(place.home / "x", GOOD), "--plain")


def test_placeholder_key(place: Workspace) -> None:
    spec = write(place.home / "x", GOOD)
    said = check_error(place, 3, "placeholder", "run", spec, "--plain", TAOTOKEN_API_KEY="YOUR_API_KEY")
    assert "YOUR_API_KEY" not in said


def test_gateway_down(place: Workspace) -> None:
    spec = write(place.home / "x", GOOD.replace("agent:", "retry: {infra: 0}\nagent:"))
    said = check_error(
        place, 5, "reached", "run", spec, "--plain", TAOTOKEN_API_KEY="sk-unit-0123456789abcdef"
    )
    assert "0123456789abcdef" not in said


def test_wrong_key_stops_at_once_and_books_what_was_tried(place: Workspace) -> None:
    from elometer.core.limits import Boundary
    from elometer.gateway.demo.server import create_app, serve_in_thread

    right = Boundary(allowed_models=("m",), max_concurrency=4)
    with serve_in_thread(create_app(seed=1, keys={"sk-right-0123456789": right})) as url:
        spec = write(place.home / "x", PLAIN.format(url=url))
        check_error(place, 3, "bad_key", "run", spec, "--plain", TAOTOKEN_API_KEY="sk-wrong-0123456789abcdef")
    lines = (place.experiments / "bad-001" / "token_ledger.jsonl").read_text().splitlines()
    assert 1 <= len(lines) <= 4
    assert {json.loads(line)["error_class"] for line in lines} == {"bad_key"}


def test_a_folder_without_write_permission(place: Workspace) -> None:
    spec = write(place.home / "x", GOOD)
    (place.home / "file").write_text("")
    check_error(
        place, 2, "file", "run", spec, "--plain",
        ELOMETER_HOME=str(place.home / "file" / "below"), TAOTOKEN_API_KEY="sk-unit-0123456789abcdef",
    )  # fmt: skip


def test_no_terminal(place: Workspace) -> None:
    check_error(place, 2, "terminal")


def test_a_changed_spec_is_refused_with_the_difference(place: Workspace) -> None:
    folder = place.small_demo("demo-changed", tasks=2)
    assert place.run("run", folder, "--plain").returncode == 0
    spec = folder / "experiment.yaml"
    spec.write_text(spec.read_text().replace("runs: 1", "runs: 2"))
    said = check_error(place, 2, "runs", "run", folder, "--plain")
    assert "demo-changed-2" in said


def test_calls_without_an_answer_make_a_start_partial(place: Workspace) -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def refuse(_request: Request) -> JSONResponse:
        return JSONResponse({"error": {"message": "no such parameter", "type": "invalid_request_error"}}, 400)

    app = Starlette(routes=[Route("/{path:path}", refuse, methods=["GET", "POST"])])
    app.state.prefix = ""
    from elometer.gateway.demo.server import serve_in_thread

    with serve_in_thread(app) as url:
        spec = write(place.home / "x", PLAIN.format(url=url))
        said = check_error(
            place, 5, "no answer", "run", spec, "--plain", TAOTOKEN_API_KEY="sk-unit-0123456789abcdef"
        )
    assert "no such parameter" in said
