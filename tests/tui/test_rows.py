"""Columns that drop away, and one repainted region per changed row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.geometry import Region

from elometer.tui.widgets.lines import fit_cells, wrapped
from elometer.tui.widgets.rows import Column, Row, Rows, lay_out

COLUMNS = (
    Column("name", "name", 6, "left", grow=4),
    Column("big", "big", 8, drop=2),
    Column("small", "small", 5, drop=1),
    Column("last", "last", 4),
)


def test_the_highest_drop_goes_first_and_zero_never() -> None:
    def shown(width: int) -> list[str]:
        return [column.key for column, _ in lay_out(COLUMNS, width)]

    assert shown(26) == ["name", "big", "small", "last"]
    assert shown(25) == ["name", "small", "last"]
    assert shown(16) == ["name", "last"]
    assert shown(3) == ["name", "last"]


def test_what_is_left_over_goes_to_the_growing_column_up_to_its_limit() -> None:
    assert {column.key: width for column, width in lay_out(COLUMNS, 28)}["name"] == 8
    assert {column.key: width for column, width in lay_out(COLUMNS, 80)}["name"] == 10


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs", "Mn", "Me", "Cf"]), max_size=30),
    st.integers(1, 20),
)
def test_a_cell_is_as_wide_as_its_column_whatever_the_script(text: str, width: int) -> None:
    assert cell_len(fit_cells(text, width)) == width
    assert cell_len(fit_cells(text, width, "right")) == width


class TableApp(App[None]):
    def __init__(self, cursor: bool) -> None:
        super().__init__()
        self.cursor = cursor

    def get_theme_variable_defaults(self) -> dict[str, str]:
        from elometer.tui.themes import row_variables

        return row_variables(self.current_theme, self.current_theme.to_color_system().generate())

    def compose(self) -> ComposeResult:
        yield Rows(COLUMNS, cursor=self.cursor)


def rows(*numbers: int) -> list[Row]:
    return [Row(f"r{at}", {"name": f"r{at}", "last": str(number)}) for at, number in enumerate(numbers)]


async def test_only_changed_rows_are_repainted(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TableApp(cursor=False)
    async with app.run_test(size=(40, 12)) as pilot:
        table = app.query_one(Rows)
        table.set_rows(rows(1, 2, 3, 4))
        await pilot.pause()
        seen: list[Any] = []
        monkeypatch.setattr(table, "refresh", lambda *regions, **_: seen.extend(regions))
        table.set_rows(rows(1, 7, 3, 9))
        assert [(region.y, region.height) for region in seen] == [(2, 1), (4, 1)]
        assert all(isinstance(region, Region) and region.x == 0 for region in seen)
        seen.clear()
        table.set_rows(rows(1, 7, 3, 9))
        assert seen == []


async def test_cursor_passes_over_headings_and_stays_with_its_row() -> None:
    app = TableApp(cursor=True)
    async with app.run_test(size=(40, 6)) as pilot:
        table = app.query_one(Rows)
        table.focus()
        table.set_rows(
            [Row("h1", heading="one"), *rows(1, 2), Row("h2", heading="two"), Row("z", {"name": "z"})]
        )
        await pilot.pause()
        assert table.current == "r0"
        await pilot.press("down", "down")
        assert table.current == "z"
        await pilot.press("up")
        assert table.current == "r1"
        table.set_rows([Row("new", {"name": "new"}), *rows(1, 2)])
        assert table.current == "r1"
        await pilot.press("home")
        assert table.current == "new"


async def test_heading_stays_while_rows_scroll_and_the_cursor_is_in_sight() -> None:
    app = TableApp(cursor=True)
    async with app.run_test(size=(40, 6)) as pilot:
        table = app.query_one(Rows)
        table.styles.height = 5
        table.focus()
        table.set_rows([Row(f"r{at}", {"name": f"r{at}"}) for at in range(30)])
        await pilot.pause()
        await pilot.press("end")
        await pilot.pause()
        shown = ["".join(segment.text for segment in table.render_line(y)).split() for y in range(5)]
        assert shown[0][0] == "name"
        assert shown[4][0] == "r29"
        await pilot.press("pageup")
        await pilot.pause()
        shown = ["".join(segment.text for segment in table.render_line(y)).split()[0] for y in range(5)]
        assert table.current in shown


@given(st.text(alphabet="ab /字é-", max_size=60), st.integers(10, 30))
def test_wrapped_lines_keep_to_the_width_and_lose_no_letter(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert all(cell_len(line) <= width for line in lines)
    if cell_len(text) > width:
        assert "".join("".join(lines).split()) == "".join(text.split())
    else:
        assert lines == [text]
