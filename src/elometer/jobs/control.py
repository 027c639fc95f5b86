"""Ask a running start to pause, go on, stop, or keep to another cap."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.jobs.watch import StartWatch, summary_of
from elometer.runs import control
from elometer.runs.folder import ExperimentFolder
from elometer.runs.state import RunState


@dataclass(frozen=True, slots=True)
class Asked:
    """What control.json now asks for; `bound` is what the key's boundary allows in flight."""

    state: control.DesiredState
    limit: int | None
    bound: int | None = None


def set_state(folder: Path, state: Literal["running", "paused", "stopping"]) -> Asked:
    """Ask the running start of a folder to take a state. Raises UsageError where none runs."""
    _running(folder)
    return _ask(folder, state=state)


def set_limit(folder: Path, limit: int) -> Asked:
    """Ask the running start to keep at most `limit` calls in flight, or what the key's boundary allows."""
    if limit < 1:
        raise UsageError(
            _("A cap of {limit} calls in flight would stop the start.").format(limit=limit),
            fix=_("Give 1 or more, or use 'pause'."),
        )
    opened = _running(folder).opened
    bound = opened.key_concurrency if opened else None
    return _ask(folder, bound, limit=limit if bound is None else min(limit, bound))


def _running(folder: Path) -> RunState:
    """The state of a running start. Raises UsageError where none runs."""
    state = StartWatch(folder).read_all()
    summary = summary_of(folder, state)
    if not summary.running:
        raise UsageError(
            _("No start is running in this experiment."),
            evidence=_("{path}: {standing}.").format(path=folder, standing=summary.standing),
            fix=_("'elometer run {path}' starts it or goes on with it.").format(path=folder),
        )
    return state


def _ask(folder: Path, bound: int | None = None, **changes: object) -> Asked:
    desired = control.change(ExperimentFolder(folder).control, **changes)
    return Asked(desired.state, desired.limit, bound)
