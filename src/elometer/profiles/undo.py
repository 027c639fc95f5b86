"""Taking a switch back: the bytes and the mode from before, or the single fields where the file moved on."""

from __future__ import annotations

from pathlib import Path

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.profiles import journal, live_file
from elometer.profiles.clients.files import CLIENTS, FileClient
from elometer.profiles.edit.document import Unreadable
from elometer.profiles.journal import Entry, Journal
from elometer.profiles.live_file import LiveFile
from elometer.profiles.seal import digest
from elometer.profiles.store import Store
from elometer.profiles.switch import FieldChange, Plan, read_fields, show, write_fields


def plan_undo(state: Journal | None = None) -> Plan:
    """What taking back the newest switch would change. Raises UsageError where there is none.

    Where the file is still as we left it, its old bytes and mode come back. Where someone edited it since,
    only the fields that still hold what we wrote go back, and the rest stays.
    """
    state = state or journal.settled()
    if not state.entries:
        raise UsageError(_("There is no switch to take back."), fix="elometer profile list")
    entry = state.entries[-1]
    if entry.path is None:
        current = Store.load().default
        changes = () if current == entry.previous else (FieldChange("default", current, entry.previous),)
        return Plan("undo", entry.tool, entry.profile, None, changes, (), entry=entry)
    client = CLIENTS[entry.tool]
    live = live_file.read(Path(entry.path))
    old = journal.body(entry.seq) if entry.existed else None
    now_digest = digest(live.data)
    notes = []
    if now_digest == entry.digest_after or live.data is None or now_digest == entry.digest_before:
        after, mode = old, entry.mode_before
    else:
        notes.append(_("The file was edited since the switch; only what elometer wrote goes back."))
        after, left = _fields_back(client, entry, live, old or b"")
        notes += left
        mode = entry.mode_before if live.mode == entry.mode_after and entry.existed else live.mode
    return Plan(
        action="undo",
        tool=entry.tool,
        profile=entry.profile,
        live=live,
        changes=_changes(client, live, after),
        notes=(*notes, *_undo_mode_notes(live, mode)),
        after=after,
        mode_after=mode,
        entry=entry,
    )


def _fields_back(client: FileClient, entry: Entry, live: LiveFile, old: bytes) -> tuple[bytes, list[str]]:
    now = read_fields(client, live, entry.tool)
    before = client.read_fields(old)
    changes: dict[str, str | None] = {}
    left = []
    for name, written in entry.written.items():
        if digest(now.get(name)) != written:
            left.append(_("{field} was changed by someone else and stays.").format(field=name))
        elif client.stays(name) and name not in before:
            continue  # the table holds no secret, and threads may name it
        else:
            changes[name] = before.get(name)
    return write_fields(client, live, changes, entry.tool) if changes else live.data or b"", left


def _changes(client: FileClient, live: LiveFile, after: bytes | None) -> tuple[FieldChange, ...]:
    try:
        now = client.read_fields(live.data or b"")
        then = client.read_fields(after or b"")
    except Unreadable:
        return ()
    names = [name for name in {**now, **then} if now.get(name) != then.get(name)]
    return tuple(FieldChange(n, show(client, n, now.get(n)), show(client, n, then.get(n))) for n in names)


def _undo_mode_notes(live: LiveFile, mode: int | None) -> list[str]:
    if mode is None:
        return [_("The file did not exist before the switch and goes away.")]
    if live.mode is not None and mode != live.mode:
        return [_("Its mode goes back from {old:o} to {new:o}.").format(old=live.mode, new=mode)]
    return []
