"""The store of profiles and keys: `profiles.toml`, 0600 from creation, unknown fields kept."""

from __future__ import annotations

import contextlib
import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import tomli_w

from elometer.core import atomic, paths
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.profiles.locking import locked, sweep
from elometer.profiles.model import TOOLS, Key, Profile
from elometer.profiles.secrets import check_source
from elometer.profiles.validate import boundary_problems, profile_problems, refuse_failures

SCHEMA = 1
_TEXT_FIELDS = tuple(item.name for item in fields(Profile) if item.name not in ("env", "env_names", "extra"))
_PROFILE_FIELDS = (*_TEXT_FIELDS, "env", "env_names")


def store_path() -> Path:
    """Where the store lives."""
    return paths.config_folder() / "profiles.toml"


@dataclass
class Store:
    """Profiles in the order in which they came, keys by label, and the default profile."""

    path: Path
    profiles: list[Profile] = field(default_factory=list)
    keys: dict[str, Key] = field(default_factory=dict)
    default: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None = None) -> Store:
        """Read the store; a missing file is an empty store.

        Raises UsageError with line and column, or with the field that makes no sense.
        """
        path = path or store_path()
        try:
            data = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
        except FileNotFoundError:
            return cls(path)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(
                _("The profile store cannot be read."),
                evidence=f"{path}: {error}",
                fix=_("Correct the file; elometer did not change it."),
            ) from None
        return _from_table(path, data)

    @classmethod
    @contextlib.contextmanager
    def editing(cls, path: Path | None = None) -> Iterator[Store]:
        """Load under a lock, hand out, save: two terminals that add profiles at once lose neither."""
        path = path or store_path()
        atomic.make_private_folder(path.parent)
        with locked(path.with_name(f".{path.name}.lock")):
            sweep(path)
            store = cls.load(path)
            yield store
            store.save()

    def save(self) -> None:
        """Write the file in one step, readable by its owner only."""
        atomic.make_private_folder(self.path.parent)
        atomic.replace_file(self.path, tomli_w.dumps(self._table()).encode())

    def _table(self) -> dict[str, Any]:
        table: dict[str, Any] = {"schema": SCHEMA}
        if self.default is not None:
            table["default"] = self.default
        table.update(self.extra)
        table["keys"] = {label: _key_table(key) for label, key in self.keys.items()}
        table["profiles"] = [_profile_table(profile) for profile in self.profiles]
        return table

    def profile(self, name: str, tool: str | None = None) -> Profile:
        """The profile of that name; `tool` tells two of the same name apart. Raises UsageError."""
        found = [p for p in self.profiles if p.name == name and tool in (None, p.tool)]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                _("Several profiles are named '{name}'.").format(name=name),
                evidence=", ".join(p.tool for p in found),
                fix=_("Say which with --tool."),
            )
        raise _unknown(_("No profile is named '{name}'."), name, [p.name for p in self.profiles])

    def key(self, label: str) -> Key:
        """The key of that label. Raises UsageError."""
        if label not in self.keys:
            raise _unknown(_("No key is labelled '{name}'."), label, list(self.keys))
        return self.keys[label]

    def add(self, profile: Profile) -> None:
        """Add a valid profile; (tool, name) is unique. Raises UsageError."""
        if any((p.tool, p.name) == (profile.tool, profile.name) for p in self.profiles):
            raise UsageError(
                _("A {tool} profile '{name}' exists already.").format(tool=profile.tool, name=profile.name),
                evidence=str(self.path),
                fix=_("Choose another name or use 'elometer profile edit'."),
            )
        self._check(profile)
        self.profiles.append(profile)

    def edit(self, name: str, tool: str | None = None, /, **changes: Any) -> Profile:
        """Change fields of a profile in its place; returns the new one. Raises UsageError."""
        old = self.profile(name, tool)
        new = replace(old, **changes)
        others = [p for p in self.profiles if p is not old]
        if any((p.tool, p.name) == (new.tool, new.name) for p in others):
            raise UsageError(
                _("A {tool} profile '{name}' exists already.").format(tool=new.tool, name=new.name),
                fix=_("Choose another name."),
            )
        self._check(new)
        self.profiles[self.profiles.index(old)] = new
        if self.default == old.name and new.tool == "openai-compatible":
            self.default = new.name
        return new

    def remove(self, name: str, tool: str | None = None) -> Profile:
        """Take a profile out; its key stays. Raises UsageError."""
        profile = self.profile(name, tool)
        self.profiles.remove(profile)
        if self.default == profile.name and profile.tool == "openai-compatible":
            self.default = None
        return profile

    def set_key(self, key: Key) -> None:
        """Add a key or change it. Raises UsageError for a source or boundary that makes no sense."""
        if key.source is not None:
            check_source(key.source)
        refuse_failures(boundary_problems(key), subject=f"[keys.{key.label}]")
        self.keys[key.label] = key

    def remove_key(self, label: str) -> Key:
        """Take a key out; refused while a profile names it. Raises UsageError."""
        key = self.key(label)
        users = [p.name for p in self.profiles if p.key == label]
        if users:
            raise UsageError(
                _("Key '{label}' is in use.").format(label=label),
                evidence=", ".join(users),
                fix=_("Give those profiles another key first."),
            )
        del self.keys[label]
        return key

    def _check(self, profile: Profile) -> None:
        if profile.key is not None:
            self.key(profile.key)
        refuse_failures(profile_problems(profile), subject=f"{profile.tool} · {profile.name}")


