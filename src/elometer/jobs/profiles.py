"""What both faces do with profiles and keys: each verb of `elometer profile` and `elometer key`."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from elometer.core.errors import UsageError
from elometer.core.limits import Boundary
from elometer.core.paths import expanded
from elometer.core.text import gettext as _
from elometer.jobs.profile_launch import Prepared as Prepared
from elometer.jobs.profile_launch import become as become
from elometer.jobs.profile_launch import check_profile as check_profile
from elometer.jobs.profile_launch import choose as choose
from elometer.jobs.profile_launch import env_lines as env_lines
from elometer.jobs.profile_launch import env_notes as env_notes
from elometer.jobs.profile_launch import prepare as prepare
from elometer.jobs.profile_launch import run as run
from elometer.jobs.profile_switch import Preview as Preview
from elometer.jobs.profile_switch import apply as apply
from elometer.jobs.profile_switch import drift as drift
from elometer.jobs.profile_switch import preview_switch as preview_switch
from elometer.jobs.profile_switch import preview_undo as preview_undo
from elometer.jobs.profile_switch import pristine as pristine
from elometer.jobs.profile_switch import pristine_files as pristine_files
from elometer.jobs.profile_transfer import ImportReport as ImportReport
from elometer.jobs.profile_transfer import export_profiles as export_profiles
from elometer.jobs.profile_transfer import import_profiles as import_profiles
from elometer.profiles import live
from elometer.profiles import presets as preset_files
from elometer.profiles.drift import ToolState
from elometer.profiles.keys import KeyState, key_state, same_keys
from elometer.profiles.model import Key, Problem, Profile
from elometer.profiles.presets import Preset
from elometer.profiles.secrets import forget_secret, key_problems, secret_store_path, store_secret
from elometer.profiles.store import Store
from elometer.profiles.validate import profile_problems, refuse_failures

Environ = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One line of the list: what a profile is, whose key it has, and whether its tool lives by it now."""

    name: str
    tool: str
    base_url: str
    effective_url: str
    key_label: str | None
    fingerprint: str | None
    active: bool
    drift: tuple[str, ...]
    boundary: Boundary
    model: str | None = None
    problems: tuple[Problem, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The row as `profile list --json` prints it."""
        row = asdict(self)
        row["drift"] = list(self.drift)
        row["boundary"] = boundary_json(self.boundary)
        row["problems"] = [asdict(problem) for problem in self.problems]
        return row


def boundary_json(boundary: Boundary) -> dict[str, Any]:
    """A boundary with its moment as text; null where a limit is not set."""
    row = asdict(boundary)
    row["allowed_models"] = list(boundary.allowed_models)
    row["expires_at"] = boundary.expires_at.isoformat() if boundary.expires_at else None
    return row


def key_states(
    store: Store, environ: Environ | None = None, *, run_commands: bool = True
) -> dict[str, KeyState]:
    """Every key resolved once: fingerprint and problems by label."""
    env = os.environ if environ is None else environ
    return {label: key_state(key, env, run_commands=run_commands) for label, key in store.keys.items()}


def list_profiles(
    store: Store | None = None, environ: Environ | None = None, *, run_commands: bool = True
) -> list[ProfileRow]:
    """The store's profiles, in the order in which they came."""
    store = store or Store.load()
    states = key_states(store, environ, run_commands=run_commands)
    lived_by = {
        (state.tool, state.profile): state
        for state in drift(store, environ, states=states.values())
        if state.profile
    }
    return [
        _row(profile, states.get(profile.key or ""), lived_by.get((profile.tool, profile.name)))
        for profile in store.profiles
    ]


def _row(profile: Profile, state: KeyState | None, tool_state: ToolState | None) -> ProfileRow:
    return ProfileRow(
        name=profile.name,
        tool=profile.tool,
        base_url=profile.base_url,
        effective_url=profile.effective_url,
        key_label=profile.key,
        fingerprint=state.fingerprint if state else None,
        active=tool_state is not None,
        drift=(*tool_state.drift, *tool_state.overrides) if tool_state is not None else (),
        boundary=state.boundary if state else Boundary(),
        model=profile.model,
        problems=(*profile_problems(profile), *(state.problems if state else ())),
    )


def presets() -> list[Preset]:
    """What `profile add --from` can start from."""
    return preset_files.presets()


def add_profile(profile: Profile, *, key_source: str | None = None) -> list[Problem]:
    """Put a profile into the store; a key label that is new is created with `key_source`.

    Returns what is odd about it. Raises UsageError for what keeps it out.
    """
    with Store.editing() as store:
        _ensure_key(store, profile.key, key_source)
        store.add(profile)
    return profile_problems(profile)


def add_from_preset(
    preset_name: str,
    *,
    tool: str | None = None,
    name: str | None = None,
    key_label: str | None = None,
    key_source: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> list[Profile]:
    """Add a preset's profiles (those of `tool` where one is named), all with one key.

    Without `key_label` the key is labelled as the preset; its source is the preset's usual variable.
    """
    preset = preset_files.preset(preset_name)
    chosen = [p for p in preset.profiles if tool in (None, p.tool)]
    if not chosen:
        raise UsageError(
            _("Preset '{name}' has no profile for {tool}.").format(name=preset_name, tool=tool),
            evidence=", ".join(p.tool for p in preset.profiles),
            fix=_("Choose one of these tools."),
        )
    if name is not None and len(chosen) > 1:
        raise UsageError(
            _("Preset '{name}' has several profiles; one name is not enough.").format(name=preset_name),
            evidence=", ".join(p.tool for p in chosen),
            fix=_("Say which with --tool, or leave the name out."),
        )
    label = key_label or preset.name
    added = [replace(p, name=name or p.name, key=label, **(changes or {})) for p in chosen]
    with Store.editing() as store:
        _ensure_key(store, label, key_source or preset.key_source)
        for profile in added:
            store.add(profile)
    return added


def _ensure_key(store: Store, label: str | None, source: str | None) -> None:
    if label is None:
        if source is not None:
            raise UsageError(_("A key source needs a label."), fix="--key LABEL --key-source env:NAME")
        return
    if label not in store.keys:
        store.set_key(Key(label, source))
    elif source is not None and store.keys[label].source is None:
        store.set_key(replace(store.keys[label], source=source))


def edit_profile(name: str, tool: str | None = None, /, **changes: Any) -> Profile:
    """Change fields of a profile. Variables that repeat the base URL, and the key's own, follow."""
    with Store.editing() as store:
        old = store.profile(name, tool)
        if "base_url" in changes:
            new = replace(old, base_url=changes["base_url"])
            follow = {old.base_url: new.base_url, old.effective_url: new.effective_url}
            changes.setdefault("env", {k: follow.get(v, v) for k, v in old.env.items()})
        if "key_env" in changes and old.env_names is not None:
            variable = replace(old, key_env=changes["key_env"]).key_variable
            names = (variable if n == old.key_variable else n for n in old.env_names)
            changes.setdefault("env_names", tuple(names))
        return store.edit(name, tool, **changes)


def duplicate_profile(name: str, new_name: str, tool: str | None = None) -> Profile:
    """Add a copy of a profile under a new name. Raises UsageError where that name is taken."""
    with Store.editing() as store:
        copy = replace(store.profile(name, tool), name=new_name)
        store.add(copy)
    return copy


def remove_profile(name: str, tool: str | None = None) -> Profile:
    """Take a profile out of the store; its key and the tools' own files stay as they are."""
    with Store.editing() as store:
        return store.remove(name, tool)


def add_key(
    label: str,
    *,
    source: str | None = None,
    value: str | None = None,
    boundary: Mapping[str, Any] | None = None,
) -> Key:
    """Add a key with its boundary; a `value` goes into the secret store. Raises UsageError."""
    with Store.editing() as store:
        if label in store.keys:
            raise UsageError(
                _("Key '{label}' exists already.").format(label=label),
                fix=f"elometer key set-source {label} … · elometer key set-boundary {label} …",
            )
        key = Key(label, source, boundary or {})
        store.set_key(key)
        if value is not None:
            store.set_key(replace(key, source=_keep_value(label, value)))
        return store.keys[label]


def _keep_value(label: str, value: str) -> str:
    refuse_failures(key_problems(value), subject=f"[keys.{label}]")
    return store_secret(label, value)


def set_key_source(label: str, *, source: str | None = None, value: str | None = None) -> Key:
    """Change where a key's value comes from."""
    with Store.editing() as store:
        old = store.key(label)
        new = replace(old, source=_keep_value(label, value) if value is not None else source)
        store.set_key(new)
    if value is None and old.source == f"store:{label}" and new.source != old.source:
        forget_secret(label)
    return new


def set_key_boundary(label: str, fields: Mapping[str, Any]) -> Key:
    """Change limits of a key; a field given as None is taken away, unknown ones stay."""
    with Store.editing() as store:
        old = store.key(label)
        merged = {k: v for k, v in {**old.boundary_fields, **fields}.items() if v is not None}
        new = replace(old, boundary_fields=merged)
        store.keys[label] = new
        new.boundary  # noqa: B018 - raises where a limit makes no sense
    return new


def remove_key(label: str) -> Key:
    """Take a key out of the store, and its value out of the secret store."""
    with Store.editing() as store:
        key = store.remove_key(label)
    if key.source == f"store:{label}":
        forget_secret(label)
    return key


def same_key_labels(states: Sequence[KeyState]) -> list[tuple[str, ...]]:
    """Labels that turn out to be one and the same key."""
    return same_keys(list(states))


def open_key_files(states: Sequence[KeyState]) -> list[tuple[Path, int]]:
    """Files that hold keys and that group or others may read, with their mode."""
    candidates = [secret_store_path(), *live.files_with_credentials(os.environ)]
    for state in states:
        scheme, _colon, rest = (state.key.source or "").partition(":")
        if scheme == "file":
            candidates.append(expanded(rest))
    found = []
    for path in candidates:
        with contextlib.suppress(OSError):
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & 0o077:
                found.append((path, mode))
    return found


def tighten(path: Path) -> None:
    """Leave a file to its owner alone."""
    path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o700)
