"""The end of a start: pairs, fit, table, archive; and the fit so far for a view."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elometer.jobs.prepare import Prepared
from elometer.rating.fit import FitResult
from elometer.runs import events as ev
from elometer.runs.folder import ExperimentFolder
from elometer.runs.live import LiveFit
from elometer.runs.result import Derived, derive, text_of, write
from elometer.runs.spec import Experiment, load_experiment

TABLE_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Result:
    """What a start came to: the fit (None where there is nothing to fit), its table as text, the folder."""

    fit: FitResult | None
    text: str
    folder: Path


def conclude(prepared: Prepared, ended: ev.StartEnded | None) -> Result:
    """Derive the result from the files, write the artefacts, and pack the start that just ended."""
    derived = derive(prepared.experiment, prepared.folder, remarks=True)
    write(prepared.folder, derived)
    if ended is not None:
        from elometer.jobs.archive import pack_start

        pack_start(prepared, ended, derived)
    return Result(derived.fit, text_of(derived, width=TABLE_WIDTH), prepared.folder.path)


def current_fit(folder: Path) -> FitResult | None:
    """The fit of what is on disk now; None before two strategies can be compared. Reads, writes nothing."""
    live = live_fit(folder)
    return None if live is None else live.update()


def live_fit(folder: Path) -> LiveFit | None:
    """What gives the fit again and again while a start runs; None before its first outcome."""
    place = ExperimentFolder(folder)
    if not place.outcomes.exists() or not place.ledger.exists():
        return None
    return LiveFit(experiment_of(folder), place)


def current_result(folder: Path) -> Derived | None:
    """All that the files come to now, with what stands beside the fit; reads everything, writes nothing.

    None before the first outcome.
    """
    place = ExperimentFolder(folder)
    if not place.outcomes.exists() or not place.ledger.exists():
        return None
    return derive(experiment_of(folder), place, remarks=True)


def experiment_of(folder: Path) -> Experiment:
    """The experiment whose files a folder holds."""
    return load_experiment(ExperimentFolder(folder).source)
