"""Every pane at every size: nothing sticks out, the focus can be seen, an empty pane names the next key."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tui.conftest import MakeApp
from textual.pilot import Pilot
from textual.widget import Widget
from textual.worker import WorkerCancelled

from elometer.tui.app import ElometerApp
from elometer.tui.screens.pane import PANES
from elometer.tui.widgets.bars import PaneBar, StatusBar
from elometer.tui.widgets.hint import Hint

NAMES = [name for name, _title in PANES]
SIZES = [(120, 36), (80, 24), (60, 18)]


def sticking_out(app: ElometerApp) -> list[str]:
    """Widgets that are shown but not wholly on the screen, unless a container scrolls them."""
    found = []
    for widget in app.screen.walk_children(Widget):
        if not widget.is_on_screen or not widget.region.area or in_scroll(widget):
            continue
        if not app.screen.region.contains_region(widget.region):
            found.append(f"{widget!r} {widget.region}")
    return found


def in_scroll(widget: Widget) -> bool:
    return any(getattr(node, "allow_vertical_scroll", False) for node in widget.ancestors) or any(
        node.__class__.__name__ in ("Footer", "Grid") for node in widget.ancestors_with_self
    )


async def settle(pilot: Pilot[str]) -> None:
    for _ in range(2):
        await pilot.app.pull()
        if pilot.app.pane is not None:  # the worker behind a dialog waits for its answer
            await all_workers(pilot)
        await pilot.pause()


async def all_workers(pilot: Pilot[str]) -> None:
    """Until no worker is left; an exclusive one may give way to its successor meanwhile."""
    while True:
        try:
            await pilot.app.workers.wait_for_complete()
        except WorkerCancelled:
            await pilot.pause(0.01)
        else:
            return


async def wait_for(pilot: Pilot[str], screen: type) -> None:
    """Until a dialog is shown; what comes before it is read in threads."""
    for _ in range(200):
        if isinstance(pilot.app.screen, screen):
            return
        await pilot.pause(0.02)
    raise AssertionError(pilot.app.screen)


@pytest.mark.parametrize("name", NAMES)
async def test_whole_at_every_size_down_and_up(make_app: MakeApp, story_folder: Path, name: str) -> None:
    app = make_app(story_folder, name)
    async with app.run_test(size=SIZES[0]) as pilot:
        bodies = []
        for size in (*SIZES, SIZES[0]):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            assert app.current_mode == name
            assert sticking_out(app) == []
            if (focused := app.focused) is not None:
                assert focused.region.area
                assert app.screen.region.contains_region(focused.region)
            bodies.append(app.screen.query_one("#body").region)
            assert bodies[-1].height >= size[1] - 4
            assert app.screen.query_one(PaneBar).text().rstrip().endswith("SIMULATION")
        assert bodies[0] == bodies[-1]


@pytest.mark.parametrize(("name", "key"), [("run", "d"), ("ledger", "d"), ("fit", "d"), ("run", "i")])
async def test_an_empty_pane_names_the_next_key(make_app: MakeApp, name: str, key: str) -> None:
    app = make_app(None, name)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        lines = app.screen.query_one("#empty", Hint).text().splitlines()
        assert any(line.split()[:1] == [key] for line in lines)
        assert any(active.binding.key == key for active in app.screen.active_bindings.values())


async def test_digits_reach_the_panes_and_a_dialog_keeps_them_away(
    make_app: MakeApp, story_folder: Path
) -> None:
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        for position, name in enumerate(NAMES, start=1):
            await pilot.press(str(position))
            await settle(pilot)
            assert app.current_mode == name
        await pilot.press("2", "x")
        await pilot.pause()
        await pilot.press("3")
        assert app.current_mode == "run"


async def test_status_line_always_names_profiles_start_and_phase(
    make_app: MakeApp, story_folder: Path
) -> None:
    app = make_app(story_folder, "ledger")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        shown = app.screen.query_one(StatusBar).text()
        for word in ("demo", "running", "cc:gateway-cc", "cx:gateway-cx", "api:-"):
            assert word in shown


async def test_help_opens_and_closes_by_the_same_key(make_app: MakeApp, story_folder: Path) -> None:
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("question_mark")
        await settle(pilot)
        assert app.screen.query("HelpPanel")
        assert sticking_out(app) == []
        await pilot.press("question_mark")
        await settle(pilot)
        assert not app.screen.query("HelpPanel")


async def test_every_binding_of_ours_has_an_id_of_its_own(make_app: MakeApp, story_folder: Path) -> None:
    app = make_app(story_folder)
    seen: dict[str, str] = {}
    async with app.run_test(size=(80, 24)) as pilot:
        for name in NAMES:
            app.switch_mode(name)
            await settle(pilot)
            for active in app.screen.active_bindings.values():
                binding = active.binding
                if type(active.node).__module__.startswith("elometer") and binding.action not in ("noop",):
                    owner = binding.action
                    if binding.id is not None:
                        assert seen.setdefault(binding.id, owner) == owner


async def test_nothing_is_drawn_while_nothing_changes(make_app: MakeApp, story_folder: Path) -> None:
    app = make_app(story_folder)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        app.session.state = app.session.state  # the story stands still
        await app.pull()
        await pilot.pause()
        dirty: list[object] = []
        for widget in app.screen.walk_children(Widget):
            original = widget.refresh

            def note(
                *regions: object, _widget: Widget = widget, _original=original, **options: object
            ) -> object:
                dirty.append((_widget, regions))
                return _original(*regions, **options)

            widget.refresh = note  # type: ignore[method-assign]
        for lines in ("#lanes", "#provisional", "#fit-title"):
            assert app.screen.query_one(lines)
        await app.pull()
        # Only the header may move: it holds the time to go.
        assert {getattr(widget, "id", None) for widget, _regions in dirty} <= {"header"}


async def test_a_fault_of_the_view_shows_no_local_value_and_no_secret(
    make_app: MakeApp, story_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from elometer.core.redact import MASK, Secret

    value = "planted-key-value-123456"
    Secret(value)
    app = make_app(story_folder)

    def broken() -> None:
        typed = value.upper()
        raise RuntimeError(f"{value} {len(typed)}")

    with pytest.raises(RuntimeError, match="planted"):
        async with app.run_test(size=(80, 24)) as pilot:
            app.call_later(broken)
            await settle(pilot)
    shown = capsys.readouterr().err
    assert "RuntimeError" in shown
    assert MASK in shown
    assert value not in shown
    assert value.upper() not in shown
