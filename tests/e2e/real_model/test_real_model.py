"""A real model behind a real server: what the ledger says must equal what the server counted itself.

The server is llama.cpp's; its /metrics counters are the outside source. Set ELOMETER_REAL_MODEL_PYTHON to the
interpreter that `install.sh FOLDER` names, then `pytest -m real_model tests/e2e/real_model`.
"""

from __future__ import annotations

import csv
import json
import os
import secrets
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
PYTHON = os.environ.get("ELOMETER_REAL_MODEL_PYTHON", "")
KEY_VARIABLE = "REAL_MODEL_KEY"
STRATEGIES = {"sample_1": 1, "sample_4": 4, "sample_8": 8}

pytestmark = pytest.mark.real_model


@dataclass(frozen=True)
class Server:
    """A running server and the key that it wants."""

    base_url: str
    key: str

    def counters(self) -> dict[str, int]:
        """The token counters of /metrics: input computed anew, input taken from its cache, output."""
        request = urllib.request.Request(
            self.base_url + "/metrics", headers={"Authorization": f"Bearer {self.key}"}
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        pairs = (line.split() for line in lines if line and not line.startswith("#"))
        return {name.removeprefix("llamacpp:"): int(float(value)) for name, value in pairs}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """llama.cpp's server on a free port with a key made for this test."""
    if not PYTHON:
        pytest.skip("ELOMETER_REAL_MODEL_PYTHON is not set: run tests/e2e/real_model/install.sh FOLDER")
    if not Path(PYTHON).exists():
        pytest.skip(f"ELOMETER_REAL_MODEL_PYTHON names no interpreter: {PYTHON}")
    installed = subprocess.run([PYTHON, HERE / "serve.py", "--check"], capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"server or model is missing: {installed.stderr.strip()}")
    key = "sk-local-" + secrets.token_hex(16)
    arguments = [PYTHON, HERE / "serve.py", "--port", "0", "--key-env", KEY_VARIABLE, "--seconds", "900"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=os.environ | {KEY_VARIABLE: key}) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield Server(ready["base_url"], key)
        finally:
            process.kill()


def write_experiment(folder: Path, server: Server, **changes: Any) -> Path:
    """The experiment of this folder, pointed at the test's server; `changes` are given as `section__key`."""
    spec = yaml.safe_load((HERE / "experiment.yaml").read_text())
    spec["gateway"]["base_url"] = server.base_url
    for path, value in changes.items():
        *sections, last = path.split("__")
        target = spec
        for section in sections:
            target = target[section]
        target[last] = value
    folder.mkdir()
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(spec, sort_keys=False))
    (folder / "tasks.jsonl").write_text((HERE / "tasks.jsonl").read_text())
    return file


def run_elometer(tmp_path: Path, server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in an environment made from nothing."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "ELOMETER_HOME": str(tmp_path / "workspace"),
        KEY_VARIABLE: server.key,
    }
    return subprocess.run(
        [sys.executable, "-m", "elometer", *arguments],
        env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=800,
    )  # fmt: skip


def ledger_of(folder: Path) -> list[dict[str, Any]]:
    """Every line of a start's ledger."""
    return [json.loads(line) for line in (folder / "token_ledger.jsonl").read_text().splitlines()]


def assert_same_as_the_server(
    before: dict[str, int], after: dict[str, int], lines: list[dict[str, Any]]
) -> None:
    """Output, all input, and the input that was computed anew, each against the server's own counter.

    An attempt on a connection that the server had already closed used nothing there (it closes after each
    stream without saying so, version 2026.10.11549); it has a line with unknown tokens, and no other line may.
    """
    grown = {name: after[name] - before[name] for name in after}
    counted = [line for line in lines if line["prompt_tokens"] is not None]
    unknown = [line for line in lines if line["prompt_tokens"] is None]
    assert {(line["status"], line["http_status"], line["final"]) for line in unknown} <= {
        ("error", None, False)
    }
    cached = sum(line["cached_tokens"] or 0 for line in counted)
    prompt = sum(line["prompt_tokens"] for line in counted)
    assert sum(line["completion_tokens"] for line in counted) == grown["tokens_predicted_total"]
    assert prompt == grown["prompt_tokens_total"] + cached
    if "prompt_tokens_cached_total" in grown:
        assert cached == grown["prompt_tokens_cached_total"]


def assert_key_is_nowhere(root: Path, result: subprocess.CompletedProcess[str], key: str) -> None:
    """No file and no output holds the key's value."""
    assert key not in result.stdout + result.stderr
    holders = [path for path in root.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert holders == []


def test_twenty_tasks_by_majority_cost_what_the_server_counted(tmp_path: Path, server: Server) -> None:
    experiment = write_experiment(tmp_path / "source", server)
    before = server.counters()
    result = run_elometer(tmp_path, server, "run", str(experiment), "--plain")
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "workspace" / "real-smollm2"
    lines = ledger_of(folder)
    assert_same_as_the_server(before, server.counters(), lines)

    finals = [line for line in lines if line["final"] and line["phase"] == "sample"]
    per_strategy = {name: sum(line["strategy"] == name for line in finals) for name in STRATEGIES}
    assert per_strategy == {name: 20 * samples for name, samples in STRATEGIES.items()}
    assert {line["model"] for line in lines} == {"smollm2-135m"}
    assert {line["usage_source"] for line in finals} == {"server"}

    with (folder / "elo_result.csv").open() as file:
        rows = {row["strategy"]: row for row in csv.DictReader(file)}
    assert list(rows) == list(STRATEGIES)
    for name in STRATEGIES:
        booked = sum(line["total_tokens"] or 0 for line in lines if line["strategy"] == name)
        assert int(rows[name]["total_tokens"]) == booked
    assert_key_is_nowhere(tmp_path, result, server.key)
    print(result.stdout)


@pytest.mark.parametrize("protocol", ["messages", "responses"])
def test_the_other_protocols_are_counted_alike(tmp_path: Path, server: Server, protocol: str) -> None:
    experiment = write_experiment(
        tmp_path / "source", server,
        experiment_id=f"real-{protocol}", agent__protocol=protocol,
        agent__strategies=["sample_1", "sample_4"], eval__tasks=["capital-germany"],
    )  # fmt: skip
    before = server.counters()
    result = run_elometer(tmp_path, server, "run", str(experiment), "--plain")
    assert result.returncode == 0, result.stderr
    lines = ledger_of(tmp_path / "workspace" / f"real-{protocol}")
    assert len([line for line in lines if line["final"]]) == 5
    assert_same_as_the_server(before, server.counters(), lines)
    assert_key_is_nowhere(tmp_path, result, server.key)
