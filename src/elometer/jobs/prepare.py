"""From the file a user names to a start that can begin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elometer.core import paths
from elometer.core.atomic import make_private_folder, replace_file
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.runs.folder import ExperimentFolder
from elometer.runs.spec import Experiment, load_experiment, resolved_yaml, spec_difference
from elometer.runs.tasks import Task, load_tasks, tasks_path


@dataclass(frozen=True, slots=True)
class Prepared:
    """An experiment with its tasks, and the folder that holds its files."""

    experiment: Experiment
    tasks: list[Task]
    folder: ExperimentFolder


def locate(given: Path) -> Path:
    """The experiment.yaml that a file, a folder or the id of an experiment in the workspace names."""
    candidates = [given, paths.workspace() / given] if len(given.parts) == 1 else [given]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
        if (candidate / "experiment.yaml").is_file():
            return candidate / "experiment.yaml"
    if given.is_dir():
        raise UsageError(
            _("This folder holds no experiment.yaml."),
            evidence=str(given),
            fix=_("'elometer init {path}' writes one.").format(path=given),
        )
    raise UsageError(
        _("There is no such experiment."),
        evidence=str(given),
        fix=_("Give the path of an experiment.yaml, its folder, or an id that 'elometer runs' lists."),
    )


def prepare(given: Path) -> Prepared:
    """Read an experiment and make its folder ready. Nothing of the user's is changed.

    A file outside the workspace is copied, with its tasks, into `<workspace>/<experiment_id>/` at the first
    start. Raises UsageError where the folder belongs to an earlier start of a different experiment.
    """
    source = locate(given)
    experiment = load_experiment(source)
    tasks = load_tasks(experiment, source.parent)
    folder = ExperimentFolder(_home_of(source, experiment.experiment_id))
    make_private_folder(folder.path)
    resolved = resolved_yaml(experiment)
    if folder.resolved.exists():
        _refuse_changes(folder, resolved, experiment.experiment_id)
    _keep_sources(source, experiment, tasks, folder)
    if not folder.resolved.exists():
        replace_file(folder.resolved, resolved.encode())
    return Prepared(experiment, tasks, folder)


def _home_of(source: Path, experiment_id: str) -> Path:
    home = paths.workspace() / experiment_id
    parent = source.parent.resolve()
    # A demo's folder, or one that was moved, holds its own files already.
    if parent == home.resolve() or (parent / "experiment.resolved.yaml").exists():
        return source.parent
    return home


def _refuse_changes(folder: ExperimentFolder, resolved: str, experiment_id: str) -> None:
    changes = spec_difference(folder.resolved.read_text(), resolved)
    if not changes:
        return
    shown = "; ".join(changes[:3]) + ("; …" if len(changes) > 3 else "")
    raise UsageError(
        _("The experiment changed since its first start: its numbers would no longer mean one thing."),
        evidence=f"{folder.resolved}: {shown}",
        fix=_("Undo the change, or give it a new experiment_id, for example {name}.").format(
            name=_next_id(experiment_id)
        ),
    )


def _next_id(experiment_id: str) -> str:
    number = 2
    while (paths.workspace() / f"{experiment_id}-{number}").exists():
        number += 1
    return f"{experiment_id}-{number}"


def _keep_sources(source: Path, experiment: Experiment, known: list[Task], folder: ExperimentFolder) -> None:
    """Copy the user's files into the experiment's folder once, byte for byte, private."""
    if source.resolve() != folder.source.resolve():
        _copy_once(source, folder.source)
    tasks = tasks_path(experiment, source.parent)
    if tasks.is_file() and tasks.resolve() != folder.tasks.resolve():
        if folder.tasks.exists() and folder.tasks.read_bytes() != tasks.read_bytes():
            raise UsageError(
                _("The tasks changed since the first start."),
                evidence=_("{now} differs from {then}.").format(now=tasks, then=folder.tasks),
                fix=_("Undo the change, or give the experiment a new experiment_id."),
            )
        _copy_once(tasks, folder.tasks)
        for task in known:
            for name in task.attachments:
                _keep_attachment(tasks.parent / name, folder.path / name)


def _keep_attachment(source: Path, target: Path) -> None:
    """Copy a prompt, a grader or a file of a task; raises UsageError where it is not what it was."""
    if target.exists() and target.read_bytes() != source.read_bytes():
        raise UsageError(
            _("A file of the tasks changed since the first start."),
            evidence=_("{now} differs from {then}.").format(now=source, then=target),
            fix=_("Undo the change, or give the experiment a new experiment_id."),
        )
    _copy_once(source, target)


def _copy_once(source: Path, target: Path) -> None:
    if target.exists():
        return
    make_private_folder(target.parent)
    replace_file(target, source.read_bytes())
