"""Pack what a start left behind, and audit what was packed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from elometer.archive.audit import Finding, audit
from elometer.archive.circumstances import Start, describe, last_start
from elometer.archive.manifest import MANIFEST
from elometer.archive.pack import pack, refuse_unready
from elometer.archive.report import report_text
from elometer.core.errors import UsageError
from elometer.core.paths import expanded
from elometer.core.text import gettext as _
from elometer.jobs.places import find_experiment
from elometer.jobs.prepare import Prepared
from elometer.runs import events as ev
from elometer.runs.folder import ExperimentFolder
from elometer.runs.spec import Experiment, load_experiment

if TYPE_CHECKING:
    from elometer.runs.result import Derived

TABLE_WIDTH = 100


def pack_start(prepared: Prepared, ended: ev.StartEnded, derived: Derived) -> Path:
    """Pack the start that just ended; what was derived from its files is on disk."""
    start = last_start(prepared.folder.events)
    start.ended = ended
    return _pack(prepared.experiment, prepared.folder, start, derived)


def pack_experiment(identity: str) -> Path:
    """Pack the last start of an experiment as its files stand, also one that died.

    Raises UsageError where nothing was started, where it is running, and where a run_id names an earlier
    start: the files have moved on since then.
    """
    folder = ExperimentFolder(find_experiment(identity))
    start = last_start(folder.events)
    if start.opened is None:
        raise UsageError(
            _("Nothing was started in {folder}.").format(folder=folder.path),
            evidence=_("{path} names no start.").format(path=folder.events),
            fix=_("Start it first: elometer run {folder}").format(folder=folder.path),
        )
    if identity.startswith(f"{start.opened.experiment_id}-") and identity not in (
        start.opened.run_id,
        folder.path.name,
    ):
        raise UsageError(
            _("Only the last start of an experiment can be packed."),
            evidence=_("The last one is {run_id}.").format(run_id=start.opened.run_id),
            fix=_("Earlier ones were packed when they ended; see {path}.").format(path=folder.archive),
        )
    refuse_unready(folder.path)
    from elometer.runs.result import derive, write

    experiment = load_experiment(folder.resolved)
    # A start that died has derived nothing.
    derived = derive(experiment, folder, remarks=True)
    write(folder, derived)
    return _pack(experiment, folder, start, derived)


def _pack(experiment: Experiment, folder: ExperimentFolder, start: Start, derived: Derived) -> Path:
    from elometer.runs.result import text_of

    assert start.opened is not None
    facts = describe(experiment, folder, start, no_fit_because=derived.reason)
    report = report_text(facts, text_of(derived, width=TABLE_WIDTH))
    return pack(folder.path, start.opened.run_id, facts=facts, report=report)


def archive_folder(identity: str) -> Path:
    """The archive that a folder, a run_id or an experiment (its newest one) stands for."""
    given = expanded(identity)
    if (given / MANIFEST).exists() or (given.is_dir() and given.parent.name == "archive"):
        return given
    home = find_experiment(identity) / "archive"
    if (home / identity / MANIFEST).is_file():
        return home / identity
    packed = sorted(path.parent for path in home.glob(f"*/{MANIFEST}"))
    if not packed:
        raise UsageError(
            _("'{name}' has no archive.").format(name=identity),
            evidence=_("There is none in {folder}.").format(folder=home),
            fix=_("Every start packs one when it ends; or: elometer archive pack ID"),
        )
    return packed[-1]


def audit_archive(identity: str) -> tuple[Path, list[Finding]]:
    """The archive that was meant, and what does not hold in it."""
    folder = archive_folder(identity)
    return folder, audit(folder)
