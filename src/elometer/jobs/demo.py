"""The demo: a folder with an experiment of its own, and the gateway that answers it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from elometer.core import paths
from elometer.core.atomic import make_private_folder, replace_file
from elometer.core.clock import stamp
from elometer.core.errors import PartialRun
from elometer.core.redact import Secret, register
from elometer.core.text import gettext as _
from elometer.runs.spec import Experiment

KEY_VARIABLE = "ELOMETER_DEMO_KEY"
# A planted fault is kept in the experiment, so that it is there again when the folder is started again.
FAULT_KEY = "x-planted-fault"
# Tasks and k of a demo with a fault: enough to show it; the whole demo takes longer than a lesson needs.
FAULTY = (8, (1, 2, 4, 8, 16))
# Under a storm the gate lets some 30 attempts a minute through (measured).
SLOWED = {"429-storm": (2, (1, 2, 4))}


@dataclass(frozen=True, slots=True)
class DemoGateway:
    """A running demo gateway: its root URL and the make-believe key it accepts.

    `base_url` and `environment` are what a client takes over; they differ from URL and key by a planted
    fault alone.
    """

    url: str
    key: Secret
    base_url: str
    environment: Mapping[str, str] = field(repr=False)

    @property
    def sent_key(self) -> Secret:
        """The key that a client sends: the one of its environment."""
        return Secret(self.environment[KEY_VARIABLE])


def create_demo(*, seed: int | None = None, fault: str | None = None) -> Path:
    """Write a new demo experiment into the workspace and return its folder.

    `fault` is planted whenever it is started; such a demo is smaller.
    """
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
    if fault is None:
        spec, tasks = demo_experiment(chosen, experiment_id=folder.name)
    else:
        count, k_values = SLOWED.get(fault, FAULTY)
        spec, tasks = demo_experiment(
            chosen, experiment_id=folder.name, tasks=count, runs=1, k_values=k_values
        )
        spec += f"\n{FAULT_KEY}: {fault}\n"
    replace_file(folder / "experiment.yaml", spec.encode())
    replace_file(folder / "tasks.jsonl", tasks.encode())
    return folder


def planted_fault(experiment: Experiment) -> str | None:
    """The name of the fault that was planted in a demo."""
    found = experiment.extra.get(FAULT_KEY)
    return found if experiment.agent.kind == "demo" and isinstance(found, str) else None


def as_planted(experiment: Experiment) -> Experiment:
    """The experiment as its planted fault has it: another model is asked for. Raises UsageError."""
    name = planted_fault(experiment)
    if name is None:
        return experiment
    from elometer.gateway.demo.faults import MODEL
    from elometer.gateway.demo.faults import fault as row_of

    model = row_of(name).model
    if model == MODEL:
        return experiment
    return replace(experiment, agent=replace(experiment.agent, model=model))


@contextlib.contextmanager
def demo_gateway(experiment: Experiment, *extra: str) -> Iterator[DemoGateway]:
    """A demo gateway with the experiment's boundary, as a process of its own; it ends with this process.

    What was planted in the experiment is planted in it.

    The make-believe key follows from the experiment, so that all starts of one demo have one fingerprint; it
    reaches the gateway through its environment alone.
    """
    digest = hashlib.blake2b(
        f"elometer {experiment.experiment_id} {experiment.seed}".encode(), digest_size=16
    )
    value = f"demo-{digest.hexdigest()}"
    register(value)
    command = [sys.executable, "-m", "elometer", "gateway", "demo", "--seed", str(experiment.seed)]
    if (fault := planted_fault(experiment)) is not None:
        command += ["--break", fault]
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
        yield _taken_over(_ready(process), value)
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


def _taken_over(ready: Mapping[str, Any], key: str) -> DemoGateway:
    """The gateway as a client sees it that takes over what was planted."""
    base_url, environment = ready["url"], {KEY_VARIABLE: key}
    for plant in ready.get("planted", ()):
        base_url = plant["base_url"]
        environment |= {name: text.replace("{key}", key) for name, text in plant["environment"].items()}
    return DemoGateway(ready["url"], Secret(key), base_url, environment)


def _ready(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    try:
        ready = json.loads(line)
        ready["url"]
    except (ValueError, KeyError, TypeError) as error:
        process.kill()
        said = process.stderr.read().decode(errors="replace").strip().splitlines()
        raise PartialRun(
            _("The demo gateway did not start."),
            evidence=said[-1] if said else _("It ended without a word."),
            fix=_("Try 'elometer gateway demo' to see what it says."),
        ) from error
    return dict(ready)
