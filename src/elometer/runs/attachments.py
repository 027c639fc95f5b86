"""The files that a task's line names, and what its code graders find around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from elometer.core.text import gettext as _
from elometer.runs.folder import OWN_NAMES
from elometer.runs.graders import GraderSpec
from elometer.runs.graders.code import ANSWER_FILE, TASK_FILE, CodeGrader, Surroundings
from elometer.runs.graders.read import GraderFault, files_of
from elometer.runs.spec_read import suggestion


def listed_files(folder: Path, given: Any) -> tuple[str, ...]:
    """The `files` of a task, each inside the folder and there. Raises GraderFault."""
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(name, str) and name for name in given):
        raise GraderFault(_("files must be a list of paths."), _('Write ["data/items.csv"].'))
    for name in given:
        refuse_misplaced(folder, name)
        if name in (ANSWER_FILE, TASK_FILE):
            message = _("{name} is what a grader finds the answer or the task under.").format(name=name)
            raise GraderFault(message, _("Give the file another name."))
    return tuple(dict.fromkeys(given))


def refuse_misplaced(folder: Path, name: str) -> None:
    """Refuse a name that its copy in another folder would not have, or that a start writes to.

    Raises GraderFault, also where there is no such file.
    """
    path, parts = (folder / name).resolve(), Path(name).parts
    if parts and parts[0] in OWN_NAMES:
        raise GraderFault(
            _("{name} is a file of the experiment itself.").format(name=name), _("Give it another name.")
        )
    if Path(name).is_absolute() or ".." in parts or not path.is_relative_to(folder.resolve()):
        raise GraderFault(
            _("{name} lies outside the experiment's folder.").format(name=name),
            _("Move it into the folder."),
        )
    if not path.is_file():
        near = [found.name for found in folder.iterdir() if found.is_file()][:20] if folder.is_dir() else []
        raise GraderFault(_("There is no file {name}.").format(name=name), suggestion(name, near))


def own_files(folder: Path, grader: GraderSpec) -> tuple[str, ...]:
    """The files that a grader brings: its Python file, and words of its argv that are files here."""
    named = files_of(grader)
    if grader.type == "python":
        for name in named:
            refuse_misplaced(folder, name)
        return named
    inside = folder.resolve()
    found = tuple(
        name
        for name in named
        if "{" not in name
        and not Path(name).is_absolute()
        and ".." not in Path(name).parts
        and (path := (folder / name).resolve()).is_relative_to(inside)
        and path.is_file()
    )
    for name in found:
        refuse_misplaced(folder, name)
    return found


def surrounded(
    grader: GraderSpec, folder: Path, files: Sequence[str], task: Mapping[str, Any], *, sign: int
) -> GraderSpec:
    """A code grader with its files and its task; other graders as they are."""
    if not isinstance(grader, CodeGrader):
        return grader
    found = Surroundings(folder, tuple(dict.fromkeys((*files, *own_files(folder, grader)))), task)
    return replace(grader, surroundings=found, sign=sign)
