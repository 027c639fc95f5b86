"""The founding trio: one JSON file with a profile for each tool, read and written back byte for byte.

In the file a profile's variables repeat its root and hold its key. In the store the root stands once and the
key is a label; `Profile.env_names` remembers which variables the file had, and in which order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.profiles.model import TOOLS, Profile
from elometer.profiles.secrets import is_placeholder
from elometer.profiles.validate import looks_secret

PLACEHOLDER = "YOUR_API_KEY"
CLAUDE_KEYS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")

# Which field of a profile a variable of the file stands for; the key's variable is added per profile.
VARIABLES: Mapping[str, Mapping[str, str]] = {
    "claude-code": {
        "ANTHROPIC_BASE_URL": "base_url",
        "ANTHROPIC_MODEL": "model",
        "ANTHROPIC_SMALL_FAST_MODEL": "small_model",
    },
    "codex": {},
    "openai-compatible": {"OPENAI_BASE_URL": "base_url", "OPENAI_MODEL": "model"},
}
# Fields that the file may carry beside the founding four; those a tool has no variable for are written so.
FURTHER = (
    "model",
    "small_model",
    "protocol",
    "wire_api",
    "provider_id",
    "codex_version",
    "tokenizer",
    "notes",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A profile of the file, and the key that stood in it: None where it was a placeholder or missing."""

    profile: Profile
    value: str | None


@dataclass(frozen=True, slots=True)
class Trio:
    """The file: its profiles, and top-level fields that we do not know."""

    entries: tuple[Entry, ...]
    extra: Mapping[str, Any]


def parse(data: bytes, *, name: str = "trio.json") -> Trio:
    """Read a trio file. Raises UsageError with the line, or with the profile and field that do not fit."""
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        evidence = f"{name}: line {error.lineno}, column {error.colno}: {error.msg}"
        raise UsageError(_("The file is not valid JSON."), evidence=evidence, fix=_("Correct it.")) from None
    except UnicodeDecodeError:
        raise UsageError(_("The file is not UTF-8 text."), evidence=name) from None
    if not isinstance(document, dict) or not isinstance(document.get("profiles"), list):
        raise UsageError(
            _("The file holds no profiles."),
            evidence=_("{name}: expected an object with a list 'profiles'.").format(name=name),
            fix=_("Compare it with sample_profiles/trio.json."),
        )
    entries = tuple(_entry(row, f"{name}: profiles[{n}]") for n, row in enumerate(document["profiles"]))
    return Trio(entries, {k: v for k, v in document.items() if k != "profiles"})


def _entry(row: object, where: str) -> Entry:
    def refuse(message: str, fix: str = "") -> UsageError:
        return UsageError(message, evidence=where, fix=fix)

    if not isinstance(row, dict):
        raise refuse(_("A profile is an object."))
    for field in ("name", "tool", "base_url"):
        if not isinstance(row.get(field), str):
            raise refuse(_("A profile needs '{field}' as text.").format(field=field))
    if row["tool"] not in TOOLS:
        raise refuse(_("'{tool}' is no known tool.").format(tool=row["tool"]), ", ".join(TOOLS))
    env = row.get("env", {})
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise refuse(_("'env' is an object of texts."))
    variable = _key_variable(row["tool"], env, refuse)
    profile = Profile(
        name=row["name"],
        tool=row["tool"],
        base_url=row["base_url"],
        key_env=variable,
        env_names=tuple(env),
        extra={k: v for k, v in row.items() if k not in ("name", "tool", "base_url", "env", *FURTHER)},
    )
    further = {field: row[field] for field in FURTHER if isinstance(row.get(field), str)}
    profile = _with_variables(replace(profile, **further), env)
    value = env.get(variable or "", "")
    return Entry(profile, value if value.strip() and not is_placeholder(value) else None)


def _key_variable(tool: str, env: Mapping[str, str], refuse: Callable[..., UsageError]) -> str | None:
    if tool == "claude-code":
        present = [name for name in CLAUDE_KEYS if name in env]
        found = [name for name in present if env[name]] or present[:1]
    elif tool == "openai-compatible":
        found = [name for name in ("OPENAI_API_KEY",) if name in env]
    else:
        found = [name for name in env if looks_secret(name)]
        own = [name for name in found if not name.startswith(("OPENAI_", "ANTHROPIC_", "CLAUDE_"))]
        found = own or found
    if len(found) > 1:
        raise refuse(
            _("The profile holds two credentials: {names}.").format(names=", ".join(found)),
            _("Keep the one that this gateway wants."),
        )
    return found[0] if found else None


def _with_variables(profile: Profile, env: Mapping[str, str]) -> Profile:
    """Move variables into the fields they stand for; what says something else stays a variable."""
    rest = {name: value for name, value in env.items() if name != profile.key_env}
    fields: dict[str, str] = {}
    for name, field in VARIABLES[profile.tool].items():
        if field == "base_url":
            if rest.get(name) == profile.base_url:
                del rest[name]
        elif name in rest and getattr(profile, field) is None:
            fields[field] = rest.pop(name)
    return replace(profile, env=rest, **fields)  # type: ignore[arg-type]


def export(
    profiles: Sequence[Profile],
    values: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> str:
    """The trio form of profiles, as the founding file is laid out.

    `values` gives the key values by label; without it each stands as `YOUR_API_KEY`.
    """
    rows = [_row(profile, (values or {}).get(profile.key or "", PLACEHOLDER)) for profile in profiles]
    return json.dumps({"profiles": rows, **(extra or {})}, indent=2, ensure_ascii=False, default=str) + "\n"


def _row(profile: Profile, value: str) -> dict[str, Any]:
    env = _variables(profile, value)
    names = profile.env_names
    if names is not None:
        wanted = [name for name in names if name in env]
        # Root and key are left out where the file had left them out; everything set later is added.
        fixed = {profile.key_variable, *(n for n, f in VARIABLES[profile.tool].items() if f == "base_url")}
        wanted += [name for name in env if name not in names and name not in fixed]
        env = {name: env[name] for name in wanted}
    row: dict[str, Any] = {"name": profile.name, "tool": profile.tool, "base_url": profile.base_url}
    if env or names is not None:
        row["env"] = env
    told = set(VARIABLES[profile.tool].values())
    for field in FURTHER:
        if getattr(profile, field) is not None and field not in told:
            row[field] = getattr(profile, field)
    return {**row, **profile.extra}


def _variables(profile: Profile, value: str) -> dict[str, str]:
    """All variables of a profile in the founding order, with the file's meaning of the root."""
    env = {}
    fields = VARIABLES[profile.tool]
    order = list(fields)
    # The founding file has the URL before the key for Claude Code and after it for OpenAI clients.
    order.insert(1 if profile.tool == "claude-code" else 0, profile.key_variable)
    for name in order:
        told = value if name == profile.key_variable else getattr(profile, fields[name])
        if told is not None:
            env[name] = told
    return {**env, **profile.env}
