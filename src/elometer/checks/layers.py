"""The layers from which a client takes a setting, weakest first, as measured with the published clients.

Claude Code 2.1.332 and Codex 0.171.0, on 2026-11-29. For Claude Code settings files beat the shell, a nearer
file beats one further off, and a managed file beats all (documented, not measured). For Codex `.env` in its
home beats the shell. A layer's value of a secret variable is never shown.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elometer.checks import rcfiles
from elometer.checks.context import Context
from elometer.core.redact import register
from elometer.core.text import gettext as _

CLAUDE_KEYS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
CLAUDE_URL = "ANTHROPIC_BASE_URL"
# The names under which Claude Code may ask for a model, background calls included.
CLAUDE_MODELS = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
CLAUDE_ROUTES = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
OPENAI_VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")
SECRET_VARIABLES = frozenset(
    {
        *CLAUDE_KEYS,
        "CLAUDE_CODE_OAUTH_TOKEN",
        "ANTHROPIC_CUSTOM_HEADERS",
        "AWS_BEARER_TOKEN_BEDROCK",
        "OPENAI_API_KEY",
        "CODEX_API_KEY",
        "TAOTOKEN_API_KEY",
        "OPENROUTER_API_KEY",
    }
)
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
FAMILIES = ("ANTHROPIC_", "CLAUDE_CODE_", "OPENAI_", "CODEX_", "TAOTOKEN_")


def is_secret(name: str) -> bool:
    """True for variables whose value is never shown; a count of tokens is no credential."""
    upper = name.upper()
    if upper in SECRET_VARIABLES:
        return True
    return any(word in upper for word in _SECRET_WORDS) and not upper.endswith(("_TOKENS", "_KEY_ENV"))


def guarded(name: str, value: str) -> str:
    """The value, made known for redaction where it is, holds, or may be a credential.

    People paste a key where a URL belongs, or put it into the URL; both must not be shown either.
    """
    if is_secret(name):
        register(value)
    elif name.upper().endswith(("_URL", "_PROXY", "_BASE")):
        guard_url(value)
    return value


def guard_url(value: str) -> None:
    """Make known what in a URL's place is no URL, and a URL's user name and password."""
    text = value.strip()
    place = text.partition("://")[2] or text
    userinfo = place.split("/", 1)[0].rpartition("@")[0]
    for part in (userinfo, *userinfo.split(":", 1)):
        register(part)
    if not any(sign in text for sign in "./:"):
        register(text)


@dataclass(frozen=True, slots=True)
class Layer:
    """One place that sets variables. `problem` says why a client ignores the whole file."""

    name: str
    path: Path | None
    values: Mapping[str, str]
    command: str
    document: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable's value in one layer."""

    layer: Layer
    name: str
    value: str


def claude_layers(context: Context) -> tuple[Layer, ...]:
    """Shell, user settings, project settings, local settings, managed settings: later ones win."""
    return context.once("claude layers", lambda: tuple(_claude_layers(context)))


def _claude_layers(context: Context) -> Iterator[Layer]:
    yield shell_layer(context)
    project = context.folder / ".claude"
    places = (
        (_("user settings"), context.claude_folder / "settings.json"),
        (_("project settings"), project / "settings.json"),
        (_("local settings"), project / "settings.local.json"),
        (_("managed settings"), context.system_root / "etc/claude-code/managed-settings.json"),
    )
    seen: set[Path] = set()
    for name, path in places:
        # In the home folder itself the project's file is the user's file.
        if path.resolve() not in seen and (layer := _settings_layer(context, name, path)) is not None:
            seen.add(path.resolve())
            yield layer


def shell_layer(context: Context) -> Layer:
    """The environment that this process was started with."""
    values = {
        name: guarded(name, value) for name, value in context.environ.items() if name.startswith(FAMILIES)
    }
    return Layer(_("shell"), None, values, "env | cut -d= -f1 | grep -E 'ANTHROPIC|OPENAI|TAOTOKEN'")


