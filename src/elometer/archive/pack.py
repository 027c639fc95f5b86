"""Packing: copies of an experiment's files with a manifest, written aside and put in place in one step."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path

from elometer.archive.manifest import (
    MANIFEST,
    NEEDED,
    PACKED,
    REPORT,
    Manifest,
    entry_of,
    manifest_bytes,
    read_manifest,
)
from elometer.core.atomic import PRIVATE_FILE, PRIVATE_FOLDER, make_private_folder, sync_folder, write_all
from elometer.core.errors import UsageError
from elometer.core.redact import redact
from elometer.core.text import gettext as _
from elometer.ledger.verify import being_written

# Written by people, so a key may have slipped in; what elometer writes was redacted when it was written.
BY_HAND = ("experiment.yaml", "experiment.resolved.yaml", "tasks.jsonl")
CHUNK = 1 << 20


def pack(folder: Path, run_id: str, *, facts: Manifest, report: str) -> Path:
    """Pack an experiment's folder as `archive/<run_id>/` and return that folder.

    `facts` is the manifest without its files. What is packed already is left as it is when it holds the same
    files. Raises UsageError where the experiment is running, where a needed file is missing, and where an
    archive of that name holds other files.
    """
    refuse_unready(folder)
    place = make_private_folder(folder / "archive")
    target = place / run_id
    for left_behind in place.glob(f".{run_id}.*.tmp"):  # by a pack that was killed
        shutil.rmtree(left_behind, ignore_errors=True)
    aside = place / f".{run_id}.{secrets.token_hex(6)}.tmp"
    aside.mkdir(mode=PRIVATE_FOLDER)
    try:
        _fill(folder, aside, facts, report)
        if target.exists():
            _refuse_difference(aside, target)
            shutil.rmtree(aside)
            return target
        aside.rename(target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    sync_folder(place)
    return target


def refuse_unready(folder: Path) -> None:
    """Raise UsageError where an experiment is running or has nothing to pack yet."""
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if missing:
        raise UsageError(
            _("There is nothing to pack in {folder} yet.").format(folder=folder),
            evidence=_("It lacks {names}.").format(names=", ".join(missing)),
            fix=_("Start the experiment first: elometer run {folder}").format(folder=folder),
        )
    if being_written(folder / "token_ledger.jsonl"):
        raise UsageError(
            _("The experiment is running; a start is packed when it ends."),
            evidence=_("A process is writing {path}.").format(path=folder / "token_ledger.jsonl"),
            fix=_("Wait, or stop it with 'elometer control ID stop'."),
        )


def _fill(folder: Path, aside: Path, facts: Manifest, report: str) -> None:
    files = {}
    for name in PACKED:
        with contextlib.suppress(FileNotFoundError):
            _copy(folder / name, aside / name, redacted=name in BY_HAND)
            files[name] = entry_of(aside / name)
    _write(aside / REPORT, redact(report).encode())
    files[REPORT] = entry_of(aside / REPORT)
    facts.files = files
    _write(aside / MANIFEST, redact(manifest_bytes(facts).decode()).encode())
    sync_folder(aside)


def _copy(source: Path, target: Path, *, redacted: bool) -> None:
    with source.open("rb", buffering=0) as file:
        if redacted:
            data = file.readall()
            text = data.decode("utf-8", "surrogateescape")
            _write(target, redact(text).encode("utf-8", "surrogateescape"))
            return
        descriptor = _new(target)
        try:
            while data := file.read(CHUNK):
                write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write(target: Path, data: bytes) -> None:
    descriptor = _new(target)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _new(target: Path) -> int:
    return os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)


def _refuse_difference(aside: Path, target: Path) -> None:
    ours, theirs = read_manifest(aside).files, read_manifest(target).files
    # The report names when it was packed and by what; the measured files are what must not differ.
    differing = [name for name in PACKED if ours.get(name) != theirs.get(name)]
    if differing:
        raise UsageError(
            _("{target} is packed already and holds other files.").format(target=target),
            evidence=_("They differ in {names}.").format(names=", ".join(differing)),
            fix=_("An archive is never overwritten; move it away to pack again."),
        )
