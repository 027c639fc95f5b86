"""Profiles from CC Switch's SQLite database, read from a private copy; nothing is written to or beside it.

Facts about its storage: `providers(id, app_type, name, settings_config, …)`, where settings_config is a whole
settings.json for Claude Code and `{"auth", "config"}` with TOML text for Codex (CC Switch 3.20, August 2026).
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.core.urls import has_version
from elometer.profiles.clients import claude_code
from elometer.profiles.model import Profile
from elometer.profiles.secrets import is_placeholder, key_problems
from elometer.profiles.trio import Entry
from elometer.profiles.validate import RESERVED_PROVIDERS, family, looks_secret, profile_problems

MAGIC = b"SQLite format 3\0"
ATTEMPTS = 5
PAUSE_S = 0.2
_PROXY = re.compile(r"https?://(127\.0\.0\.1|localhost):15721(/|$)")


@dataclass(frozen=True, slots=True)
class Row:
    """One provider of the database: the profile it gives, or why it gives none, and what is unsafe in it."""

    app: str
    name: str
    entry: Entry | None
    notes: tuple[str, ...]


def is_database(path: Path) -> bool:
    """True where a file is an SQLite database."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_database(path: Path, *, pause: Callable[[float], None] = time.sleep) -> list[Row]:
    """The providers of a CC Switch database.

    A copy that was taken while CC Switch wrote is thrown away and taken again. Raises UsageError where no
    whole copy can be had.
    """
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(PAUSE_S * attempt)
        for with_journal in (True, False):
            try:
                rows = _from_copy(path, with_journal=with_journal)
            except (sqlite3.Error, OSError, _ChangedWhileCopied) as error:
                reason = str(error) or type(error).__name__
            else:
                return _named_apart([_row(*row) for row in rows])
    raise UsageError(
        _("The CC Switch database cannot be read."),
        evidence=f"{path}: {reason}",
        fix=_("Close CC Switch and try again; the database was only copied, not touched."),
    )


class _ChangedWhileCopied(Exception):
    """CC Switch wrote while we copied."""


def _signature(paths: Iterable[Path]) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for path in paths:
        try:
            status = path.stat()
            found.append((status.st_mtime_ns, status.st_size))
        except FileNotFoundError:
            found.append(None)
    return found


def _from_copy(path: Path, *, with_journal: bool) -> list[tuple[str, str, str]]:
    """Copy, check and read; a journal that is left behind is replayed in the copy only."""
    sides = [path.with_name(path.name + suffix) for suffix in ("-wal", "-journal")]
    with tempfile.TemporaryDirectory(prefix="elometer-") as folder:
        copy = Path(folder) / path.name
        before = _signature([path, *sides])
        shutil.copyfile(path, copy)
        for side in sides if with_journal else ():
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(side, copy.with_name(side.name))
        if _signature([path, *sides]) != before:
            raise _ChangedWhileCopied(_("it changes while it is copied"))
        with contextlib.closing(sqlite3.connect(copy)) as connection:
            if connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
                raise sqlite3.DatabaseError(_("it is damaged, or a write was left half done"))
            query = "SELECT app_type, name, settings_config FROM providers ORDER BY app_type, sort_index, id"
            return [(str(a), str(n), str(c)) for a, n, c in connection.execute(query)]


def _row(app: str, name: str, text: str) -> Row:
    reader = {"claude": _claude, "codex": _codex}.get(app)
    if reader is None:
        return Row(app, name, None, (_("not imported: elometer has no profiles for {app}").format(app=app),))
    try:
        config = json.loads(text)
        if not isinstance(config, dict):
            raise TypeError
    except (ValueError, TypeError):
        return Row(app, name, None, (_("not imported: its configuration is not a JSON object"),))
    entry, notes = reader(_name(name), config)
    if entry is not None:
        problems = profile_problems(entry.profile)
        if any(problem.severity == "fail" for problem in problems):
            entry = None
        notes += [
            (_("not imported: {m}") if p.severity == "fail" else "{m}").format(m=p.message) for p in problems
        ]
    return Row(app, name, entry, tuple(notes))


def _name(text: str) -> str:
    return re.sub(r"[^\w.@+-]+", "-", text).strip("-.@+")[:80] or "unnamed"


