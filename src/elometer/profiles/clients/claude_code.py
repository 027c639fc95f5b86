"""Claude Code: which variables and files it lives by, and how to start it clean.

Measured with 2.1.332 and 2.1.197, November 2026: settings files beat the shell; AUTH_TOKEN goes out as
`Authorization: Bearer`, API_KEY as `x-api-key`, both where both are set; a repository's own settings can
redirect the key unless the host manages the provider and the setting sources are narrowed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from elometer.core.paths import expanded
from elometer.profiles.clients.launch import Launch, flag_given, home_of
from elometer.profiles.edit.json_env import edit_env, read_env
from elometer.profiles.model import Profile
from elometer.profiles.validate import looks_secret

TOOL = "claude-code"
PROGRAM = "claude"
HOME_VARIABLE = "CLAUDE_CONFIG_DIR"

URL = "ANTHROPIC_BASE_URL"
TOKEN = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - a variable's name
API_KEY = "ANTHROPIC_API_KEY"
CREDENTIALS = (TOKEN, API_KEY)
SMALL_MODELS = ("ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL")
MODELS = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_DEFAULT_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_FABLE_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
MODEL_VARIABLES = (*MODELS, *SMALL_MODELS)
# What a switch owns in settings.json `env`, beside the variables that a profile names itself.
OWNED = (URL, *CREDENTIALS, *MODEL_VARIABLES)
# Variables that send the calls, or a credential, somewhere else than the profile says.
OVERRIDES = (
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "AWS_BEARER_TOKEN_BEDROCK",
)
MANAGED_SETTINGS = Path(
    "/Library/Application Support/ClaudeCode/managed-settings.json"
    if sys.platform == "darwin"
    else "/etc/claude-code/managed-settings.json"
)


def config_folder(environ: Mapping[str, str]) -> Path:
    """`$CLAUDE_CONFIG_DIR`, else `~/.claude`."""
    named = environ.get(HOME_VARIABLE)
    return expanded(named) if named else home_of(environ) / ".claude"


def settings_path(environ: Mapping[str, str]) -> Path:
    """The user's settings, the file that a switch edits."""
    return config_folder(environ) / "settings.json"


def state_path(environ: Mapping[str, str]) -> Path:
    """The state file; CLAUDE_CONFIG_DIR moves it into that folder."""
    if environ.get(HOME_VARIABLE):
        return config_folder(environ) / ".claude.json"
    return home_of(environ) / ".claude.json"


def project_settings(folder: Path) -> tuple[Path, Path]:
    """Settings of a repository, weaker first; both beat the user's."""
    return folder / ".claude" / "settings.json", folder / ".claude" / "settings.local.json"


def variables(profile: Profile, key: str) -> dict[str, str]:
    """The environment variables that make Claude Code use a profile; all model aliases pinned to its model.

    A background or sub-agent call on an alias that is left open would ask for a model outside the boundary.
    """
    env = {URL: profile.effective_url, profile.key_variable: key}
    if profile.model:
        env |= dict.fromkeys(MODELS, profile.model)
    small = profile.small_model or profile.model
    if small:
        env |= dict.fromkeys(SMALL_MODELS, small)
    extras = {name: value for name, value in profile.env.items() if name not in (URL, *CREDENTIALS)}
    return {**env, **extras}


def launch(
    profile: Profile, key: str, base: Mapping[str, str], private: Path, command: Sequence[str]
) -> Launch:
    """How to start Claude Code, or another command, under a profile and apart from everything else."""
    env = {**base, **variables(profile, key)}
    # An empty string masks a key that a settings layer might still bring in.
    env |= {name: "" for name in CREDENTIALS if name != profile.key_variable}
    env |= {
        HOME_VARIABLE: str(private),
        "CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    argv = list(command)
    if Path(argv[0]).name == PROGRAM:
        if not flag_given(argv, "--setting-sources"):
            argv[1:1] = ["--setting-sources", "user"]
        if not flag_given(argv, "--strict-mcp-config"):
            argv[1:1] = ["--strict-mcp-config"]
    headless = Path(argv[0]).name == PROGRAM and (flag_given(argv, "-p") or flag_given(argv, "--print"))
    return Launch(tuple(argv), env, private, headless)


# What a switch does with settings.json. A field is `env.NAME`.


def live_path(environ: Mapping[str, str]) -> Path:
    """The file that a switch edits."""
    return settings_path(environ)


def wanted_fields(profile: Profile, key: str) -> dict[str, str]:
    """Every field that the file must hold afterwards. Claude Code reads a key from the file itself only."""
    return {f"env.{name}": value for name, value in variables(profile, key).items()}


def unwanted_fields(profile: Profile) -> tuple[str, ...]:
    """Fields that must not be there: of the two credentials only one may remain, or both are sent."""
    return tuple(f"env.{name}" for name in CREDENTIALS if name != profile.key_variable)


def read_fields(data: bytes) -> dict[str, str]:
    """All variables of the file by field, as text. Raises Unreadable."""
    return {f"env.{name}": "" if value is None else str(value) for name, value in read_env(data).items()}


def write_fields(data: bytes, changes: Mapping[str, str | None]) -> bytes:
    """The file with fields set, or taken away (None). Raises Unreadable and NotEditable."""
    return edit_env(data, {field.removeprefix("env."): value for field, value in changes.items()})


def stays(field: str) -> bool:
    """False: whatever an earlier profile wrote goes with it."""
    return False


def is_secret(field: str, value: str) -> bool:
    """True where a field's value must not be shown."""
    name = field.removeprefix("env.")
    return looks_secret(name) or name.endswith("_HEADERS")


def mode_after(mode: int) -> int:
    """The file now holds a key, so it is its owner's alone."""
    return mode & 0o700
