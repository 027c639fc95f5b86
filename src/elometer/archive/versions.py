"""The programs that took part: elometer, Python, its packages, the agents' clients, the state of git."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from elometer import __version__

CLIENT_PROGRAMS = {"claude-code": "claude", "codex": "codex"}
ANSWER_WITHIN_S = 5.0

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def versions(tools: Iterable[str]) -> dict[str, Any]:
    """Versions of elometer, Python and the packages it requires, and of the clients among `tools`."""
    return {
        "elometer": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": _packages(),
        "clients": {tool: _client_version(tool) for tool in sorted(set(tools) & CLIENT_PROGRAMS.keys())},
    }


def _packages() -> dict[str, str]:
    found = {}
    try:
        required = metadata.requires("elometer") or []
    except metadata.PackageNotFoundError:
        return {}
    for requirement in required:
        name = _NAME.match(requirement)
        if name is None or "extra ==" in requirement:
            continue
        try:
            found[name.group()] = metadata.version(name.group())
        except metadata.PackageNotFoundError:
            continue
    return found


def _client_version(tool: str) -> str | None:
    """What the client says of itself; run without the variables that hold keys."""
    said = _output([CLIENT_PROGRAMS[tool], "--version"])
    return said.splitlines()[0] if said else None


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit of the repository that a folder lies in and whether the folder differs from it; None outside."""
    commit = _output(["git", "-C", str(folder), "rev-parse", "--verify", "HEAD"])
    if not commit:
        return None
    changes = _output(["git", "-C", str(folder), "status", "--porcelain", "--", "."])
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def _output(command: list[str]) -> str | None:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "USER")}
    try:
        done = subprocess.run(
            command,
            env={**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
