"""A switch as a plan: only fields that we own change, and what would change can be shown first."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from elometer.core import atomic
from elometer.core.clock import timestamp
from elometer.core.errors import UsageError
from elometer.core.redact import redact
from elometer.core.text import gettext as _
from elometer.profiles import journal, live_file
from elometer.profiles.clients import claude_code
from elometer.profiles.clients.files import CLIENT_NAMES, CLIENTS, FileClient
from elometer.profiles.edit.document import NotEditable, Unreadable
from elometer.profiles.journal import Entry, Journal, Record
from elometer.profiles.live_file import LiveFile
from elometer.profiles.model import Profile
from elometer.profiles.seal import digest, seal, unseal
from elometer.profiles.secrets import fingerprint, is_placeholder
from elometer.profiles.store import Store

_CREDENTIAL_FIELDS = tuple(f"env.{name}" for name in claude_code.CREDENTIALS)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field before and after, ready to be shown: a secret as its fingerprint, None where it is absent."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a switch or an undo would do. Nothing has been written yet."""

    action: Literal["switch", "undo"]
    tool: str
    profile: str
    live: LiveFile | None  # None: only the store's default changes
    changes: tuple[FieldChange, ...]
    notes: tuple[str, ...]
    after: bytes | None = field(default=None, repr=False)  # None: the file goes away
    mode_after: int | None = None
    entry: Entry | None = None

    @property
    def path(self) -> Path | None:
        """The file that changes, links resolved."""
        return self.live.target if self.live is not None else None

    @property
    def changes_nothing(self) -> bool:
        """True where the file is already as it should be."""
        if self.live is None:
            return not self.changes
        return self.after == self.live.data and self.mode_after == self.live.mode


def show(client: FileClient, name: str, value: str | None) -> str | None:
    """A field's value for a screen: a secret by fingerprint, a URL without user, password and query."""
    if value is None:
        return None
    if client.is_secret(name, value):
        if not value.strip() or is_placeholder(value):
            return _("(a placeholder)") if value.strip() else _("(empty)")
        return _("key {fingerprint}").format(fingerprint=fingerprint(value))
    if "://" in value:
        parts = urlsplit(value)
        host = parts.netloc.rpartition("@")[2]
        value = urlunsplit((parts.scheme, host, parts.path, "", ""))
    return redact(value)


def read_fields(client: FileClient, live: LiveFile, tool: str) -> dict[str, str]:
    try:
        return client.read_fields(live.data or b"")
    except Unreadable as error:
        raise error.refusal(str(live.target), CLIENT_NAMES[tool]) from None


def write_fields(client: FileClient, live: LiveFile, changes: Mapping[str, str | None], tool: str) -> bytes:
    try:
        return client.write_fields(live.data or b"", changes)
    except Unreadable as error:
        raise error.refusal(str(live.target), CLIENT_NAMES[tool]) from None
    except NotEditable as error:
        raise UsageError(
            _("The file's layout cannot take the change; it was not touched."),
            evidence=f"{live.target}: {error}",
            fix=_("Write each provider as a [model_providers.ID] table of its own, or use 'profile exec'."),
        ) from None


def _base(record: Record | None) -> dict[str, str | None]:
    """What fields held before we first wrote them."""
    if record is None or not record.base:
        return {}
    found: dict[str, str | None] = json.loads(unseal(base64.b64decode(record.base)))
    return found


