"""Fit: founding columns first, the rest behind a key, and words for what is not resolved."""

from __future__ import annotations

import json
import re
import threading
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
import tui_story
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from test_panes import settle, wait_for
from tests.tui.conftest import MakeApp
from tui_stand_ins import StandIns, made_up_fit

from elometer.rating.fit import FitResult, TokenUse, fit
from elometer.rating.reading import RecordReader
from elometer.rating.records import RecordSet
from elometer.runs.ceilings import Ceiling
from elometer.runs.result import Derived
from elometer.tui import refit
from elometer.tui.curve import ceiling_points, curve_points, key_lines
from elometer.tui.figures import UNKNOWN, with_minus
from elometer.tui.fit_columns import FOUNDING, MORE, ceiling_elo, fit_rows, pages, sentences
from elometer.tui.fit_views import VIEWS, better_lines, rank_lines, sensitivity_lines
from elometer.tui.provenance import source_lines
from elometer.tui.screens.dialogs import TextDialog
from elometer.tui.widgets.elo_plot import EloAxis
from elometer.tui.widgets.lines import Lines
from elometer.tui.widgets.rows import Rows, lay_out


def a_ceiling(rate: float | None) -> Ceiling:
    return Ceiling(
        strategy="oracle_8", k=8, tasks=24, runs=72, calls=576, total_tokens=177_840,
        tokens_per_task_run=2470.0, mean_score=0.9, win_rate_vs_anchor=rate, ties=0, excluded=0,
    )  # fmt: skip


def many_strategies(size: int) -> FitResult:
    """A ring in which each beats the next two and loses to one before: all stand in one component."""
    names = [f"sample_{number}" for number in range(1, size + 1)]
    lines = []
    for task in range(12):
        for at, name in enumerate(names):
            other = names[(at + 1 + task % 3) % size]
            winner, loser = (name, other) if (task + at) % 3 else (other, name)
            lines.append(
                {
                    "experiment_id": "ring", "task": f"t{task}", "run": 1, "winner": winner, "loser": loser,
                    "a": name, "b": other, "outcome": "a" if winner == name else "b",
                }
            )  # fmt: skip
    reader = RecordReader()
    reader.add_jsonl("".join(json.dumps(line) + "\n" for line in lines).encode())
    return fit(reader.finish())


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


def test_prices_across_models_on_local_counts_stay_empty_and_the_pane_says_why() -> None:
    plain = made_up_fit()
    first, *others = [row.strategy for row in plain.strategies]
    charged = {
        (name, f"t{task}", 1): 100.0 + at for task in range(3) for at, name in enumerate([first, *others])
    }
    use = TokenUse(
        charged, {name: 300 + at for at, name in enumerate([first, *others])},
        models={first: {"small"}, **{name: {"large"} for name in others}}, local={first, *others},
        estimated_tokens=dict.fromkeys([first, *others], 300),
    )  # fmt: skip
    found = fit(plain.records, use, plain.options)
    row = fit_rows(found, FOUNDING)[1]
    assert {row.cells[key] for key in ("marginal", "per_run", "interval")} == {"–"}
    assert any("No marginal Elo across large, small" in said for said, _style in sentences(found))


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
        assert with_minus(sentence) in said


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


async def test_each_view_stands_behind_a_key_of_its_own(make_app: MakeApp, story_folder: Path) -> None:
    app = make_app(story_folder, "fit")
    shown = {}
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for key in "vtbri":
            await pilot.press(key)
            await wait_for(pilot, TextDialog)
            await pilot.pause()
            text = app.screen.query_one("#text", Lines).text()
            assert "…" not in text
            shown[key] = text.splitlines()
            await pilot.press("q")
            await pilot.pause()
    assert shown["v"][0].startswith("Elo under other choices")
    assert shown["t"][3].split()[0] == "t0"
    assert shown["b"][0].startswith("P(row better than column)")
    assert shown["r"][0].startswith("Ranks that the data leave open")
    assert shown["i"][0].startswith("Tasks that move sample_16 against sample_1")


def test_choices_are_the_fits_of_those_choices() -> None:
    fit = made_up_fit()
    lines = sensitivity_lines(fit, 95)
    as_fitted = next(line for line in lines if line.startswith("as fitted")).split()[2:]
    assert as_fitted == [f"{row.elo:.1f}" for row in fit.strategies]


