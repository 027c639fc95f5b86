"""The Run pane on files: what it shows, what its keys ask for, what leaving says."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import tui_story
from test_panes import settle, wait_for
from tests.tui.conftest import MakeApp
from tui_stand_ins import StandIns, answer

from elometer.core.errors import UsageError
from elometer.jobs.planted import known_faults
from elometer.runs import events as ev
from elometer.tui.app import ElometerApp
from elometer.tui.screens.dialogs import Question, TextDialog
from elometer.tui.screens.picker import Picker
from elometer.tui.widgets.bars import StatusBar
from elometer.tui.widgets.hint import Hint
from elometer.tui.widgets.lines import Lines
from elometer.tui.widgets.rows import Rows


def lane_texts(app: ElometerApp) -> list[str]:
    return app.screen.query_one("#lanes", Rows).text().splitlines()[1:]


async def test_lanes_move_as_lines_are_appended(make_app: MakeApp, tmp_path: Path) -> None:
    folder = tui_story.write_story(tmp_path / "work" / "demo", until=2)
    app = make_app(folder)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        before = lane_texts(app)
        later = [m for m in tui_story.story() if 2 < m.at <= 9 and m.name == "events.jsonl"]
        with (folder / "events.jsonl").open("ab") as file:
            file.write(b"".join(moment.line for moment in later))
        await settle(pilot)
        after = lane_texts(app)
        assert len(before) == len(after) == 5
        assert all(one != other for one, other in zip(before, after, strict=True))
        assert app.session.state.blocks_done > 0


async def test_provisional_fit_says_what_is_resolved_by_word(make_app: MakeApp, story_folder: Path) -> None:
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        rows = {row.key: row for row in app.screen.query_one("#provisional", Rows).rows}
        assert rows["sample_1"].cells["resolved"] == "anchor"
        fit = app.session.fit
        for row in fit.strategies[1:]:
            assert rows[row.strategy].cells["resolved"] == ("✓ yes" if row.resolved else "? no")
            assert rows[row.strategy].style == ("" if row.resolved else "muted")
        assert {row.resolved for row in fit.strategies[1:]} == {True, False}


async def test_keys_write_the_desired_state(
    make_app: MakeApp, story_folder: Path, stand_ins: StandIns
) -> None:
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("p", "plus", "plus", "minus")
        await settle(pilot)
        assert stand_ins.asked == [("state", "paused"), ("limit", 5), ("limit", 6), ("limit", 5)]
        assert "asked for 5" in app.screen.query_one("#header", Lines).text()


async def test_the_last_key_is_the_wish_that_stays(
    make_app: MakeApp, story_folder: Path, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    def slower_at_first(folder: Path, limit: int) -> None:
        time.sleep(0.2 if limit == 5 else 0.0)
        ended.append(limit)

    monkeypatch.setattr(stand_ins, "set_limit", slower_at_first)
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("plus", "plus", "plus")
        while len(ended) < 3:
            await pilot.pause(0.02)
        assert ended == [5, 6, 7]


async def test_the_cap_ends_at_what_the_key_allows(
    make_app: MakeApp, tmp_path: Path, stand_ins: StandIns
) -> None:
    folder = tui_story.write_story(tmp_path / "work" / "demo", until=4)
    path = folder / "events.jsonl"
    events = path.read_bytes()
    assert events.count(b'"max_concurrency":4,') == 1
    path.write_bytes(events.replace(b'"max_concurrency":4,', b'"max_concurrency":4,"key_concurrency":5,'))
    app = make_app(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert "(the key allows 5)" in app.screen.query_one("#header", Lines).text()
        await pilot.press("plus", "plus", "plus")
        await settle(pilot)
        assert stand_ins.asked == [("limit", 5)]


async def test_stop_asks_first(make_app: MakeApp, story_folder: Path, stand_ins: StandIns) -> None:
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("x")
        await pilot.pause()
        await pilot.press("enter", "n")
        await settle(pilot)
        assert stand_ins.asked == []
        await pilot.press("x")
        await pilot.pause()
        await pilot.press("y")
        await settle(pilot)
        assert stand_ins.asked == [("state", "stopping")]


async def test_keys_of_a_running_start_are_gone_when_it_ended(
    make_app: MakeApp, tmp_path: Path, stand_ins: StandIns
) -> None:
    folder = tui_story.write_story(tmp_path / "work" / "demo", tui_story.story(tasks=2, runs=1))
    app = make_app(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        shown = {active.binding.id for active in app.screen.active_bindings.values()}
        assert not shown & {"run.pause", "run.stop", "run.cap_up"}
        await pilot.press("p", "x", "plus")
        await settle(pilot)
        assert stand_ins.asked == []


async def test_ctrl_c_drains_once_and_leaves_the_second_time(
    make_app: MakeApp, story_folder: Path, stand_ins: StandIns
) -> None:
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert stand_ins.asked == [("state", "stopping")]
        assert app.is_running
        await pilot.press("ctrl+c")
    assert "is still running" in (app.return_value or "")


async def test_leaving_says_where_things_are_and_that_the_start_goes_on(
    make_app: MakeApp, story_folder: Path
) -> None:
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("q")
    said = app.return_value or ""
    assert "SIMULATION" in said
    assert str(story_folder) in said
    assert "token_ledger.jsonl" in said
    assert "demo-20261129T120000Z is still running" in said
    assert "elometer watch demo" in said
    assert "sample_16" in said


async def test_a_refused_wish_is_three_lines_and_no_traceback(
    make_app: MakeApp, story_folder: Path, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path, state: str) -> None:
        raise UsageError("No start is running.", evidence="demo: died", fix="elometer run demo")

    monkeypatch.setattr(stand_ins, "set_state", refuse)
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("p")
        await settle(pilot)
        (notice,) = app._notifications
        assert (notice.title, notice.message) == ("No start is running.", "demo: died\nelometer run demo")


async def test_a_fit_that_fails_does_not_end_the_view(
    make_app: MakeApp, story_folder: Path, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: Path) -> object:
        raise ZeroDivisionError("no pairs")

    monkeypatch.setattr(stand_ins, "current_fit", broken)
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert "no pairs" in app.screen.query_one("#fit-title", Lines).text()
        assert lane_texts(app)


async def test_a_start_that_says_nothing_shows_its_last_words(make_app: MakeApp, tmp_path: Path) -> None:
    folder = tmp_path / "work" / "demo"
    folder.mkdir(parents=True)
    (folder / "start.log").write_text("The gateway did not start.\nport in use\n")
    app = make_app(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        shown = app.screen.query_one("#empty", Hint).text()
        assert "Waiting for the first event of demo" in shown
        assert "port in use" in shown


async def test_a_slow_disk_does_not_hold_the_keyboard(
    make_app: MakeApp, story_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    app = make_app(story_folder)
    gate = threading.Event()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert app.session.watch is not None
        monkeypatch.setattr(app.session.watch, "poll", lambda: (gate.wait(10), app.session.state)[1])
        stuck = asyncio.create_task(app.pull())
        await pilot.press("3")
        await pilot.pause()
        assert app.current_mode == "ledger"
        gate.set()
        await stuck


async def test_a_start_whose_process_is_gone_is_shown_as_died_and_can_go_on(
    make_app: MakeApp, story_folder: Path, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elometer.tui.app.SILENCE_S", 0.0)
    monkeypatch.setattr(stand_ins, "standing", lambda folder: "died")
    monkeypatch.setattr(
        stand_ins, "start_run", lambda folder, force: (stand_ins.asked.append(("run", folder)), folder)[1]
    )
    app = make_app(story_folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await settle(pilot)
        assert "process is gone" in app.screen.query_one("#header", Lines).text()
        assert "died" in app.screen.query_one(StatusBar).text()
        await pilot.press("p", "x", "R")
        await settle(pilot)
        assert stand_ins.asked == [("run", story_folder)]


async def test_a_strangers_name_is_accepted_after_a_question_only(
    make_app: MakeApp, tmp_path: Path, stand_ins: StandIns
) -> None:
    moments = list(tui_story.story(stranger=True))
    folder = tui_story.write_story(tmp_path / "work" / "demo", iter(moments), until=14)
    pause = ev.Control(at="2026-11-29T12:00:14.000Z", state="paused", limit=4, why="stranger")
    with (folder / "events.jsonl").open("ab") as file:
        file.write(ev.encode(pause) + b"\n")
    app = make_app(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("p")  # a pause for this reason is not lifted without the question
        await settle(pilot)
        assert stand_ins.asked == []
        await pilot.press("A")
        await wait_for(pilot, Question)
        await pilot.press("n")
        await settle(pilot)
        assert stand_ins.asked == []
        await pilot.press("A")
        await wait_for(pilot, Question)
        await pilot.press("y")
        await settle(pilot)
        assert stand_ins.asked == [("state", "running")]


async def test_a_fault_is_planted_named_and_started_all_the_same_by_key(
    make_app: MakeApp, stand_ins: StandIns, story_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = known_faults()[:2]
    named = answer("url.v1", "url", "Does the root end in /v1?", "fail", "/v1/v1 → 404", cause="doubled")
    made = SimpleNamespace(fault=second, folder=story_folder, complaints=(named,), blocked=True)
    monkeypatch.setattr(stand_ins, "plant", lambda name: (stand_ins.asked.append(("plant", name)), made)[1])
    monkeypatch.setattr(
        stand_ins,
        "start_run",
        lambda folder, force: (stand_ins.asked.append(("run", force)), folder)[1],
    )
    app = make_app(None)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert first.id != second.id
        await pilot.press("b")
        await wait_for(pilot, Picker)
        await pilot.press("down", "enter")
        await wait_for(pilot, TextDialog)
        await pilot.pause()
        said = app.screen.query_one("#text", Lines).text()
        assert "✗ fail: Does the root end in /v1?" in said
        assert "doubled" in said
        await pilot.press("q")
        await wait_for(pilot, Question)
        await pilot.press("y")
        await settle(pilot)
        assert stand_ins.asked == [("plant", second.id), ("run", True)]
        assert app.session.folder == story_folder
