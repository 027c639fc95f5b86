"""A planted fault and what the checks say of it: the demo as a client sees it that took the fault over."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from elometer.checks.catalogue import LIVE, STATIC
from elometer.checks.context import Context, ExperimentFacts, StoreFacts
from elometer.checks.engine import Check, Row
from elometer.checks.reconcile import CHECKS as RECONCILE
from elometer.core import paths
from elometer.gateway.demo.faults import FAULTS, Fault, fault
from elometer.jobs.checks import Question, ask, experiment_facts, run_static
from elometer.jobs.demo import DemoGateway, as_planted, create_demo, demo_gateway
from elometer.profiles.model import Key
from elometer.runs.spec import Experiment, load_experiment

# Where the store of the make-believe client has the right key.
RIGHT_KEY = "ELOMETER_DEMO_STORED_KEY"
# Questions about this machine and its user, who is not the make-believe client.
OF_THIS_MACHINE = ("terminal.", "key.files", "environment.workspace", "environment.store")
KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TERM")


@dataclass(frozen=True, slots=True)
class PlantedDemo:
    """A demo with a fault in it, and all rows that were asked."""

    fault: Fault
    folder: Path
    rows: tuple[Row, ...]

    @property
    def complaints(self) -> tuple[Row, ...]:
        """The rows that name something, failures first."""
        named = [row for row in self.rows if row.status in ("warn", "fail")]
        return tuple(sorted(named, key=lambda row: row.status != "fail"))

    @property
    def blocked(self) -> bool:
        """True where a fail stands in the way of a start."""
        return any(row.status == "fail" for row in self.rows)


def known_faults() -> tuple[Fault, ...]:
    """The faults that can be planted, in the order of the picker."""
    return tuple(FAULTS.values())


def plant(name: str, *, seed: int | None = None) -> PlantedDemo:
    """Make a demo with a fault, start its gateway, and ask all checks as its client.

    What the live ones spend is the simulation's and is booked nowhere. Raises UsageError for an unknown name.
    """
    row = fault(name)
    folder = create_demo(seed=seed, fault=row.id)
    source = folder / "experiment.yaml"
    experiment = as_planted(load_experiment(source))
    # A refusal by chance would be named beside the planted fault.
    with demo_gateway(experiment, "--rate-429", "0") as gateway:
        context = _client(experiment, source, gateway)
        return PlantedDemo(row, folder, tuple(ask(context, _about_the_client((*STATIC, *LIVE)))))


def named_by_the_ledger(folder: Path) -> list[Row]:
    """What the reconcile checks say of a start that has ended, warnings only."""
    rows = run_static(Question(experiment=folder), only=[check.id for check in RECONCILE])
    return [row for row in rows if row.status in ("warn", "fail")]


def _about_the_client(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    return tuple(check for check in checks if not check.id.startswith(OF_THIS_MACHINE))


def _client(experiment: Experiment, source: Path, gateway: DemoGateway) -> Context:
    """A client with an empty home and an environment made from nothing but what was planted."""
    home = source.parent / "client-home"
    label = experiment.gateway.key_label
    store = StoreFacts(keys=(Key(label, f"env:{RIGHT_KEY}"),)) if label else StoreFacts()
    facts = experiment_facts(experiment, source, store)
    return Context(
        environ=_environment(gateway),
        home=home,
        folder=home,
        workspace=paths.workspace(),
        store=store,
        experiment=_as_live(facts, gateway),
        system_root=home,
    )


def _as_live(facts: ExperimentFacts, gateway: DemoGateway) -> ExperimentFacts:
    """The experiment as one that calls a gateway by its URL, which is what a user's own would do."""
    return replace(facts, kind="http", base_url=gateway.base_url)


def _environment(gateway: DemoGateway) -> Mapping[str, str]:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {**kept, RIGHT_KEY: gateway.key.reveal(), **gateway.environment}
