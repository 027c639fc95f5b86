"""Pictures of the panes that must not change unnoticed: few, with clock, links and profiles standing still."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import tui_story
from tui_stand_ins import StandIns, made_up_fit

from elometer.tui.app import ElometerApp
from elometer.tui.terminal import ANSI, Terminal
from elometer.tui.themes import DEFAULT, LIGHT

NEVER = 1e9
Picture = Callable[..., bool]


@pytest.fixture
def picture(snap_compare: Picture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Picture:
    now = tui_story.BEGIN.timestamp() + 14
    monkeypatch.setattr("elometer.tui.screens.run.time", SimpleNamespace(time=lambda: now))
    monkeypatch.setenv("TZ", "UTC")
    folder = tui_story.write_story(tmp_path / "work" / "demo", tui_story.story(stranger=True), until=14)

    def compare(
        first: str, size: tuple[int, int], *keys: str, theme: str = DEFAULT, empty: bool = False
    ) -> bool:
        app = ElometerApp(
            None if empty else folder,
            verbs=StandIns(fit=made_up_fit(), fixed=True),
            terminal=Terminal(theme=theme, pull_seconds=NEVER),
            first=first,
        )

        async def settle(pilot: object) -> None:
            await app.pull()
            await app.workers.wait_for_complete()
            await pilot.pause()  # type: ignore[attr-defined]
            if first != "ledger":
                app.screen.look()  # type: ignore[attr-defined]
            await pilot.press(*keys)  # type: ignore[attr-defined]
            await pilot.pause()  # type: ignore[attr-defined]

        return snap_compare(app, terminal_size=size, run_before=settle)

    return compare


def test_run_at_80x24(picture: Picture) -> None:
    assert picture("run", (80, 24))


def test_run_at_120x36_light(picture: Picture) -> None:
    assert picture("run", (120, 36), theme=LIGHT)


def test_run_at_60x18_in_the_terminals_own_colours(picture: Picture) -> None:
    assert picture("run", (60, 18), theme=ANSI)


def test_empty_run_names_the_keys(picture: Picture) -> None:
    assert picture("run", (80, 24), empty=True)


def test_ledger_at_120x36(picture: Picture) -> None:
    assert picture("ledger", (120, 36))


def test_fit_at_120x36(picture: Picture) -> None:
    assert picture("fit", (120, 36))


def test_profiles_at_80x24(picture: Picture) -> None:
    assert picture("profiles", (80, 24))


def test_checks_at_120x36(picture: Picture) -> None:
    assert picture("checks", (120, 36), "down")
