"""Checks: sign and word, evidence of the chosen row, asked again one by one."""

from __future__ import annotations

import stat

from test_panes import settle, wait_for
from tests.tui.conftest import MakeApp
from tui_stand_ins import StandIns

from elometer.core.paths import state_folder
from elometer.tui.app import ElometerApp
from elometer.tui.screens.dialogs import Question
from elometer.tui.terminal import Terminal
from elometer.tui.verbs import Verbs
from elometer.tui.widgets.lines import Lines
from elometer.tui.widgets.rows import Rows


async def test_rows_stand_by_family_with_sign_and_word(make_app: MakeApp) -> None:
    app = make_app(None, "checks")
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        rows = app.screen.query_one("#checks", Rows).rows
        assert [row.heading or row.cells["status"] for row in rows] == [
            "key", "✓ pass", "✗ fail", "url", "! warn", "models", "? unknown",
        ]  # fmt: skip
        summary = app.screen.query_one("#check-summary", Lines).text()
        assert summary.split("  ")[:2] == ["✗ 1 fail", "! 1 warn"]
        await pilot.press("down")
        await pilot.pause()
        evidence = app.screen.query_one("#evidence", Lines).text()
        for words in ("are both set", "cause", "unset ANTHROPIC_API_KEY"):
            assert words in evidence


async def test_one_is_asked_again_with_the_answers_of_the_others(
    make_app: MakeApp, stand_ins: StandIns
) -> None:
    app = make_app(None, "checks")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        asked: list[tuple[object, object]] = []
        original = stand_ins.checks

        def note(folder, *, only=(), known=None):
            asked.append((only, known))
            return original(folder, only=only, known=known)

        stand_ins.checks = note
        await pilot.press("down", "r")
        await settle(pilot)
        (only, known) = asked[0]
        assert only == ("key.two",)
        assert known["key.set"] == "pass"
        assert len(app.screen.query_one("#checks", Rows).rows) == 7
        await pilot.press("R")
        await settle(pilot)
        assert asked[1] == ((), None)


async def test_the_real_checks_answer(home: object) -> None:
    app = ElometerApp(None, verbs=Verbs(), terminal=Terminal(), first="checks")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        rows = [row for row in app.screen.query_one("#checks", Rows).rows if not row.heading]
        assert len(rows) >= 20


async def test_live_ones_are_asked_after_a_yes_only(make_app: MakeApp, stand_ins: StandIns) -> None:
    app = make_app(None, "checks")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("l")
        await wait_for(pilot, Question)
        await pilot.press("n")
        await settle(pilot)
        assert stand_ins.asked == []
        await pilot.press("l")
        await wait_for(pilot, Question)
        await pilot.press("y")
        await settle(pilot)
        assert stand_ins.asked == [("live", None)]
        served = next(row for row in app.screen.query_one("#checks", Rows).rows if row.key == "models.served")
        assert served.cells["status"] == "✓ pass"
        await pilot.press("l")  # agreed to once
        await settle(pilot)
        assert stand_ins.asked == [("live", None)] * 2


async def test_y_sends_the_fix_and_keeps_it_in_a_file_that_is_named(make_app: MakeApp) -> None:
    app = make_app(None, "checks")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("down", "y")
        await settle(pilot)
        (notice,) = app._notifications
    path = state_folder() / "fixes" / "key.two.txt"
    assert path.read_text() == "unset ANTHROPIC_API_KEY\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(path) in notice.message
    assert app.clipboard == "unset ANTHROPIC_API_KEY"
