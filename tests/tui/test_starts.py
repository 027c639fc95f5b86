"""The list of experiments: how each stands, and Enter opens it."""

from __future__ import annotations

from pathlib import Path

import tui_story
from test_panes import settle, wait_for
from tests.tui.conftest import MakeApp
from tui_stand_ins import StandIns

from elometer.jobs.watch import summarise
from elometer.tui.screens.picker import Picker
from elometer.tui.widgets.rows import Rows


async def test_enter_opens_the_chosen_one_and_n_goes_back(
    make_app: MakeApp, stand_ins: StandIns, tmp_path: Path
) -> None:
    done = tui_story.write_story(tmp_path / "work" / "one", tui_story.story(tasks=2, runs=1))
    died = tui_story.write_story(tmp_path / "work" / "two", until=3)
    stand_ins.found = [summarise(done), summarise(died)]
    app = make_app(None)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("o")
        await wait_for(pilot, Picker)
        rows = {row.cells["name"]: row.cells for row in app.screen.query_one(Rows).rows}
        assert rows["one"]["status"] == "complete"
        assert rows["one"]["blocks"] == "2/2"
        await pilot.press("n")
        await settle(pilot)
        assert app.session.folder is None
        await pilot.press("o")
        await wait_for(pilot, Picker)
        await pilot.press("down", "enter")
        await settle(pilot)
        assert app.session.folder == died
        assert app.session.state.opened is not None
