"""Where experiments and their ledgers are: what `ID` on a command line stands for."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from elometer.core.errors import UsageError
from elometer.core.natural import natural_key
from elometer.core.paths import expanded, workspace
from elometer.core.text import gettext as _

IMPORTS = "imports"
LEDGER = "token_ledger.jsonl"
# What makes a folder an experiment's: any of the files that a start writes, or the one it is started from.
SIGNS = ("experiment.resolved.yaml", "experiment.yaml", LEDGER, "events.jsonl")

_RUN_STAMP = re.compile(r"-\d{8}T\d{6}Z(-\d+)?$")


def is_experiment(folder: Path) -> bool:
    """True where the folder holds one of the files that an experiment consists of."""
    return folder.is_dir() and any((folder / sign).is_file() for sign in SIGNS)


def experiments() -> list[Path]:
    """The experiments' folders of the workspace in natural order; [] where there is no workspace yet."""
    return _experiments_in(workspace())


def find_experiment(identity: str | Path) -> Path:
    """The folder that an experiment_id, a run_id, a folder or a file of an experiment stands for.

    A name in the workspace goes before a path of the same spelling. Raises UsageError, naming the nearest
    known experiment, where there is none.
    """
    name = str(identity)
    for folder in (*_named_in_workspace(name), expanded(name)):
        if is_experiment(folder):
            return folder
        if folder.is_file() and is_experiment(folder.parent):
            return folder.parent
    raise _unknown(name)


def ledgers(identity: str | Path | None = None) -> list[Path]:
    """The ledgers that an ID, a folder or a path stands for.

    Without one: those of all experiments of the workspace and of its imports; archives are copies and not
    among them. Raises UsageError where there is none under the name.
    """
    if identity is None:
        imported = sorted((workspace() / IMPORTS).glob(f"*/{LEDGER}"))
        return [*_ledgers_of(experiments()), *imported]
    path = expanded(identity)
    named = _named_in_workspace(str(identity))
    if path.is_file() and not any(map(is_experiment, named)):
        return [path]
    if path.is_dir() and not is_experiment(path) and (inside := _ledgers_of(_experiments_in(path))):
        return inside
    folder = find_experiment(identity)
    if found := _ledgers_of([folder]):
        return found
    raise UsageError(
        _("'{name}' has no ledger yet.").format(name=identity),
        evidence=_("There is no {file} in {folder}.").format(file=LEDGER, folder=folder),
        fix=_("It is written with the first call: elometer run {file}").format(
            file=folder / "experiment.yaml"
        ),
    )


def _experiments_in(folder: Path) -> list[Path]:
    try:
        entries = list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [e for e in entries if e.name != IMPORTS and not e.name.startswith(".") and is_experiment(e)]
    return sorted(found, key=lambda entry: natural_key(entry.name))


def _ledgers_of(folders: list[Path]) -> list[Path]:
    return [folder / LEDGER for folder in folders if (folder / LEDGER).is_file()]


def _named_in_workspace(name: str) -> list[Path]:
    """Folders of the workspace under this name, also as a start's run_id; nothing outside of it."""
    if not name or name in (".", "..") or "/" in name:
        return []
    found = [workspace() / name, workspace() / IMPORTS / name]
    without_stamp = _RUN_STAMP.sub("", name)
    if without_stamp not in ("", name):
        found.append(workspace() / without_stamp)
    return [folder for folder in found if folder.is_dir()]


def _unknown(name: str) -> UsageError:
    known = [folder.name for folder in experiments()]
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        fix = _("Did you mean '{name}'?").format(name=near[0])
    elif known:
        fix = _("'elometer runs' lists what there is.")
    else:
        fix = _("There is no experiment yet; 'elometer demo' makes one without a key.")
    return UsageError(
        _("There is no experiment '{name}'.").format(name=name),
        evidence=_("Neither a name in {workspace} nor a folder or file of an experiment.").format(
            workspace=workspace()
        ),
        fix=fix,
    )
