"""What each tool lives by now, and how that differs from what the last switch wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elometer.core.errors import ElometerError
from elometer.core.redact import redact
from elometer.core.text import gettext as _
from elometer.profiles import live, live_file
from elometer.profiles.clients import claude_code, codex, openai_compatible
from elometer.profiles.clients.files import CLIENTS
from elometer.profiles.edit.document import Unreadable
from elometer.profiles.journal import Journal, Record
from elometer.profiles.keys import profile_key
from elometer.profiles.model import TOOLS, Profile
from elometer.profiles.seal import digest
from elometer.profiles.secrets import fingerprint, is_placeholder
from elometer.profiles.store import Store
from elometer.profiles.switch import show

Environ = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ToolState:
    """One tool: the file it lives by, its profile, what is live, what differs or overrides.

    `fingerprint` is that of the key which the tool would send, `key_labels` whose it is by the store.
    """

    tool: str
    path: str | None
    profile: str | None
    base_url: str | None
    model: str | None
    fingerprint: str | None
    key_labels: tuple[str, ...]
    drift: tuple[str, ...]
    overrides: tuple[str, ...]


def tool_states(
    store: Store, journal: Journal, labels: Mapping[str, list[str]], environ: Environ, folder: Path
) -> list[ToolState]:
    """The state of every tool; `labels` gives the store's labels of each fingerprint."""
    readers = {claude_code.TOOL: _claude, codex.TOOL: _codex}
    return [
        readers[tool](store, journal, labels, environ, folder)
        if tool in readers
        else _openai(store, labels, environ)
        for tool in TOOLS
    ]


def _print_of(value: str | None) -> str | None:
    return fingerprint(value) if value and value.strip() and not is_placeholder(value) else None


def _whose(shown: str | None, labels: Mapping[str, list[str]]) -> tuple[str, ...]:
    return tuple(labels.get(shown, ())) if shown is not None else ()


def active_record(tool: str, journal: Journal, environ: Environ) -> Record | None:
    """What we last wrote into the file that a tool lives by."""
    try:
        target = live_file.read(CLIENTS[tool].live_path(environ)).target
    except ElometerError:
        return None
    return journal.records.get(str(target))


def _claude(
    store: Store, journal: Journal, labels: Mapping[str, list[str]], environ: Environ, folder: Path
) -> ToolState:
    path = claude_code.settings_path(environ)
    settings = live.read_settings("user", path)
    user = settings.env if settings is not None else {}
    values: dict[str, str] = {name: environ[name] for name in claude_code.OWNED if environ.get(name)}
    for layer in reversed(live.claude_layers(environ, folder)):
        values |= layer.env
    record = active_record(claude_code.TOOL, journal, environ)
    sent = next((values[name] for name in claude_code.CREDENTIALS if values.get(name)), None)
    overrides = [shadow.line() for shadow in live.claude_overrides(user, environ, folder)]
    login = live.oauth_login(environ)
    if login is not None and sent is None and values.get(claude_code.URL):
        overrides.append(
            _("{where}: a claude.ai login would be sent to {url}").format(
                where=login, url=values[claude_code.URL]
            )
        )
    return ToolState(
        tool=claude_code.TOOL,
        path=str(path),
        profile=record.profile if record else None,
        base_url=show(claude_code, claude_code.URL, values.get(claude_code.URL)),
        model=redact(values["ANTHROPIC_MODEL"]) if values.get("ANTHROPIC_MODEL") else None,
        fingerprint=_print_of(sent),
        key_labels=_whose(_print_of(sent), labels),
        drift=tuple(_drift(claude_code.TOOL, record, store, environ)),
        overrides=tuple(overrides),
    )


