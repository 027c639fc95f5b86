"""Codex: which variables and files it lives by, and how to start it clean.

Measured with 0.171.0, November 2026: a provider with `env_key` sends that variable's value and nothing else,
and refuses to start without it; `$CODEX_HOME/.env` beats the shell; `-c` overrides need no file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from elometer.core.paths import expanded
from elometer.profiles.clients.launch import Launch, home_of
from elometer.profiles.edit.toml_keys import edit_toml, read_toml
from elometer.profiles.model import Profile

TOOL = "codex"
PROGRAM = "codex"
HOME_VARIABLE = "CODEX_HOME"
HEADLESS = ("exec", "e", "review")
OVERRIDES = ("CODEX_API_KEY",)


def config_folder(environ: Mapping[str, str]) -> Path:
    """`$CODEX_HOME`, else `~/.codex`."""
    named = environ.get(HOME_VARIABLE)
    return expanded(named) if named else home_of(environ) / ".codex"


def config_path(environ: Mapping[str, str]) -> Path:
    """The user's configuration, the file that a switch edits."""
    return config_folder(environ) / "config.toml"


def variables(profile: Profile, key: str) -> dict[str, str]:
    """Codex takes its key from the one variable that `env_key` names; URL and model are configuration."""
    return {**profile.env, profile.key_variable: key}


PROVIDER_FIELDS = ("name", "base_url", "env_key", "wire_api")
_ROOT_FIELDS = ("model_provider", "model")
_TABLES = "model_providers"


def provider_table(profile: Profile) -> dict[str, str]:
    """The provider table of a profile. `requires_openai_auth` is never in it: it would send a login."""
    return {
        "name": profile.name,
        "base_url": profile.effective_url,
        "env_key": profile.key_variable,
        "wire_api": profile.wire_api or "responses",
    }


def overrides(profile: Profile) -> list[str]:
    """The `-c` options that carry a profile without a file; the key is in none of them."""

    def text(value: str) -> str:
        # A JSON string of printable text is a TOML basic string too.
        return json.dumps(value, ensure_ascii=False)

    provider = profile.codex_provider
    table = ", ".join(f"{name} = {text(value)}" for name, value in provider_table(profile).items())
    pairs = [
        f"model_provider={text(provider)}",
        f"model_providers.{provider}={{{table}}}",
        "check_for_update_on_startup=false",
        "analytics.enabled=false",
        "features.plugins=false",
        # The background server keeps the environment, and so the key, of its first start.
        "features.daemon_auto_start=false",
        # Commands that the model runs need no key.
        f"shell_environment_policy.exclude=[{text(profile.key_variable)}]",
    ]
    if profile.model:
        pairs.append(f"model={text(profile.model)}")
    return [word for pair in pairs for word in ("-c", pair)]


def launch(
    profile: Profile, key: str, base: Mapping[str, str], private: Path, command: Sequence[str]
) -> Launch:
    """How to start Codex, or another command, under a profile and apart from everything else."""
    env = {**base, **variables(profile, key), HOME_VARIABLE: str(private)}
    argv = list(command)
    ours = Path(argv[0]).name == PROGRAM
    headless = ours and any(word in HEADLESS for word in argv[1:])
    if ours:
        argv[1:1] = overrides(profile)
    return Launch(tuple(argv), env, private, headless)


# What a switch does with config.toml. A field is `model_provider`, `model` or `model_providers.ID.NAME`.


def live_path(environ: Mapping[str, str]) -> Path:
    """The file that a switch edits."""
    return config_path(environ)


def wanted_fields(profile: Profile, key: str) -> dict[str, str]:
    """Every field that the file must hold afterwards; never the key, only the name of its variable."""
    provider = profile.codex_provider
    fields = {"model_provider": provider}
    if profile.model:
        fields["model"] = profile.model
    return fields | {f"{_TABLES}.{provider}.{name}": v for name, v in provider_table(profile).items()}


def unwanted_fields(profile: Profile) -> tuple[str, ...]:
    """Nothing has to go."""
    return ()


def read_fields(data: bytes) -> dict[str, str]:
    """The selector, the model and the fields of all provider tables. Raises Unreadable."""
    config = read_toml(data)
    fields = {name: config[name] for name in _ROOT_FIELDS if isinstance(config.get(name), str)}
    providers = config.get(_TABLES)
    for provider, table in providers.items() if isinstance(providers, dict) else ():
        if isinstance(table, dict):
            fields |= {
                f"{_TABLES}.{provider}.{name}": table[name]
                for name in PROVIDER_FIELDS
                if isinstance(table.get(name), str)
            }
    return fields


def write_fields(data: bytes, changes: Mapping[str, str | None]) -> bytes:
    """The file with fields set, or taken away (None). Raises Unreadable and NotEditable."""
    root = {field: value for field, value in changes.items() if not stays(field)}
    tables: dict[str, dict[str, str | None]] = {}
    for field, value in changes.items():
        if stays(field):
            provider, _dot, name = field.removeprefix(_TABLES + ".").rpartition(".")
            tables.setdefault(provider, {})[name] = value
    if not tables:
        return edit_toml(data, root)
    for provider, values in tables.items():
        data = edit_toml(data, root, (_TABLES, provider), values)
    return data


def stays(field: str) -> bool:
    """True for fields of a provider table: old threads name it, so it outlives the profile that wrote it."""
    return field.startswith(_TABLES + ".")


def is_secret(field: str, value: str) -> bool:
    """True where a field's value must not be shown: what is no variable's name may be a key put there."""
    return field.endswith(".env_key") and not re.fullmatch(r"[A-Z][A-Z0-9_]*", value)


def mode_after(mode: int) -> int:
    """The file holds no key: its mode stays."""
    return mode
