"""What the clients' own files say now, read as the clients read them and never written."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from elometer.core.redact import register
from elometer.core.text import gettext as _
from elometer.profiles.clients import claude_code, codex
from elometer.profiles.model import Profile
from elometer.profiles.validate import looks_secret


@dataclass(frozen=True, slots=True)
class Layer:
    """One settings file of Claude Code. `problem` says why the client ignores the whole file."""

    rank: str  # managed · local · project · user
    path: Path
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    problem: str | None = None

    @property
    def env(self) -> dict[str, str]:
        """The variables it sets; numbers and nulls are accepted by the client too."""
        table = self.settings.get("env")
        if not isinstance(table, dict):
            return {}
        return {str(name): _as_text(value) for name, value in table.items()}


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(_("{name} is not JSON").format(name=name))


def read_settings(rank: str, path: Path) -> Layer | None:
    """A settings file, or None where there is none."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError:
        return None
    except UnicodeDecodeError:
        return Layer(rank, path, problem=_("not UTF-8 text"))
    if not text.strip():
        return Layer(rank, path)
    try:
        settings = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return Layer(rank, path, problem=str(error))
    if not isinstance(settings, dict):
        return Layer(rank, path, problem=_("not an object"))
    layer = Layer(rank, path, settings)
    for name, value in layer.env.items():
        if looks_secret(name):
            register(value)
    return layer


def claude_layers(environ: Mapping[str, str], folder: Path) -> list[Layer]:
    """Claude Code's settings files that exist, strongest first."""
    project, local = claude_code.project_settings(folder)
    candidates = (
        ("managed", claude_code.MANAGED_SETTINGS),
        ("local", local),
        ("project", project),
        ("user", claude_code.settings_path(environ)),
    )
    found = (read_settings(rank, path) for rank, path in candidates)
    return [layer for layer in found if layer is not None]


def primary_api_key(environ: Mapping[str, str]) -> Path | None:
    """The state file where it holds `primaryApiKey`: sent beside a token, to whatever URL is set."""
    path = claude_code.state_path(environ)
    layer = read_settings("state", path)
    return path if layer is not None and layer.settings.get("primaryApiKey") else None


def oauth_login(environ: Mapping[str, str]) -> str | None:
    """Where a claude.ai login is kept; without a key of its own a profile's URL would receive it."""
    if environ.get("CLAUDE_CODE_OAUTH_TOKEN"):
        return "CLAUDE_CODE_OAUTH_TOKEN"
    path = claude_code.config_folder(environ) / ".credentials.json"
    layer = read_settings("credentials", path)
    return str(path) if layer is not None and layer.settings.get("claudeAiOauth") else None


def files_with_credentials(environ: Mapping[str, str]) -> list[Path]:
    """The clients' own files that hold a credential now."""
    settings = read_settings("user", claude_code.settings_path(environ))
    found = [settings.path] if settings is not None and any(map(looks_secret, settings.env)) else []
    state = primary_api_key(environ)
    found += [state] if state is not None else []
    folders = claude_code.config_folder(environ), codex.config_folder(environ)
    candidates = (folders[0] / ".credentials.json", folders[1] / "auth.json", folders[1] / ".env")
    return found + [path for path in candidates if path.is_file()]


_DOTENV = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*$", re.MULTILINE)


def dotenv(path: Path) -> dict[str, str]:
    """The variables of a `.env` file; {} where there is none."""
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return {}
    found = {}
    for name, value in _DOTENV.findall(text):
        quoted = len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]
        found[name] = value[1:-1] if quoted else re.sub(r"\s+#.*$", "", value)
    return found


def codex_dotenv_path(environ: Mapping[str, str]) -> Path:
    """The `.env` file that beats the shell for Codex."""
    return codex.config_folder(environ) / ".env"


def codex_config(environ: Mapping[str, str]) -> tuple[Path, dict[str, Any], str | None]:
    """Path, content and, where Codex cannot read it, why; {} where there is none."""
    path = codex.config_path(environ)
    try:
        return path, tomllib.loads(path.read_bytes().decode("utf-8-sig")), None
    except OSError:
        return path, {}, None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return path, {}, str(error)


@dataclass(frozen=True, slots=True)
class Shadow:
    """A place that would beat what a shell says: a file, the key in it, and what follows."""

    path: Path
    key: str
    effect: str

    def line(self) -> str:
        """One line for a person."""
        return f"{self.path}: {self.key}: {self.effect}"