def _settings_layer(context: Context, name: str, path: Path) -> Layer | None:
    text = context.text(path)
    if text is None:
        return None
    command = f"jq '.env | keys' {context.shown(path)}"
    try:
        document = json.loads(text) if text.strip() else {}
        if not isinstance(document, dict):
            return Layer(name, path, {}, command, problem=_("not a JSON object"))
    except (ValueError, RecursionError) as error:
        return Layer(name, path, {}, command, problem=str(error))
    env = document.get("env")
    values = {key: guarded(key, _plain(value)) for key, value in env.items()} if isinstance(env, dict) else {}
    for key, value in document.items():
        if isinstance(value, str) and is_secret(key):
            register(value)
    return Layer(name, path, values, command, document)


def _plain(value: object) -> str:
    """A JSON value as Claude Code puts it into the environment; null reads as empty."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def codex_layers(context: Context) -> tuple[Layer, ...]:
    """Shell, then `.env` of Codex's home, which wins, also for the provider's key variable."""
    return context.once("codex layers", lambda: tuple(_codex_layers(context)))


def _codex_layers(context: Context) -> Iterator[Layer]:
    yield Layer(_("shell"), None, dict(context.environ), "env | cut -d= -f1")
    path = context.codex_folder / ".env"
    text = context.text(path)
    if text is not None:
        values = {found.name: guarded(found.name, found.value or "") for found in rcfiles.assignments(text)}
        yield Layer(".env", path, values, f"cut -d= -f1 {context.shown(path)}")


def codex_config(context: Context) -> Layer | None:
    """config.toml of Codex; `problem` where it does not parse, and Codex refuses to start."""
    path = context.codex_folder / "config.toml"

    def read() -> Layer | None:
        text = context.text(path)
        if text is None:
            return None
        command = f"cat {context.shown(path)}"
        try:
            return Layer("config.toml", path, {}, command, tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            return Layer("config.toml", path, {}, command, problem=str(error))

    return context.once("codex config", read)


def codex_auth(context: Context) -> Layer | None:
    """auth.json of Codex: an API key or a login."""
    return context.once(
        "codex auth", lambda: _settings_layer(context, "auth.json", context.codex_folder / "auth.json")
    )


def claude_state(context: Context) -> Layer | None:
    """Claude Code's state file, which may hold a key of its own (`primaryApiKey`)."""
    return context.once(
        "claude state", lambda: _settings_layer(context, ".claude.json", context.claude_state)
    )


def rc_layers(context: Context) -> tuple[tuple[Layer, tuple[rcfiles.Assignment, ...]], ...]:
    """Start-up files that set variables of the clients, each with its assignments."""
    return context.once("rc layers", lambda: tuple(_rc_layers(context)))


def _rc_layers(context: Context) -> Iterator[tuple[Layer, tuple[rcfiles.Assignment, ...]]]:
    places = [context.home / name for name in rcfiles.HOME_FILES]
    places += [context.system_root / name for name in rcfiles.SYSTEM_FILES]
    for path in places:
        text = context.text(path)
        if not text:
            continue
        fish = path.suffix == ".fish"
        found = tuple(item for item in rcfiles.assignments(text, fish=fish) if item.name.startswith(FAMILIES))
        if found:
            values = {item.name: guarded(item.name, item.value) for item in found if item.value is not None}
            command = f"grep -nE 'ANTHROPIC|OPENAI|TAOTOKEN' {context.shown(path)} | cut -d= -f1"
            yield Layer(context.shown(path), path, values, command), found


def settings_of(layers: tuple[Layer, ...], name: str) -> list[Setting]:
    """Every layer's value of a variable, weakest first; the last one wins."""
    return [Setting(layer, name, layer.values[name]) for layer in layers if name in layer.values]


def winner(layers: tuple[Layer, ...], name: str) -> Setting | None:
    """The value that the client uses; an empty one counts, because it masks those below it."""
    found = settings_of(layers, name)
    return found[-1] if found else None
