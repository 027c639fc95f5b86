"""What switches did: one entry each, newest last, with sealed copies of what was there before.

A switch writes its sealed copy, then the journal with the entry as pending, then the client's file, then the
journal with the entry as done. A process that is killed in between leaves a pending entry; the file itself
says whether the switch took place, so the next one settles it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from elometer.core import atomic, paths
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.profiles import live_file
from elometer.profiles.clients.files import CLIENTS
from elometer.profiles.edit.document import Unreadable
from elometer.profiles.locking import locked, sweep
from elometer.profiles.seal import digest, seal, unseal


class Record(msgspec.Struct, frozen=True):
    """What we last wrote into one file: the profile, and each field as a digest; `base` is sealed."""

    profile: str
    tool: str
    written: dict[str, str]
    base: str = ""


class Entry(msgspec.Struct, frozen=True):
    """One switch. `path` is None where it only changed the store's default."""

    seq: int
    at: str
    tool: str
    profile: str
    previous: str | None
    path: str | None
    existed: bool = True
    mode_before: int | None = None
    mode_after: int | None = None
    digest_before: str = ""
    digest_after: str = ""
    written: dict[str, str] = {}
    record_before: Record | None = None
    record_after: Record | None = None


class Pristine(msgspec.Struct, frozen=True):
    """The state of a file before our first switch; kept for ever."""

    file: str
    existed: bool
    mode: int | None
    at: str


class Pending(msgspec.Struct, frozen=True):
    """A switch or an undo that was begun and is not known to be done."""

    action: Literal["switch", "undo"]
    entry: Entry


class Journal(msgspec.Struct):
    """The undo stack over all tools, what is live by file, and the pristine copies.

    `tables` remembers by file what we ever wrote into provider tables, which outlive their profiles.
    """

    schema: int = 1
    next_seq: int = 1
    entries: list[Entry] = []
    records: dict[str, Record] = {}
    tables: dict[str, dict[str, str]] = {}
    pristine: dict[str, Pristine] = {}
    pending: Pending | None = None


def folder() -> Path:
    """Where the journal and its sealed copies live."""
    return paths.state_folder() / "switch"


def _path() -> Path:
    return folder() / "journal.json"


def load() -> Journal:
    """The journal as it is on disk. Raises UsageError where it cannot be read."""
    try:
        return msgspec.json.decode(_path().read_bytes(), type=Journal)
    except FileNotFoundError:
        return Journal()
    except msgspec.MsgspecError as error:
        raise UsageError(
            _("The journal of switches cannot be read."),
            evidence=f"{_path()}: {error}",
            fix=_("Restore it from a backup; the clients' files are not affected."),
        ) from None


def save(journal: Journal) -> None:
    """Write the journal in one step."""
    atomic.make_private_folder(folder())
    atomic.replace_file(_path(), msgspec.json.format(msgspec.json.encode(journal), indent=1))


@contextlib.contextmanager
def opened() -> Iterator[Journal]:
    """The journal under the lock between our own processes, with what a killed one left behind settled."""
    atomic.make_private_folder(folder())
    with locked(folder() / ".lock"):
        sweep(_path())
        journal = load()
        _settle(journal)
        yield journal


def settled() -> Journal:
    """The journal for planning and for looking at; what a killed process left behind is settled first."""
    journal = load()
    if journal.pending is not None:
        with opened() as journal:
            pass
    return journal


def _settle(journal: Journal) -> None:
    pending = journal.pending
    if pending is None:
        return
    entry = pending.entry
    if entry.path is not None:
        target = Path(entry.path)
        sweep(target, live_file.INFIX)
        if pending.action == "switch" and _holds(entry, target):
            commit(journal, entry)
        elif pending.action == "undo" and not _holds(entry, target):
            take_back(journal, entry)
    elif pending.action == "switch":
        # The store was written last or not at all; an entry that changed nothing does no harm.
        commit(journal, entry)
    journal.pending = None
    save(journal)


def _holds(entry: Entry, target: Path) -> bool:
    """True where the file is as the switch left it, or was edited since and still has a field of ours."""
    data = live_file.read(target).data
    now = digest(data)
    if now in (entry.digest_after, entry.digest_before):
        return now == entry.digest_after
    try:
        fields = CLIENTS[entry.tool].read_fields(data or b"")
    except Unreadable:
        return True
    return any(digest(fields.get(name)) == written for name, written in entry.written.items())


def commit(journal: Journal, entry: Entry) -> None:
    """Put a switch that took place on the stack."""
    journal.entries.append(entry)
    journal.next_seq = max(journal.next_seq, entry.seq + 1)
    if entry.path is not None and entry.record_after is not None:
        journal.records[entry.path] = entry.record_after
        stays = CLIENTS[entry.tool].stays
        ours = {name: value for name, value in entry.record_after.written.items() if stays(name)}
        journal.tables[entry.path] = journal.tables.get(entry.path, {}) | ours
    journal.pending = None


def take_back(journal: Journal, entry: Entry) -> None:
    """Take a switch that was undone off the stack."""
    journal.entries = [other for other in journal.entries if other.seq != entry.seq]
    if entry.path is not None:
        if entry.record_before is None:
            journal.records.pop(entry.path, None)
        else:
            journal.records[entry.path] = entry.record_before
    journal.pending = None


def _body_path(seq: int) -> Path:
    return folder() / "undo" / f"{seq:06d}.sealed"


def keep_body(seq: int, data: bytes) -> None:
    """Keep the bytes from before a switch."""
    atomic.make_private_folder(folder() / "undo")
    atomic.replace_file(_body_path(seq), seal(data))


def body(seq: int) -> bytes:
    """The bytes from before a switch. Raises UsageError, VerificationError."""
    return _unsealed(_body_path(seq))


def forget_body(seq: int) -> None:
    """Remove the copy of a switch that was taken back."""
    _body_path(seq).unlink(missing_ok=True)


def keep_pristine(journal: Journal, live: live_file.LiveFile, at: str) -> None:
    """Keep a file as it was before our first switch; later calls for it do nothing."""
    name = str(live.target)
    if name in journal.pristine:
        return
    file = hashlib.sha256(name.encode()).hexdigest()[:16] + ".sealed"
    atomic.make_private_folder(folder() / "pristine")
    atomic.replace_file(folder() / "pristine" / file, seal(live.data or b""))
    journal.pristine[name] = Pristine(file, live.data is not None, live.mode, at)


def pristine_body(pristine: Pristine) -> bytes:
    """The bytes of a pristine copy. Raises UsageError, VerificationError."""
    return _unsealed(folder() / "pristine" / pristine.file)


def _unsealed(path: Path) -> bytes:
    try:
        return unseal(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(
            _("The copy from before the switch is gone."),
            evidence=str(path),
            fix=_("Switch to another profile, or edit the file by hand."),
        ) from None