def _unknown(message: str, name: str, known: list[str]) -> UsageError:
    near = difflib.get_close_matches(name, known, n=1)
    return UsageError(
        message.format(name=name),
        evidence=_("Known: {names}").format(names=", ".join(known[:12]))
        if known
        else _("There are none yet."),
        fix=_("Did you mean '{name}'?").format(name=near[0]) if near else "elometer profile list",
    )


def _bad(path: Path, where: str, wanted: str) -> UsageError:
    return UsageError(
        _("The profile store has a field that makes no sense."),
        evidence=f"{path}: {where}",
        fix=_("It should be {wanted}.").format(wanted=wanted),
    )


def _from_table(path: Path, data: dict[str, Any]) -> Store:
    if not isinstance(data.get("schema", SCHEMA), int) or data.get("schema", SCHEMA) > SCHEMA:
        raise _bad(path, "schema", _("{n}; a later elometer wrote this file").format(n=SCHEMA))
    keys, profiles = data.get("keys", {}), data.get("profiles", [])
    if not isinstance(keys, dict):
        raise _bad(path, "keys", "[keys.LABEL]")
    if not isinstance(profiles, list):
        raise _bad(path, "profiles", "[[profiles]]")
    default = data.get("default")
    if default is not None and not isinstance(default, str):
        raise _bad(path, "default", _("a profile's name"))
    return Store(
        path=path,
        profiles=[_profile(path, number, row) for number, row in enumerate(profiles, 1)],
        keys={label: _key(path, label, row) for label, row in keys.items()},
        default=default,
        extra={k: v for k, v in data.items() if k not in ("schema", "default", "keys", "profiles")},
    )


def _key(path: Path, label: str, row: object) -> Key:
    if not isinstance(row, dict) or not isinstance(row.get("boundary", {}), dict):
        raise _bad(path, f"keys.{label}", _("a table with source and boundary"))
    source = row.get("source")
    if source is not None and not isinstance(source, str):
        raise _bad(path, f"keys.{label}.source", "env:NAME")
    extra = {k: v for k, v in row.items() if k not in ("source", "boundary")}
    return Key(label, source, row.get("boundary", {}), extra)


def _key_table(key: Key) -> dict[str, Any]:
    table: dict[str, Any] = {} if key.source is None else {"source": key.source}
    table.update(key.extra)
    if key.boundary_fields:
        table["boundary"] = dict(key.boundary_fields)
    return table


def _profile(path: Path, number: int, row: object) -> Profile:
    where = f"profiles, number {number}"
    if not isinstance(row, dict):
        raise _bad(path, where, _("a table"))
    for name in ("name", "tool", "base_url"):
        if not isinstance(row.get(name), str):
            raise _bad(path, f"{where}, {name}", _("text"))
    if row["tool"] not in TOOLS:
        raise _bad(path, f"{where}, tool = {row['tool']!r}", " | ".join(TOOLS))
    for name in _TEXT_FIELDS:
        if not isinstance(row.get(name, ""), str):
            raise _bad(path, f"{where}, {name}", _("text"))
    env = row.get("env", {})
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise _bad(path, f"{where}, env", _("a table of texts"))
    names = row.get("env_names")
    known: dict[str, Any] = {name: row[name] for name in _TEXT_FIELDS if name in row}
    return Profile(
        **known,
        env=env,
        env_names=tuple(str(n) for n in names) if isinstance(names, list) else None,
        extra={k: v for k, v in row.items() if k not in _PROFILE_FIELDS},
    )


def _profile_table(profile: Profile) -> dict[str, Any]:
    table = {name: getattr(profile, name) for name in _TEXT_FIELDS if getattr(profile, name) is not None}
    if profile.env_names is not None:
        table["env_names"] = list(profile.env_names)
    table.update(profile.extra)
    if profile.env:
        table["env"] = dict(profile.env)
    return table
