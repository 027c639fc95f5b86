"""Screens are tested in a home of their own, on files alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tui_story
from textual import _wait
from tui_stand_ins import StandIns, made_up_fit

from elometer.tui.app import ElometerApp
from elometer.tui.terminal import Terminal

# A pilot waits after each key until the process rests. Looking five times as often for the same rest (a twentieth
# of the time) makes the tests of the screens half as long.
_wait.SLEEP_GRANULARITY = 1 / 200
_wait.SLEEP_IDLE = _wait.SLEEP_GRANULARITY / 20

MakeApp = Callable[..., ElometerApp]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the user's files, terminal or colours."""
    for name, folder in (
        ("ELOMETER_HOME", "work"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
    ):
        monkeypatch.setenv(name, str(tmp_path / folder))
    for name, folder in (
        ("HOME", "home"),
        ("CODEX_HOME", "home/codex"),
        ("CLAUDE_CONFIG_DIR", "home/claude"),
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv(name, str(tmp_path / folder))
    for name in ("NO_COLOR", "ELOMETER_THEME", "ELOMETER_SLOW_LINK", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def story_folder(tmp_path: Path) -> Path:
    """A start in the middle of its work."""
    return tui_story.write_story(tmp_path / "work" / "demo", until=14)


@pytest.fixture
def stand_ins() -> StandIns:
    """Use cases that note what was asked."""
    return StandIns(fit=made_up_fit())


@pytest.fixture
def make_app(stand_ins: StandIns) -> MakeApp:
    """An app on a folder (None: nothing open) that begins with a pane. It looks at files when a test says so."""

    def make(folder: Path | None, first: str = "run", **options: object) -> ElometerApp:
        return ElometerApp(
            folder, verbs=stand_ins, terminal=Terminal(pull_seconds=60.0), first=first, **options
        )

    return make
