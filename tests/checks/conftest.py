"""A world for checks: a home of its own, an environment made from nothing, no system files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from elometer.checks.catalogue import LIVE, STATIC
from elometer.checks.context import Context, ExperimentFacts, StoreFacts
from elometer.checks.engine import Row, ask_all
from elometer.core.limits import Boundary
from elometer.profiles.model import Key, Profile

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
KEY = "sk-planted-0123456789abcdef"
OTHER_KEY = "sk-planted-fedcba9876543210"
ROOT = "https://gateway.example/api"
MODEL = "agent-model"


@dataclass
class World:
    """What a test may change before it asks."""

    home: Path
    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    profiles: tuple[Profile, ...] = ()
    keys: tuple[Key, ...] = ()
    experiment: ExperimentFacts | None = None
    profile: Profile | None = None
    terminal: Any = None

    def write(self, name: str, text: str, *, mode: int = 0o600) -> Path:
        """A file below the home."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def context(self) -> Context:
        """The world as the checks get it."""
        system = self.home / "no-system"
        return Context(
            environ=self.environ,
            home=self.home,
            folder=self.folder,
            workspace=self.home / "bt-eval",
            store=StoreFacts(self.profiles, self.keys, self.home / "profiles.toml"),
            experiment=self.experiment,
            profile=self.profile,
            terminal=self.terminal,
            system_root=system,
            clock=lambda: NOW,
        )

    def ask(self, *names: str, live: bool = False) -> dict[str, Row]:
        """The rows of some checks (or of all), by id."""
        checks = [c for c in (*STATIC, *(LIVE if live else ())) if not names or c.id in names]
        return {row.check.id: row for row in ask_all(checks, self.context())}

    def one(self, name: str) -> Row:
        """The row of one check."""
        return self.ask(name)[name]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """An empty world; the process's own configuration folders point into it."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    yield World(home, folder, {"LANG": "C.UTF-8"})


@pytest.fixture
def experiment(world: World) -> Callable[..., ExperimentFacts]:
    """An experiment in the world, with a good key in its variable unless a test says otherwise."""

    def make(boundary: Mapping[str, Any] | None = None, **changes: Any) -> ExperimentFacts:
        bound = Boundary(**{"allowed_models": (MODEL,), "max_concurrency": 4, **(boundary or {})})
        facts: dict[str, Any] = {
            "experiment_id": "exp", "base_url": ROOT, "key_label": "bt-eval", "key_source": "env:EVAL_KEY",
            "stated": bound, "boundary": bound, "models": (MODEL,),
            "folder": world.home / "bt-eval" / "exp", **changes,
        }  # fmt: skip
        world.environ.setdefault("EVAL_KEY", KEY)
        world.experiment = ExperimentFacts(**facts)
        return world.experiment

    return make
