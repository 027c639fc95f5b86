"""The ledger as a window: bad lines in sight, follow mode, whole lines, totals, and size that does not matter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tui_story
from hypothesis import given
from hypothesis import strategies as st
from test_panes import settle
from tests.tui.conftest import MakeApp

from elometer.ledger.index import LineIndex
from elometer.tui.ledger_pages import BLOCK, BLOCKS_KEPT, LedgerPages, ledger_row
from elometer.tui.widgets.ledger_view import LedgerView
from elometer.tui.widgets.lines import Lines
from elometer.tui.widgets.rows import Rows


@given(st.binary(max_size=200))
def test_any_line_has_a_row(line: bytes) -> None:
    row = ledger_row(0, line)
    assert row.cells["status"] or row.cells["strategy"] or row.style == ""


def test_unknown_tokens_are_a_dash_and_failures_a_sign_and_a_word() -> None:
    line = {"strategy": None, "task": "t", "run": 1, "status": "error", "total_tokens": None, "model": "m"}
    row = ledger_row(0, json.dumps(line).encode())
    assert row.cells["total"] == "–"
    assert row.cells["strategy"] == "–"
    assert row.cells["status"] == "! error"


def test_a_bad_line_shows_its_beginning() -> None:
    row = ledger_row(3, b'{"strategy": "sample_1", "tas')
    assert row.style == "error"
    assert row.cells["status"] == "! bad line"
    assert row.cells["task"].startswith('{"strategy"')


def test_only_blocks_that_were_looked_at_are_kept(tmp_path: Path) -> None:
    path = tui_story.write_ledger(tmp_path / "token_ledger.jsonl", 40_000)
    pages = LedgerPages(LineIndex(path))
    assert pages.update()
    assert pages.count == 40_000
    for number in range(0, 40_000, BLOCK):
        assert pages.row(number) is not None
    assert len(pages._blocks) == BLOCKS_KEPT
    assert pages.row(40_000) is None


def test_a_grown_block_is_read_again_and_a_replaced_file_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "token_ledger.jsonl"
    path.write_bytes(b'{"strategy":"a"}\n')
    pages = LedgerPages(LineIndex(path))
    pages.update()
    assert pages.row(0).cells["strategy"] == "a"
    with path.open("ab") as file:
        file.write(b'{"strategy":"b"}\n')
    pages.update()
    assert pages.row(1).cells["strategy"] == "b"
    path.unlink()
    path.write_bytes(b'{"strategy":"c"}\n{"strategy":"d"}\n{"strategy":"e"}\n')
    pages.update()
    assert [pages.row(at).cells["strategy"] for at in range(3)] == ["c", "d", "e"]


async def test_the_end_is_followed_until_the_user_moves(make_app: MakeApp, story_folder: Path) -> None:
    app = make_app(story_folder, "ledger")
    path = story_folder / "token_ledger.jsonl"
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        view = app.screen.query_one(LedgerView)
        assert view.follow
        last = len(path.read_bytes().splitlines()) - 1
        assert view.current == str(last)
        await pilot.press("up")
        assert not view.follow
        append(path, "late")
        app.screen._next_look = 0.0
        await settle(pilot)
        assert view.current == str(last - 1)
        assert "f follows" in app.screen.query_one("#ledger-title", Lines).text()
        await pilot.press("f")
        await settle(pilot)
        assert view.current == str(last + 1)
        assert "late" in view.text()


def append(path: Path, task: str) -> None:
    with path.open("ab") as file:
        file.write(
            json.dumps({"strategy": "sample_1", "task": task, "run": 1, "status": "ok"}).encode() + b"\n"
        )


@pytest.mark.parametrize("size", [(80, 24), (60, 18)])
async def test_an_ended_ledger_opens_at_its_end(
    make_app: MakeApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    folder = tui_story.write_story(tmp_path / "work" / "demo", tui_story.story(tasks=12))
    last = len((folder / "token_ledger.jsonl").read_bytes().splitlines()) - 1
    app = make_app(folder)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await pilot.press("3")
        await settle(pilot)
        view = app.screen.query_one(LedgerView)
        assert view.current == str(last)
        assert view.scroll_offset.y == view.max_scroll_y > 0
        shown = "".join(segment.text for segment in view.render_line(view.size.height - 1))
        assert "task-12" in shown
        assert "…" not in view.text()


async def test_bad_lines_are_counted_and_shown(make_app: MakeApp, story_folder: Path) -> None:
    with (story_folder / "token_ledger.jsonl").open("ab") as file:
        file.write(b'{"strategy": "sample_1", "ta\n')
    app = make_app(story_folder, "ledger")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert "! 1 bad line" in app.screen.query_one("#ledger-title", Lines).text()
        assert "! bad line" in app.screen.query_one(LedgerView).text()


async def test_totals_by_strategy_and_by_model_equal_the_file(make_app: MakeApp, story_folder: Path) -> None:
    lines = [json.loads(line) for line in (story_folder / "token_ledger.jsonl").read_bytes().splitlines()]
    app = make_app(story_folder, "ledger")
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        totals = app.screen.query_one("#totals", Rows)
        for row in totals.rows:
            tokens = sum(line["total_tokens"] or 0 for line in lines if line["strategy"] == row.key)
            assert row.cells["total"] == f"{tokens:,}"
        assert [row.key for row in totals.rows] == list(tui_story.STRATEGIES)
        await pilot.press("b")
        await settle(pilot)
        assert [row.key for row in totals.rows] == ["make-believe-1"]


async def test_enter_shows_the_whole_line(make_app: MakeApp, story_folder: Path) -> None:
    app = make_app(story_folder, "ledger")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("home", "enter")
        await pilot.pause()
        shown = app.screen.query_one("#text", Lines).text()
        first = json.loads((story_folder / "token_ledger.jsonl").read_bytes().splitlines()[0])
        assert json.loads(shown) == first
        await pilot.press("q")
        await pilot.pause()
        assert app.is_running
        assert app.pane is not None


@pytest.mark.slow
async def test_a_million_lines_open_in_a_second_and_little_memory(make_app: MakeApp, tmp_path: Path) -> None:
    import resource
    import time

    folder = tui_story.write_story(tmp_path / "work" / "big", until=1)
    tui_story.write_ledger(folder / "token_ledger.jsonl", 1_000_000)
    app = make_app(folder, "run")
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        app.switch_mode("ledger")
        while not app.screen.query(LedgerView) or not app.screen.query_one(LedgerView)._count:
            await pilot.pause(0.005)
        opened = time.perf_counter() - began
        view = app.screen.query_one(LedgerView)
        while view._count < 1_000_000:
            await pilot.pause(0.005)
        await pilot.press("home", "pagedown", "end")
        assert view.current == "999999"
        assert opened < 1.0
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        assert grown < 80, f"{grown:.0f} MB"