def shadows(
    profile: Profile, values: Mapping[str, str], environ: Mapping[str, str], folder: Path
) -> list[Shadow]:
    """What would make a tool ignore or mix the variables `values` that a shell gives it."""
    if profile.tool == claude_code.TOOL:
        return list(_claude_shadows(values, environ, folder))
    if profile.tool == codex.TOOL:
        path = codex_dotenv_path(environ)
        name = profile.key_variable
        told = dotenv(path)
        if name in told and told[name] != values.get(name):
            return [Shadow(path, name, _("beats it with another value"))]
    return []


def _claude_shadows(values: Mapping[str, str], environ: Mapping[str, str], folder: Path) -> Iterator[Shadow]:
    for layer in claude_layers(environ, folder):
        yield from _layer_shadows(layer, {*values, *claude_code.OWNED, *claude_code.OVERRIDES}, values)
    yield from _second_credentials(values, environ)


def _layer_shadows(layer: Layer, watched: set[str], values: Mapping[str, str]) -> Iterator[Shadow]:
    """Variables of one file that contradict `values`, and its helper that makes a key."""
    for name, value in layer.env.items():
        if name not in watched or value == values.get(name, ""):
            continue
        if name in values:
            yield Shadow(layer.path, f"env.{name}", _("beats it with another value"))
        elif name in claude_code.CREDENTIALS:
            yield Shadow(layer.path, f"env.{name}", _("would be sent as a second credential"))
        else:
            yield Shadow(layer.path, f"env.{name}", _("is set there and not in the profile"))
    if layer.settings.get("apiKeyHelper"):
        yield Shadow(layer.path, "apiKeyHelper", _("its output would be sent as a second credential"))


def _second_credentials(values: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[Shadow]:
    state = primary_api_key(environ)
    if state is not None and not values.get(claude_code.API_KEY):
        yield Shadow(state, "primaryApiKey", _("would be sent as a second credential"))


def claude_overrides(values: Mapping[str, str], environ: Mapping[str, str], folder: Path) -> list[Shadow]:
    """What would beat or join the user's settings once they hold `values`: other files, and the shell."""
    found: list[Shadow] = []
    for layer in claude_layers(environ, folder):
        mine = layer.rank == "user"
        watched = set(claude_code.OVERRIDES) - set(values)
        if not mine:
            watched |= {*values, *claude_code.OWNED}
        found += _layer_shadows(layer, watched, values)
        if layer.problem is not None:
            found.append(Shadow(layer.path, layer.problem, _("the client ignores the whole file")))
    found += _second_credentials(values, environ)
    shell = Path("(shell)")
    for name in claude_code.CREDENTIALS:
        if environ.get(name) and name not in values:
            found.append(Shadow(shell, name, _("would be sent as a second credential; unset it")))
    for name in claude_code.OVERRIDES:
        if environ.get(name) and name not in values:
            found.append(Shadow(shell, name, _("changes where or as whom calls go; unset it")))
    return found


def codex_overrides(provider: str, environ: Mapping[str, str], folder: Path) -> list[Shadow]:
    """What beats or breaks the configuration of Codex for its active provider."""
    path, config, problem = codex_config(environ)
    if problem is not None:
        return [Shadow(path, problem, _("the client refuses the whole file"))]
    found = []
    tables = config.get("model_providers")
    tables = tables if isinstance(tables, dict) else {}
    for name, table in tables.items():
        if isinstance(table, dict) and table.get("wire_api") == "chat":
            effect = _("Codex has refused to start with it since 0.95.0")
            found.append(Shadow(path, f'model_providers.{name}.wire_api = "chat"', effect))
    table = tables.get(provider)
    table = table if isinstance(table, dict) else {}
    for key in ("experimental_bearer_token", "requires_openai_auth"):
        if table.get(key):
            found.append(Shadow(path, f"model_providers.{provider}.{key}", _("may send another credential")))
    if "profile" in config:
        found.append(Shadow(path, "profile", _("Codex refuses it at top level")))
    variable = table.get("env_key")
    if isinstance(variable, str) and variable in dotenv(codex_dotenv_path(environ)):
        found.append(Shadow(codex_dotenv_path(environ), variable, _("beats the shell")))
    project = folder / ".codex" / "config.toml"
    if project.is_file() and project.resolve() != path.resolve():
        found.append(Shadow(project, "model", _("may change the model where the folder is trusted")))
    return found
