"""Codex: which variables and files it lives by, and how to start it clean.

Measured with 0.171.0, November 2026: a provider with `env_key` sends that variable's value and nothing else,
and refuses to start without it; `$CODEX_HOME/.env` beats the shell; `-c` overrides need no file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from elometer.profiles.clients.launch import Launch, home_of
from elometer.profiles.model import Profile

TOOL = "codex"
PROGRAM = "codex"
HOME_VARIABLE = "CODEX_HOME"
HEADLESS = ("exec", "e", "review")
OVERRIDES = ("CODEX_API_KEY",)


def config_folder(environ: Mapping[str, str]) -> Path:
    """`$CODEX_HOME`, else `~/.codex`."""
    named = environ.get(HOME_VARIABLE)
    return Path(named).expanduser() if named else home_of(environ) / ".codex"


def config_path(environ: Mapping[str, str]) -> Path:
    """The user's configuration, the file that a switch edits."""
    return config_folder(environ) / "config.toml"


def variables(profile: Profile, key: str) -> dict[str, str]:
    """Codex takes its key from the one variable that `env_key` names; URL and model are configuration."""
    return {**profile.env, profile.key_variable: key}


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
