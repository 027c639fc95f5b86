"""`elometer init` under a terminal: Enter skips every step, answers go where they belong."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.workspace import Workspace

from elometer.core.limits import Boundary
from elometer.gateway.demo.faults import MODEL
from elometer.gateway.demo.server import create_app, serve_in_thread
from elometer.jobs.init import Answers, init
from elometer.profiles.store import Store
from elometer.runs.spec import load_experiment

KEY = "sk-planted-0123456789abcdef"


def typed(place: Workspace, keys: str, *arguments: str, **environment: str) -> str:
    """What a terminal shows when these keys are typed."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "elometer", *arguments],
        env=place.environment(TERM="xterm", **environment), stdin=theirs, stdout=theirs, stderr=theirs,
        cwd=place.home, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        os.write(ours, keys.encode())
        said = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other side has closed
                break
            if not part:
                break
            said += part
        assert process.wait(60) == 0, said.decode()
    os.close(ours)
    return said.decode()


def test_enter_at_every_step_writes_what_yes_writes(place: Workspace) -> None:
    said = typed(place, "\n" * 8, "init", "x/exp")
    steps = ["1/4 Probe", "2/4 Plan", "3/4 Key", "4/4 Client"]
    assert [said.index(step) for step in steps] == sorted(said.index(step) for step in steps)
    done = place.run("init", "y/exp", "--yes")
    assert done.returncode == 0
    for name in ("experiment.yaml", "tasks.jsonl"):
        mine, plain = (place.home / folder / "exp" / name for folder in ("x", "y"))
        assert mine.read_text().replace("x/exp", "") == plain.read_text().replace("y/exp", "")
    assert not (place.home / "config" / "elometer" / "profiles.toml").exists()


def test_answers_reach_probe_experiment_key_and_profile(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = Boundary(allowed_models=(MODEL,), max_concurrency=4)
    app = create_app(0, keys={KEY: bound}, latency=(0, 0), rate_429=0, prefix="/api")
    with serve_in_thread(app) as url:
        keys = f"{url}\n{MODEL}\nEVAL_KEY\ny\n50000\n8\ny\ncodex\n"
        said = typed(place, keys, "init", "exp", EVAL_KEY=KEY)
    assert KEY not in said
    assert "0 failed" in said
    experiment = load_experiment(place.home / "exp" / "experiment.yaml")
    gateway = experiment.gateway
    assert (gateway.base_url, gateway.key_env, experiment.agent.model) == (url, "EVAL_KEY", MODEL)
    assert gateway.boundary == Boundary(
        allowed_models=(MODEL,), daily_budget_tokens=50_000, max_concurrency=8
    )
    store = Store.load(place.home / "config" / "elometer" / "profiles.toml")
    (profile,) = store.profiles
    assert (profile.name, profile.tool, profile.base_url, profile.model) == ("bt-codex", "codex", url, MODEL)
    key = store.keys["bt-eval-sample-k"]
    assert (key.source, key.boundary.max_concurrency) == ("env:EVAL_KEY", 8)


@pytest.mark.parametrize("model", ["org/model:free", "4o", "yes", "a: b", "model # 1", "[x]", "模型"])
def test_any_model_name_stays_what_it_is(tmp_path: Path, model: str) -> None:
    file, _tasks = init(tmp_path / "e", Answers(model=model))
    assert load_experiment(file).agent.model == model
