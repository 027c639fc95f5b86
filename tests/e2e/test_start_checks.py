"""A start asks the static checks first: it is refused with the row and its fix, or forced and recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.workspace import Workspace

from elometer.core.limits import Boundary
from elometer.gateway.demo.server import create_app, serve_in_thread

KEY = "sk-planted-0123456789abcdef"
SPEC = """\
experiment_id: checked-001
gateway:
  base_url: {url}
  key_env: EVAL_KEY
  key_boundary: {{allowed_models: [m], max_concurrency: 2{more}}}
agent: {{kind: http, strategies: [sample_1, sample_2]}}
sampling: {{runs: 1}}
eval: {{tasks: [t1]}}
"""
TASK = '{"id":"t1","prompt":"2+2? End with ANSWER: n","answer":"4","extract":"ANSWER: *(.+)"}\n'


def write(place: Workspace, url: str, more: str = "") -> Path:
    folder = place.home / "x"
    folder.mkdir(parents=True)
    (folder / "experiment.yaml").write_text(SPEC.format(url=url, more=more))
    (folder / "tasks.jsonl").write_text(TASK)
    return folder / "experiment.yaml"


def opened(folder: Path) -> dict[str, object]:
    with (folder / "events.jsonl").open() as events:
        first: dict[str, object] = json.loads(events.readline())
    return first


def test_an_expired_boundary_is_refused_and_can_be_overruled(place: Workspace) -> None:
    app = create_app(1, keys={KEY: Boundary(allowed_models=("m",))}, latency=(0, 0), rate_429=0)
    with serve_in_thread(app) as url:
        spec = write(place, url, ", expires_at: 2025-12-31")
        refused = place.run("run", spec, "--plain", EVAL_KEY=KEY)
        assert refused.returncode == 3
        said = refused.stderr.splitlines()
        assert len(said) == 3
        assert said[1].startswith("key.expiry: ")
        assert "Make a new key" in said[2]
        assert "--force" in said[2]
        folder = place.experiments / "checked-001"
        assert not (folder / "events.jsonl").exists()

        forced = place.run("run", spec, "--plain", "--force", EVAL_KEY=KEY)
    assert forced.returncode == 0, forced.stderr
    assert opened(folder)["forced"] == ["key.expiry"]
    (manifest,) = folder.glob("archive/*/manifest.json")
    assert json.loads(manifest.read_text())["forced"] == ["key.expiry"]
    assert "started with --force past: key.expiry" in (manifest.parent / "report.md").read_text()
    assert place.run("archive", "audit", manifest.parent).returncode == 0


@pytest.mark.parametrize("how", ["--plain", "--detach"])
def test_a_start_in_the_background_is_refused_before_it_leaves(place: Workspace, how: str) -> None:
    spec = write(place, "https://gateway.example/api?key=1")
    refused = place.run("run", spec, how, EVAL_KEY="YOUR_API_KEY")
    assert refused.returncode == 3
    assert refused.stderr.splitlines()[1].startswith("key.placeholder: ")
    assert not (place.experiments / "checked-001" / "start.log").exists()


def test_no_force_makes_up_for_a_missing_key(place: Workspace) -> None:
    spec = write(place, "https://gateway.example/api")
    refused = place.run("run", spec, "--plain", "--force")
    assert refused.returncode == 3
    assert "EVAL_KEY is not set" in refused.stderr


def test_the_demo_passes_without_a_warning_and_at_once(place: Workspace) -> None:
    folder = place.small_demo("demo-clear", tasks=2)
    for file in folder.iterdir():
        file.chmod(0o600)
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from elometer.jobs.prepare import prepare\n"
        "from elometer.jobs.clearance import clear_start\n"
        "prepared = prepare(Path(sys.argv[1]))\n"
        "begin = time.process_time()\n"
        "found = clear_start(prepared)\n"
        "print(found.overruled, found.warnings, time.process_time() - begin)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        env=place.environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    overruled, warnings, seconds = done.stdout.split()
    assert (overruled, warnings) == ("None", "()")
    # 0.06 s of one core; the bound is what a person would begin to notice.
    assert float(seconds) < 0.3
    assert place.run("run", folder, "--plain").returncode == 0
    assert not {"forced", "warned"} & set(opened(folder))


def test_what_warned_is_said_and_recorded(place: Workspace) -> None:
    folder = place.small_demo("demo-open", tasks=2)
    for file in folder.iterdir():
        file.chmod(0o644)
    done = place.run("run", folder, "--plain")
    assert done.returncode == 0, done.stderr
    assert "checks warn: files.private; 'elometer check --experiment demo-open' says why" in done.stderr
    assert opened(folder)["warned"] == ["files.private"]
    (manifest,) = folder.glob("archive/*/manifest.json")
    assert json.loads(manifest.read_text())["warned"] == ["files.private"]