def _codex(
    store: Store, journal: Journal, labels: Mapping[str, list[str]], environ: Environ, folder: Path
) -> ToolState:
    path, config, _problem = live.codex_config(environ)
    provider = config.get("model_provider")
    tables = config.get("model_providers")
    table = tables.get(provider) if isinstance(tables, dict) else None
    table = table if isinstance(table, dict) else {}
    record = active_record(codex.TOOL, journal, environ)
    variable = table.get("env_key")
    sent = None
    overrides = [s.line() for s in live.codex_overrides(str(provider), environ, folder)]
    if isinstance(variable, str):
        told = live.dotenv(live.codex_dotenv_path(environ))
        sent = told.get(variable) or environ.get(variable)
        if not sent:
            overrides.append(_("(shell): {name}: not set; Codex will not start").format(name=variable))
    model = config.get("model")
    return ToolState(
        tool=codex.TOOL,
        path=str(path),
        profile=record.profile if record else None,
        base_url=show(codex, "base_url", str(table["base_url"])) if "base_url" in table else None,
        model=redact(model) if isinstance(model, str) else None,
        fingerprint=_print_of(sent),
        key_labels=_whose(_print_of(sent), labels),
        drift=tuple(_drift(codex.TOOL, record, store, environ)),
        overrides=tuple(overrides),
    )


def _openai(store: Store, labels: Mapping[str, list[str]], environ: Environ) -> ToolState:
    """OpenAI clients live by the shell alone; the default profile is what the shell should say."""
    default = next(
        (p for p in store.profiles if p.tool == openai_compatible.TOOL and p.name == store.default), None
    )
    sent = environ.get(openai_compatible.KEY)
    model = environ.get(openai_compatible.MODEL)
    url = environ.get(openai_compatible.URL)
    drift = []
    if default is not None and url is not None and url.rstrip("/") != default.effective_url:
        drift.append(
            _("(shell): {name}: {live}, the default profile says {wanted}").format(
                name=openai_compatible.URL, live=show(codex, "base_url", url), wanted=default.effective_url
            )
        )
    if default is not None and sent is not None and default.key is not None:
        whose = _whose(_print_of(sent), labels)
        if default.key not in whose:
            drift.append(
                _("(shell): {name}: not the default profile's key").format(name=openai_compatible.KEY)
            )
    return ToolState(
        tool=openai_compatible.TOOL,
        path=None,
        profile=store.default,
        base_url=show(codex, "base_url", url),
        model=redact(model) if model else None,
        fingerprint=_print_of(sent),
        key_labels=_whose(_print_of(sent), labels),
        drift=tuple(drift),
        overrides=(),
    )


def _drift(tool: str, record: Record | None, store: Store, environ: Environ) -> list[str]:
    """How the live file differs from what we wrote, and the profile from what it was then."""
    if record is None:
        return []
    client = CLIENTS[tool]
    path = client.live_path(environ)
    try:
        now = client.read_fields(live_file.read(path).data or b"")
    except (Unreadable, ElometerError) as error:
        return [f"{path}: {error}"]
    profile = next((p for p in store.profiles if (p.tool, p.name) == (tool, record.profile)), None)
    wanted = _wanted(profile, store, environ) if profile is not None else {}
    lines = []
    for name, written in record.written.items():
        if client.stays(name) and profile is not None and name not in wanted:
            continue  # a provider that is not in use
        value = now.get(name)
        if digest(value) != written:
            shown = show(client, name, value)
            lines.append(
                _("{path}: {field}: {value}, not what the switch wrote").format(
                    path=path, field=name, value=shown if shown is not None else _("(gone)")
                )
            )
    if profile is None:
        lines.append(_("profile '{name}' is no longer in the store").format(name=record.profile))
    changed = [name for name, value in wanted.items() if value and record.written.get(name) != digest(value)]
    if changed:
        note = _("profile '{name}' changed since the switch ({fields}); switch again")
        lines.append(note.format(name=record.profile, fields=", ".join(changed)))
    return lines


def _wanted(profile: Profile, store: Store, environ: Environ) -> dict[str, str]:
    """What the profile wants now; a key that cannot be read counts as unchanged (an empty value)."""
    try:
        key = profile_key(profile, store, environ).reveal()
    except ElometerError:
        key = ""
    return CLIENTS[profile.tool].wanted_fields(profile, key)
