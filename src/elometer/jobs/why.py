"""Why a strategy's number looks odd: what an experiment's files say, for the checks to explain."""

from __future__ import annotations

import difflib
from pathlib import Path

import msgspec

from elometer.archive.circumstances import last_start, peak_in_flight
from elometer.checks.why import Circumstances, Evidence, Why, explain
from elometer.checks.why_findings import Case
from elometer.checks.why_ledger import tally
from elometer.core import paths
from elometer.core.errors import UsageError
from elometer.core.natural import natural_key
from elometer.core.text import gettext as _
from elometer.jobs.demo import as_planted
from elometer.jobs.places import find_experiment
from elometer.jobs.result import experiment_of
from elometer.ledger.reader import Reading
from elometer.rating.fit import FitResult
from elometer.runs.folder import ExperimentFolder
from elometer.runs.journal import latest_outcomes
from elometer.runs.result import derive
from elometer.runs.served import frozen_names
from elometer.runs.spec import Experiment


class _Time(msgspec.Struct, gc=False):
    """What concurrency is counted from; has the fields that `peak_in_flight` reads."""

    run_id: str | None = None
    timestamp: str | None = None
    latency_ms: float | None = None


def why(identity: str, strategy: str) -> Why:
    """Explain one strategy of an experiment.

    Raises UsageError for an unknown experiment or strategy, and where nothing was started yet.
    """
    folder = ExperimentFolder(find_experiment(identity))
    experiment = as_planted(experiment_of(folder.path))
    _require_strategy(experiment, strategy)
    if not folder.ledger.exists():
        raise UsageError(
            _("'{name}' has no ledger yet.").format(name=identity),
            evidence=str(folder.ledger),
            fix=_("Start it first: elometer run {folder}").format(folder=folder.path),
        )
    derived = derive(experiment, folder)
    tallies, latest = tally(folder.ledger)
    case = Case(
        name=_name(folder.path),
        strategy=strategy,
        compared=_compared(experiment, derived.fit, strategy),
        allowed=experiment.gateway.boundary.allowed_models,
        served_as={**frozen_names(folder), **experiment.gateway.served_as},
    )
    return explain(
        case,
        Evidence(
            folder=folder.path,
            circumstances=_circumstances(experiment, folder, latest),
            tallies=tallies,
            outcomes=latest_outcomes(folder.outcomes),
            fit=derived.fit,
            no_fit_because=derived.reason,
        ),
    )


def highest(identity: str | Path) -> str:
    """The last strategy in natural order: where an odd number is looked for first."""
    experiment = experiment_of(find_experiment(identity))
    return max((item.name for item in experiment.contestants), key=natural_key)


def _require_strategy(experiment: Experiment, strategy: str) -> None:
    names = [item.name for item in experiment.agent.strategies]
    if strategy in names:
        return
    near = difflib.get_close_matches(strategy, names, n=1)
    raise UsageError(
        _("'{name}' is no strategy of {experiment}.").format(
            name=strategy, experiment=experiment.experiment_id
        ),
        evidence=_("It has {names}.").format(names=", ".join(names)),
        fix=_("Did you mean '{name}'?").format(name=near[0]) if near else _("Name one of these."),
    )


def _name(folder: Path) -> str:
    """What a command takes for the experiment: its name in the workspace, else its path."""
    return folder.name if folder.parent == paths.workspace() else str(folder)


def _compared(experiment: Experiment, fit: FitResult | None, strategy: str) -> str | None:
    """The rung below; of the lowest one the rung above; before any fit the neighbour in natural order."""
    if fit is not None:
        rows = {row.strategy: row.compared_with for row in fit.strategies}
        above = next((name for name, below in rows.items() if below == strategy), None)
        return rows.get(strategy) or above
    names = sorted((item.name for item in experiment.contestants), key=natural_key)
    if strategy not in names or len(names) < 2:
        return None
    place = names.index(strategy)
    return names[place - 1] if place else names[1]


def _circumstances(experiment: Experiment, folder: ExperimentFolder, latest: str) -> Circumstances:
    start = last_start(folder.events)
    opened, ended = start.opened, start.ended
    reading = Reading(folder.ledger, _Time)
    times = [line for line in reading if opened is None or line.run_id == opened.run_id]
    boundary = experiment.gateway.boundary
    return Circumstances(
        status=ended.status if ended else "died",
        reason=ended.reason if ended else "",
        blocks_done=len({(task, run) for task, run, _name in latest_outcomes(folder.outcomes)}),
        blocks_planned=opened.blocks if opened else 0,
        peak=peak_in_flight(times),
        cap=boundary.max_concurrency or (opened.max_concurrency if opened else None),
        expires_at=boundary.expires_at,
        latest=latest,
        forced=opened.forced if opened else None,
        warned=opened.warned if opened else (),
        damaged_lines=len(reading.bad),
    )
