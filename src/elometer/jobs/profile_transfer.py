"""Profiles in and out of the store: the founding trio file and CC Switch's database."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.profiles import ccswitch, trio
from elometer.profiles.keys import key_state
from elometer.profiles.model import Key, Profile
from elometer.profiles.secrets import (
    fingerprint,
    key_problems,
    resolve,
    store_secret,
)
from elometer.profiles.store import Store
from elometer.profiles.validate import profile_problems, refuse_failures


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did: profiles by name, keys it made, profiles without a key, and what was odd."""

    added: tuple[Profile, ...]
    unchanged: tuple[str, ...]
    unset: tuple[str, ...]
    new_keys: tuple[str, ...]
    notes: tuple[str, ...]


def import_profiles(
    path: Path, *, key_label: str | None = None, key_source: str | None = None, replace_existing: bool = False
) -> ImportReport:
    """Import a trio file or a CC Switch database; all or nothing.

    With a label all profiles get that one key. Without it each key value found is kept in the secret store
    under the name of its profile, equal values once. Raises UsageError.
    """
    entries, notes, extra = _read(path)
    for entry in entries:
        if entry.value is not None:
            refuse_failures(key_problems(entry.value), subject=f"{path.name}: {entry.profile.name}")
        refuse_failures(profile_problems(entry.profile), subject=f"{path.name}: {entry.profile.name}")
    if key_source is not None and key_label is None:
        key_label = path.stem
    with Store.editing() as store:
        if extra:
            store.extra = {**store.extra, "trio": extra}
        known = set(store.keys)
        if key_label is not None:
            entries, more = _one_key(store, entries, key_label, key_source)
            notes += more
        else:
            entries = _own_keys(store, entries)
        added, unchanged = _put(store, entries, replace_existing=replace_existing)
        new_keys = tuple(label for label in store.keys if label not in known)
    notes += [
        f"{p.name}: {problem.message}"
        for p in added
        for problem in profile_problems(p)
        if problem.code != "no_key"
    ]
    unset = tuple(e.profile.name for e in entries if e.profile.key is None)
    return ImportReport(tuple(added), tuple(unchanged), unset, new_keys, tuple(notes))


def _read(path: Path) -> tuple[list[trio.Entry], list[str], dict[str, object]]:
    try:
        if ccswitch.is_database(path):
            rows = ccswitch.read_database(path)
            notes = [f"{row.app}/{row.name}: {note}" for row in rows for note in row.notes]
            return [row.entry for row in rows if row.entry is not None], notes, {}
        read = trio.parse(path.read_bytes(), name=path.name)
    except OSError as error:
        raise UsageError(
            _("The file cannot be read."), evidence=f"{path}: {error.strerror}", fix=_("Check its path.")
        ) from None
    return list(read.entries), [], dict(read.extra)


def _one_key(
    store: Store, entries: list[trio.Entry], label: str, source: str | None
) -> tuple[list[trio.Entry], list[str]]:
    """Give every entry the key `label`: its source, else the one value that the file holds."""
    values = {entry.value for entry in entries if entry.value is not None}
    notes = []
    key = store.keys.get(label, Key(label))
    if source is not None:
        key = replace(key, source=source)
        if values:
            notes.append(_("the keys in the file were not kept; '{l}' comes from its source").format(l=label))
    elif key.source is None and len(values) == 1:
        key = replace(key, source=store_secret(label, values.pop()))
    elif len(values) > 1:
        raise UsageError(
            _("The file holds {n} different keys.").format(n=len(values)),
            evidence=_("One label would make them one."),
            fix=_("Say which to use with --key-source, or leave --key-label out."),
        )
    elif values:
        notes.append(_("the key in the file was not kept; '{l}' has a source already").format(l=label))
    store.set_key(key)
    return [replace(entry, profile=replace(entry.profile, key=label)) for entry in entries], notes


def _own_keys(store: Store, entries: list[trio.Entry]) -> list[trio.Entry]:
    """Name each value that the file holds: an existing key's label where it is that key, else a new one."""
    labels: dict[str, str] = {}
    for key in store.keys.values():
        shown = key_state(key, os.environ, run_commands=False).fingerprint
        if shown is not None:
            labels.setdefault(shown, key.label)
    result = []
    for entry in entries:
        if entry.value is None:
            result.append(entry)
            continue
        shown = fingerprint(entry.value)
        if shown not in labels:
            label = entry.profile.name
            while label in store.keys:
                label += "-key"
            store.set_key(Key(label, store_secret(label, entry.value)))
            labels[shown] = label
        result.append(replace(entry, profile=replace(entry.profile, key=labels[shown])))
    return result


def _put(
    store: Store, entries: list[trio.Entry], *, replace_existing: bool
) -> tuple[list[Profile], list[str]]:
    added, unchanged = [], []
    for entry in entries:
        new = entry.profile
        old = next((p for p in store.profiles if (p.tool, p.name) == (new.tool, new.name)), None)
        if old == new:
            unchanged.append(new.name)
            continue
        if old is not None:
            if not replace_existing:
                raise UsageError(
                    _("A {tool} profile '{name}' exists already.").format(tool=new.tool, name=new.name),
                    evidence=_("It differs from the one in the file; nothing was imported."),
                    fix=_("Use --replace to take the file's, or rename one of them."),
                )
            store.profiles[store.profiles.index(old)] = new
        else:
            store.add(new)
        added.append(new)
    return added, unchanged


def export_profiles(names: Sequence[str] = (), *, tool: str | None = None, with_keys: bool = False) -> str:
    """The trio form of the named profiles, or of all in the order in which they came.

    Every key stands as `YOUR_API_KEY` unless `with_keys`. Raises UsageError, or AccessError for a key that
    cannot be read.
    """
    store = Store.load()
    chosen = [store.profile(name, tool) for name in names] if names else list(store.profiles)
    if tool is not None:
        chosen = [profile for profile in chosen if profile.tool == tool]
    values = {}
    if with_keys:
        for label in {p.key for p in chosen if p.key is not None}:
            source = store.key(label).source
            if source is not None:
                values[label] = resolve(source).reveal()
    extra = store.extra.get("trio")
    return trio.export(chosen, values, extra if isinstance(extra, dict) else None)