def test_better_and_worse_make_a_whole_and_nothing_is_certain() -> None:
    lines = better_lines(made_up_fit(), 95)
    names = lines[2].split()
    cells = {line.split()[0]: line.split()[1:] for line in lines[3:]}
    for row, one in enumerate(names):
        assert cells[one][row] == "·"
        for column, other in enumerate(names[:row]):
            there, back = cells[one][column], cells[other][row]
            if there[0] in "<>":
                assert {there, back} == {">0.99", "<0.01"}
            else:
                assert float(there) + float(back) == pytest.approx(1.0, abs=0.011)


def test_a_rank_line_marks_the_ranks_that_are_open() -> None:
    fit = made_up_fit()
    for row, line in zip(fit.strategies, rank_lines(fit, 95)[3:], strict=False):
        marks = line.split()[2:]
        assert [rank for rank, mark in enumerate(marks, 1) if mark == "━"] == list(
            range(row.rank_lo, row.rank_hi + 1)
        )


@pytest.mark.parametrize("view", list(VIEWS))
def test_views_of_many_strategies_keep_to_the_width(view: str) -> None:
    fit = many_strategies(24)
    _title, lines_of = VIEWS[view]
    lines = lines_of(fit, 52)
    if view in ("sensitivity", "tasks", "better"):
        table = [line for line in lines[2:] if not line.endswith(".") and "cannot" not in line]
        assert max(map(cell_len, table)) <= 52
        for name in fit.records.strategies:
            assert any(name in line for line in lines)


def test_a_ceiling_stands_where_its_win_rate_puts_it_and_is_named() -> None:
    fit = made_up_fit()
    oracle = a_ceiling(10 / 11)
    # Ten to one is 400 Elo: the definition of the scale.
    assert ceiling_elo(fit, oracle) == pytest.approx(fit.strategies[0].elo + 400.0)
    assert ceiling_elo(fit, a_ceiling(1.0)) is None
    points, apart = curve_points(fit), ceiling_points(fit, [oracle, a_ceiling(None)])
    assert [point.name for point in apart] == ["oracle_8"]
    _marks, ((words, _style),) = key_lines(points, apart, 120.412)
    assert "◇ oracle_8: ceiling, outside the fit" in words
    said = [text for text, _style in sentences(fit, Derived([], fit, "", (oracle,)))]
    assert any(text.startswith("Ceiling oracle_8") and "◇" in text for text in said)


async def test_a_ceiling_is_drawn_hollow_beside_the_curve(
    make_app: MakeApp, story_folder: Path, stand_ins: StandIns
) -> None:
    stand_ins.ceilings = (a_ceiling(0.9),)
    app = make_app(story_folder, "fit")
    async with app.run_test(size=(120, 36)) as pilot:
        for _ in range(80):
            await settle(pilot)
            keys = [key.text() for key in app.screen.query("#plot-key").results(Lines)]
            named = any("◇ oracle_8: ceiling" in key for key in keys)
            # The file's fit comes after the live one, and is drawn in a later turn than it is read.
            if named and ">◇<" in app.export_screenshot():
                return
        pytest.fail(
            f"no ceiling was drawn: {keys}, {app.session.beside is not None}, {app.session.fit_version}"
        )


async def test_warnings_without_room_are_counted_above(make_app: MakeApp, story_folder: Path) -> None:
    for size, hidden in ((80, 24), True), ((120, 36), False):
        app = make_app(story_folder, "fit")
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            head = app.screen.query_one("#fit-basis", Lines).text()
            said = app.screen.query_one("#sentence", Lines).text()
            warnings = [style for _text, style in sentences(app.session.fit) if style == "warning"]
        assert ("57 % of the comparisons are ties" in said) is not hidden
        assert (f"! {len(warnings)}: s" in head) is hidden


def test_a_second_token_axis_has_a_column_where_a_cache_was_used() -> None:
    titles = [column.column.title for page in pages(78) for column in page]
    assert "/run uncached" in titles
    no_cache = made_up_fit()
    assert "/run uncached" not in [column.column.title for page in pages(78, no_cache) for column in page]


def test_what_only_the_penalty_keeps_finite_is_no_step() -> None:
    """The founding records: sample_8 lost to the three before it and won nothing of them."""
    pairs = [("1", "2"), ("2", "4"), ("4", "8"), ("8", "16"), ("2", "1"), ("4", "2")]
    found = fit(RecordSet.from_pairs([(f"sample_{a}", f"sample_{b}") for a, b in pairs]))
    rows = {row.key: row.cells for row in fit_rows(found, FOUNDING)}
    assert (rows["sample_8"]["delta"], rows["sample_8"]["resolved"]) == (UNKNOWN, "* open")
    told = "\n".join(source_lines(found, "sample_8", None, Path("/e")))
    assert "* The penalty keeps this number finite" in told
    assert "ΔElo to sample_4: the data do not bound it." in told