def plan_switch(profile: Profile, key: str, environ: Mapping[str, str], state: Journal | None = None) -> Plan:
    """What a switch to `profile` would change in its tool's file. Raises UsageError where it must not.

    Three things are compared: what the file says, what we wrote last time, what the profile wants. A field
    that only an earlier profile wanted goes back to what stood there before us, unless someone changed it.
    """
    state = state or journal.settled()
    client = CLIENTS[profile.tool]
    live = live_file.read(client.live_path(environ))
    record = state.records.get(str(live.target))
    now = read_fields(client, live, profile.tool)
    wanted = client.wanted_fields(profile, key)
    _refuse_foreign_table(profile, now, wanted, state, live)
    own: dict[str, str | None] = {**dict.fromkeys(client.unwanted_fields(profile)), **wanted}
    target = {**_given_back(client, record, now, own), **own}
    changes = {name: value for name, value in target.items() if now.get(name) != value}
    after = write_fields(client, live, changes, profile.tool) if changes else live.data
    mode = atomic.PRIVATE_FILE if live.mode is None else client.mode_after(live.mode)
    entry = Entry(
        seq=state.next_seq,
        at=timestamp(),
        tool=profile.tool,
        profile=profile.name,
        previous=record.profile if record else None,
        path=str(live.target),
        existed=live.data is not None,
        mode_before=live.mode,
        mode_after=mode,
        digest_before=digest(live.data),
        digest_after=digest(after),
        written={name: digest(value) for name, value in changes.items()},
        record_before=record,
        record_after=_record(client, profile, record, now, own),
    )
    shown = tuple(
        FieldChange(name, show(client, name, now.get(name)), show(client, name, value))
        for name, value in changes.items()
    )
    return Plan(
        action="switch",
        tool=profile.tool,
        profile=profile.name,
        live=live,
        changes=shown,
        notes=tuple(_mode_notes(live, mode)),
        after=after,
        mode_after=mode,
        entry=entry,
    )


def _given_back(
    client: FileClient, record: Record | None, now: Mapping[str, str], own: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Fields that an earlier profile wrote and this one does not want, with what stood there before us."""
    if record is None:
        return {}
    base = _base(record)
    return {
        name: base.get(name)
        for name, written in record.written.items()
        if name not in own and not client.stays(name) and digest(now.get(name)) == written
    }


def _record(
    client: FileClient,
    profile: Profile,
    old: Record | None,
    now: Mapping[str, str],
    own: Mapping[str, str | None],
) -> Record:
    """What is ours in the file after the switch, and what stood in each place before we came."""
    written = old.written if old else {}
    base = _base(old)
    for name in own:
        changed_by_hand = name in written and digest(now.get(name)) != written[name]
        if name not in written or changed_by_hand:
            # A credential is never put back by a later switch; only an undo does that, from its own copy.
            base[name] = None if name in _CREDENTIAL_FIELDS else now.get(name)
    kept = {name: value for name, value in written.items() if client.stays(name)}
    return Record(
        profile=profile.name,
        tool=profile.tool,
        written=kept | {name: digest(value) for name, value in own.items()},
        base=base64.b64encode(seal(json.dumps({n: base.get(n) for n in own}).encode())).decode(),
    )


def _refuse_foreign_table(
    profile: Profile, now: Mapping[str, str], wanted: Mapping[str, str], state: Journal, live: LiveFile
) -> None:
    """A provider table that is there, differs, and does not hold what we once wrote is somebody's own."""
    record = state.records.get(str(live.target))
    known = {**state.tables.get(str(live.target), {}), **(record.written if record else {})}
    for name, value in wanted.items():
        there = now.get(name, value)
        if not CLIENTS[profile.tool].stays(name) or there == value:
            continue
        if name not in (record.written if record else {}) and digest(there) != known.get(name):
            raise UsageError(
                _("The file has a provider '{id}' that elometer did not write.").format(
                    id=profile.codex_provider
                ),
                evidence=f"{live.target}: {name}",
                fix=f"elometer profile edit {profile.name} --provider-id {profile.codex_provider}-elometer",
            )


def _mode_notes(live: LiveFile, mode: int) -> list[str]:
    notes = []
    if live.path != live.target:
        notes.append(_("{path} is a link; {target} changes.").format(path=live.path, target=live.target))
    if live.mode is not None and mode != live.mode:
        note = _("The file will hold a key: its mode goes from {old:o} to {new:o} (undo restores both).")
        notes.append(note.format(old=live.mode, new=mode))
    return notes


def plan_default(profile: Profile, store: Store, state: Journal | None = None) -> Plan:
    """A switch of an OpenAI-compatible profile: no file, it becomes the store's default."""
    state = state or journal.settled()
    entry = Entry(
        seq=state.next_seq,
        at=timestamp(),
        tool=profile.tool,
        profile=profile.name,
        previous=store.default,
        path=None,
    )
    changes = () if store.default == profile.name else (FieldChange("default", store.default, profile.name),)
    return Plan("switch", profile.tool, profile.name, None, changes, (), entry=entry)
