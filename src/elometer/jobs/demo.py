"""The demo: a folder with an experiment of its own, and the gateway that answers it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elometer.core import paths
from elometer.core.atomic import make_private_folder, replace_file
from elometer.core.clock import stamp
from elometer.core.errors import PartialRun
from elometer.core.redact import Secret, register
from elometer.core.text import gettext as _
from elometer.runs.spec import Experiment

KEY_VARIABLE = "ELOMETER_DEMO_KEY"


@dataclass(frozen=True, slots=True)
class DemoGateway:
    """A running demo gateway: its root URL and the make-believe key it accepts."""

    url: str
    key: Secret


def create_demo(*, seed: int | None = None) -> Path:
    """Write a new demo experiment into the workspace and return its folder."""
    from elometer.gateway.demo.experiment import demo_experiment

    home = make_private_folder(paths.workspace())
    name = f"demo-{stamp()}"
    folder = home / name
    number = 1
    while True:
        try:
            folder.mkdir(mode=0o700)
            break
        except FileExistsError:
            number += 1
            folder = home / f"{name}-{number}"
    chosen = secrets.randbelow(1_000_000) if seed is None else seed
    spec, tasks = demo_experiment(chosen, experiment_id=folder.name)
    replace_file(folder / "experiment.yaml", spec.encode())
    replace_file(folder / "tasks.jsonl", tasks.encode())
    return folder


@contextlib.contextmanager
def demo_gateway(experiment: Experiment, *extra: str) -> Iterator[DemoGateway]:
    """A demo gateway with the experiment's boundary, as a process of its own; it ends with this process.

    The make-believe key follows from the experiment, so that all starts of one demo have one fingerprint; it
    reaches the gateway through its environment alone.
    """
    digest = hashlib.blake2b(
        f"elometer {experiment.experiment_id} {experiment.seed}".encode(), digest_size=16
    )
    value = f"demo-{digest.hexdigest()}"
    register(value)
    command = [sys.executable, "-m", "elometer", "gateway", "demo", "--seed", str(experiment.seed)]
    process = subprocess.Popen(
        [*command, "--with-parent", str(os.getpid()), *_boundary(experiment), *extra],
        env={**os.environ, KEY_VARIABLE: value},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A ctrl+c in the terminal is the start's to drain; its gateway must answer until then.
        start_new_session=True,
    )
    try:
        yield DemoGateway(_ready(process), Secret(value))
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _boundary(experiment: Experiment) -> list[str]:
    """The experiment's boundary as options of the gateway, which enforces it as a real one would."""
    boundary = experiment.gateway.boundary
    options = [word for model in boundary.allowed_models for word in ("--model", model)]
    if boundary.max_concurrency is not None:
        options += ["--max-concurrency", str(boundary.max_concurrency)]
    if boundary.daily_budget_tokens is not None:
        options += ["--daily-budget-tokens", str(boundary.daily_budget_tokens)]
    return options


def _ready(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    try:
        return str(json.loads(line)["url"])
    except (ValueError, KeyError) as error:
        process.kill()
        said = process.stderr.read().decode(errors="replace").strip().splitlines()
        raise PartialRun(
            _("The demo gateway did not start."),
            evidence=said[-1] if said else _("It ended without a word."),
            fix=_("Try 'elometer gateway demo' to see what it says."),
        ) from error