async def test_the_fit_follows_finished_blocks_in_a_thread(
    make_app: MakeApp, story_folder: Path, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit that is shown belongs to the blocks that are finished, and is not made where keys are read."""
    monkeypatch.setattr(refit, "FIT_PAUSE_S", 0.0)
    threads: list[int] = []
    few, many = many_strategies(4), many_strategies(5)

    def current_fit(folder: Path) -> FitResult:
        threads.append(threading.get_ident())
        return few if len(threads) == 1 else many

    monkeypatch.setattr(stand_ins, "current_fit", current_fit)
    app = make_app(story_folder, "fit")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await settle(pilot)
        assert (len(threads), app.session.fit) == (1, few)  # no block, no fit
        began = app.session.state.blocks_done
        later = (moment for moment in tui_story.story() if 14 < moment.at <= 20)
        tui_story.write_story(story_folder, later)
        for _ in range(200):
            await settle(pilot)
            if app.session.fit is many:
                break
        assert app.session.state.blocks_done > began
        assert app.session.fit is many
        assert [row.key for row in app.screen.query_one("#fit", Rows).rows] == list(many.records.strategies)
    assert threading.get_ident() not in threads


async def test_one_minus_sign_on_one_screen(make_app: MakeApp, story_folder: Path) -> None:
    app = make_app(story_folder, "fit")
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        await pilot.press("s")
        await wait_for(pilot, TextDialog)
        text = app.screen.query_one("#text", Lines).text()
    assert "−" in text
    assert not re.search(r"(?<![\w.)-])-\d", text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[-3.1, -0.2]", "[−3.1, −0.2]"),
        ("gpt-4 of 2026-11-29, p = 1e-05", "gpt-4 of 2026-11-29, p = 1e-05"),
        ("moved -5 Elo", "moved −5 Elo"),
    ],
)
def test_only_signs_become_minus_signs(text: str, shown: str) -> None:
    assert with_minus(text) == shown


async def test_enter_shows_where_a_row_comes_from(make_app: MakeApp, story_folder: Path) -> None:
    app = make_app(story_folder, "fit")
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        await pilot.press("down", "enter")
        await wait_for(pilot, TextDialog)
        text = app.screen.query_one("#text", Lines).text()
    fit = made_up_fit()
    row = fit.strategies[1]
    attempts = [
        msgspec.json.decode(line) for line in (story_folder / "token_ledger.jsonl").read_bytes().splitlines()
    ]
    mine = [line for line in attempts if line["strategy"] == "sample_2"]
    total = sum(line["total_tokens"] or 0 for line in mine)
    assert f"{len(mine)} lines of" in text
    assert f"= {total:,} tokens" in text
    # 24 tasks x 3 runs x 4 other strategies
    assert "2 Pairs: 288 comparisons in 24 tasks, 72 task-runs" in text
    assert f"= {row.elo:.1f}" in text
    assert f"+{row.delta_elo:.1f}" in text
    assert "$ elometer fit" in text


@given(st.floats(-3000, 3000), st.floats(5, 4000), st.integers(2, 40))
def test_ticks_of_elo_stand_in_rows_of_their_own(low: float, span: float, rows: int) -> None:
    axis = EloAxis(lambda: rows)
    high = low + span
    ticks = axis.get_ticks(low, high)
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)
    assert len(ticks) <= max(1, rows // 2)
    for one, other in pairwise(ticks):
        assert (other - one) / span * rows >= 1.0
    if rows >= 12:
        assert ticks
    for tick, label in zip(ticks, axis.get_labels_for_ticks(ticks), strict=True):
        assert float(label) == pytest.approx(tick, abs=0.05)


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light"])
async def test_the_plot_can_be_drawn_in_the_terminals_own_colours(
    make_app: MakeApp, story_folder: Path, theme: str
) -> None:
    app = make_app(story_folder, "fit")
    async with app.run_test(size=(120, 36)) as pilot:
        app.theme = theme
        for _ in range(50):
            await settle(pilot)
            if "→ tokens per task-run" in app.export_screenshot().replace("&#160;", " "):
                return
        pytest.fail("the plot was not drawn")
