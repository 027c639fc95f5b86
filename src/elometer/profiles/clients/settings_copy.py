"""`--with-my-settings`: the user's habits without the user's credentials, copied into a private folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from elometer.core import atomic
from elometer.core.redact import redact
from elometer.core.text import gettext as _
from elometer.profiles import live
from elometer.profiles.clients import claude_code, codex
from elometer.profiles.validate import family, looks_secret

# Habits, by name: a list of what to leave out would lack the next secret field that a client invents.
CLAUDE_SETTINGS = (
    *(
        "permissions",
        "hooks",
        "statusLine",
        "outputStyle",
        "theme",
        "editorMode",
        "language",
        "spinnerTipsEnabled",
    ),
    *("includeCoAuthoredBy", "attribution", "cleanupPeriodDays", "alwaysThinkingEnabled", "respectGitignore"),
    *(
        "autoCompactEnabled",
        "verbose",
        "preferredNotifChannel",
        "showTurnDuration",
        "fileSuggestion",
        "plansDirectory",
    ),
)
CLAUDE_FILES = ("CLAUDE.md", "commands", "agents", "skills", "output-styles", "keybindings.json")
CODEX_SETTINGS = (
    *(
        "model_reasoning_effort",
        "model_reasoning_summary",
        "model_verbosity",
        "approval_policy",
        "sandbox_mode",
    ),
    *(
        "sandbox_workspace_write",
        "projects",
        "tui",
        "history",
        "file_opener",
        "personality",
        "hide_agent_reasoning",
    ),
)
CODEX_FILES = ("AGENTS.md", "prompts", "skills", "rules")


def copy_settings(tool: str, environ: Mapping[str, str], private: Path) -> list[str]:
    """Copy what holds no credential; returns notes on what was left behind."""
    if tool == claude_code.TOOL:
        return _claude(environ, private)
    return _codex(environ, private)


def _claude(environ: Mapping[str, str], private: Path) -> list[str]:
    source = claude_code.config_folder(environ)
    layer = live.read_settings("user", source / "settings.json")
    _copy_files(source, private, CLAUDE_FILES)
    if layer is None:
        return []
    if layer.problem is not None:
        return [_("{path} was not copied: {why}").format(path=layer.path, why=layer.problem)]
    kept: dict[str, Any] = {k: v for k, v in layer.settings.items() if k in CLAUDE_SETTINGS}
    env = {k: v for k, v in layer.env.items() if family(k) is None and not looks_secret(k)}
    if env:
        kept["env"] = env
    atomic.replace_file(private / "settings.json", (redact(json.dumps(kept, indent=2)) + "\n").encode())
    return _left(layer.path, set(layer.settings) - set(kept))


def _codex(environ: Mapping[str, str], private: Path) -> list[str]:
    source = codex.config_folder(environ)
    path, config, problem = live.codex_config(environ)
    _copy_files(source, private, CODEX_FILES)
    if problem is not None:
        return [_("{path} was not copied: {why}").format(path=path, why=problem)]
    kept = {k: v for k, v in config.items() if k in CODEX_SETTINGS}
    if config:
        atomic.replace_file(private / "config.toml", redact(tomli_w.dumps(kept)).encode())
    return _left(path, set(config) - set(kept))


def _left(path: Path, names: set[str]) -> list[str]:
    if not names:
        return []
    return [_("from {path} not copied: {names}").format(path=path, names=", ".join(sorted(names)))]


def _copy_files(source: Path, target: Path, names: tuple[str, ...]) -> None:
    for name in names:
        path = source / name
        if path.is_dir():
            shutil.copytree(path, target / name, dirs_exist_ok=True)
        elif path.is_file():
            atomic.replace_file(target / name, path.read_bytes())