def _named_apart(rows: list[Row]) -> list[Row]:
    """Give rows of one app that share a name different names: the store wants (tool, name) unique."""
    seen: dict[tuple[str, str], int] = {}
    result = []
    for row in rows:
        if row.entry is not None:
            key = (row.entry.profile.tool, row.entry.profile.name)
            seen[key] = seen.get(key, 0) + 1
            if seen[key] > 1:
                renamed = replace(row.entry.profile, name=f"{key[1]}-{seen[key]}")
                row = replace(row, entry=replace(row.entry, profile=renamed))
        result.append(row)
    return result


def _value(raw: str, notes: list[str]) -> str | None:
    """A key's value where it can be used; what is wrong with it goes into the notes."""
    if not raw.strip() or is_placeholder(raw):
        notes.append(_("no key: empty or a placeholder"))
        return None
    faults = [problem for problem in key_problems(raw) if problem.severity == "fail"]
    notes += [problem.message for problem in faults]
    return None if faults else raw


def _base_url_notes(url: str, notes: list[str]) -> None:
    if _PROXY.match(url):
        notes.append(_("points at CC Switch's own proxy, which must run for it to work"))


def _claude(name: str, config: dict[str, Any]) -> tuple[Entry | None, list[str]]:
    notes: list[str] = []
    env = config.get("env")
    env = {k: str(v) for k, v in env.items() if v is not None} if isinstance(env, dict) else {}
    url = env.pop(claude_code.URL, "")
    if not url:
        return None, [_("not imported: no base URL (an official login)")]
    _base_url_notes(url, notes)
    found = [variable for variable in claude_code.CREDENTIALS if env.get(variable)]
    if len(found) > 1:
        notes.append(_("both credentials are set; {kept} was taken").format(kept=found[0]))
    value = _value(env[found[0]], notes) if found else _value("", notes)
    for variable in claude_code.CREDENTIALS:
        env.pop(variable, None)
    for variable in [v for v in env if looks_secret(v) or family(v) not in (None, "claude-code")]:
        notes.append(_("{name} was left out").format(name=variable))
        del env[variable]
    dropped = sorted(set(config) - {"env"})
    if dropped:
        notes.append(_("only its variables were taken, not {names}").format(names=", ".join(dropped)))
    profile = Profile(
        name=name,
        tool="claude-code",
        base_url=url,
        key_env=found[0] if found else None,
        model=env.pop("ANTHROPIC_MODEL", None),
        small_model=env.pop("ANTHROPIC_SMALL_FAST_MODEL", None),
        env=env,
    )
    return Entry(profile, value), notes


def _codex(name: str, config: dict[str, Any]) -> tuple[Entry | None, list[str]]:
    notes: list[str] = []
    try:
        table = tomllib.loads(str(config.get("config") or ""))
    except tomllib.TOMLDecodeError as error:
        return None, [_("not imported: its TOML cannot be read: {reason}").format(reason=error)]
    provider = table.get("model_providers", {}).get(table.get("model_provider"))
    if not isinstance(provider, dict) or not provider.get("base_url"):
        return None, [_("not imported: no provider with a base URL (an official login)")]
    url = str(provider["base_url"])
    _base_url_notes(url, notes)
    if provider.get("requires_openai_auth"):
        notes.append(_("requires_openai_auth was left out: it sends the OpenAI login to {u}").format(u=url))
    if provider.get("wire_api") == "chat":
        notes.append(_('wire_api = "chat" was left out: Codex has refused it since 0.95.0'))
    if not has_version(url):
        notes.append(_("its base URL had no /v1; Codex is now given one"))
    auth = config.get("auth")
    raw = str(provider.get("experimental_bearer_token") or "")
    if not raw and isinstance(auth, dict):
        raw = str(auth.get("OPENAI_API_KEY") or "")
    model = table.get("model")
    identity = str(table.get("model_provider"))
    safe = re.fullmatch(r"[A-Za-z0-9_-]+", identity) and identity not in RESERVED_PROVIDERS
    profile = Profile(
        name=name,
        tool="codex",
        base_url=url,
        key_env=_codex_key_env(provider, notes),
        provider_id=identity if safe else None,
        model=model if isinstance(model, str) else None,
    )
    return Entry(profile, _value(raw, notes)), notes


def _codex_key_env(provider: dict[str, Any], notes: list[str]) -> str:
    named = provider.get("env_key")
    if isinstance(named, str) and named:
        return named
    notes.append(_("the key stood in a file; Codex now takes it from ELOMETER_CODEX_KEY"))
    return "ELOMETER_CODEX_KEY"
