"""Fit: founding columns first, the rest behind a key, and words for what is not resolved."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import MakeApp
from test_panes import settle, wait_for
from tui_stand_ins import made_up_fit

from elometer.tui.figures import UNKNOWN
from elometer.tui.fit_columns import FOUNDING, MORE, fit_rows, pages, sentences
from elometer.tui.screens.dialogs import TextDialog
from elometer.tui.widgets.lines import Lines
from elometer.tui.widgets.rows import Rows, lay_out


def test_founding_columns_fit_80_cells_whole() -> None:
    columns = [quantity.column for quantity in FOUNDING]
    assert len(lay_out(columns, 77)) == len(columns)


@pytest.mark.parametrize("width", [58, 78, 118])
def test_every_further_column_stands_on_one_page(width: int) -> None:
    sets = pages(width)
    further = [
        quantity.column.key for page in sets[1:] for quantity in page if quantity.column.key != "strategy"
    ]
    assert further == [quantity.column.key for quantity in MORE]
    for page in sets[1:]:
        assert len(lay_out([quantity.column for quantity in page], width)) == len(page)


def test_cells_are_the_numbers_of_the_fit() -> None:
    fit = made_up_fit()
    rows = {row.key: row.cells for row in fit_rows(fit, FOUNDING)}
    for strategy in fit.strategies[1:]:
        cells = rows[strategy.strategy]
        assert cells["tokens"] == f"{strategy.total_tokens:,}"
        assert cells["elo"] == f"{strategy.elo:.1f}"
        assert float(cells["delta"].replace("−", "-")) == pytest.approx(strategy.delta_elo, abs=0.05)
        assert float(cells["marginal"]) == pytest.approx(strategy.marginal_elo_per_1k, abs=0.005)
    assert rows["sample_1"]["delta"] == ""


def test_what_would_resolve_is_said_for_each_open_step() -> None:
    fit = made_up_fit()
    said = [text for text, _style in sentences(fit)]
    for row in fit.strategies[1:]:
        wanted = any(
            text.startswith(f"? {row.strategy}:") and f"{row.tasks_needed:,}" in text for text in said
        )
        assert wanted is not row.resolved
    for sentence in fit.returns:
        assert sentence in said


async def test_m_goes_through_the_columns_and_comes_back(make_app: MakeApp, story_folder: Path) -> None:
    app = make_app(story_folder, "fit")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        table = app.screen.query_one("#fit", Rows)
        first = [column.key for column in table.columns]
        seen = [first]
        for _ in range(len(pages(78)) - 1):
            await pilot.press("m")
            await pilot.pause()
            seen.append([column.key for column in table.columns])
        assert len({tuple(keys) for keys in seen}) == len(seen)
        await pilot.press("m")
        await pilot.pause()
        assert [column.key for column in table.columns] == first


async def test_views_and_tasks_stand_behind_a_key_each(make_app: MakeApp, story_folder: Path) -> None:
    app = make_app(story_folder, "fit")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("v")
        await wait_for(pilot, TextDialog)
        assert "P(row better than column)" in app.screen.query_one("#text", Lines).text()
        await pilot.press("q", "t")
        await wait_for(pilot, TextDialog)
        shown = app.screen.query_one("#text", Lines).text()
        assert [line.split()[0] for line in shown.splitlines()[3:6]] == ["t0", "t1", "t2"]
        assert UNKNOWN not in shown


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light"])
async def test_the_plot_can_be_drawn_in_the_terminals_own_colours(
    make_app: MakeApp, story_folder: Path, theme: str
) -> None:
    app = make_app(story_folder, "fit")
    async with app.run_test(size=(120, 36)) as pilot:
        app.theme = theme
        for _ in range(50):
            await settle(pilot)
            if "tokens per task-run" in app.export_screenshot().replace("&#160;", " "):
                return
        pytest.fail("the plot was not drawn")
