"""Profiles: store and presets in sight, a profile added by the form, no key value anywhere."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from rich.cells import cell_len
from test_panes import settle, wait_for
from tests.tui.conftest import MakeApp
from textual.widgets import Input, Select

from elometer.core.clock import timestamp, utc_now
from elometer.core.limits import Boundary
from elometer.core.paths import data_folder
from elometer.core.redact import Secret
from elometer.jobs.profiles import list_profiles, presets
from elometer.profiles.model import Profile
from elometer.profiles.secrets import fingerprint
from elometer.tui.app import ElometerApp
from elometer.tui.profile_rows import boundary_text, expiry_text
from elometer.tui.screens.dialogs import Question, TextDialog
from elometer.tui.screens.preview import PreviewDialog
from elometer.tui.screens.profile_form import ProfileForm
from elometer.tui.screens.profiles import TOOLS
from elometer.tui.terminal import Terminal
from elometer.tui.verbs import Verbs
from elometer.tui.widgets.lines import Lines
from elometer.tui.widgets.rows import Rows


def real_app() -> ElometerApp:
    return ElometerApp(None, verbs=Verbs(), terminal=Terminal(), first="profiles")


def store(verbs: Verbs, name: str, tool: str = "codex", url: str = "https://gateway.example/api") -> None:
    verbs.add_profile(tool=tool, name=name, base_url=url, key="eval", key_source="env:EVAL_KEY", model="m-1")


async def test_presets_are_offered_with_the_url_that_each_tool_is_given() -> None:
    app = real_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        cells = {row.key: row.cells for row in app.screen.query_one("#profiles", Rows).rows}
        profiles = [profile for preset in presets() for profile in preset.profiles]
        assert len(profiles) >= 7
        assert data_folder("sample_profiles").is_dir()
        for profile in profiles:
            assert cells[f"preset:{profile.tool}:{profile.name}"]["url"] == profile.effective_url


async def test_store_stands_by_tool_and_the_filter_narrows_it() -> None:
    for tool in ("codex", "claude-code"):
        store(Verbs(), f"mine-{tool}", tool)
    app = real_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        table = app.screen.query_one("#profiles", Rows)
        assert [row.key for row in table.rows][:4] == [
            "heading:claude-code", "store:claude-code:mine-claude-code", "heading:codex", "store:codex:mine-codex",
        ]  # fmt: skip
        cells = {row.key: row.cells for row in table.rows}
        assert cells["store:claude-code:mine-claude-code"]["url"] == "https://gateway.example/api"
        assert cells["store:codex:mine-codex"]["url"] == "https://gateway.example/api/v1"
        await pilot.press("slash", *"mine codex")
        await settle(pilot)
        assert [row.key for row in table.rows] == ["heading:codex", "store:codex:mine-codex"]
        await pilot.press("enter", "escape")
        await settle(pilot)
        assert len(table.rows) > 4


async def test_form_saves_what_was_typed() -> None:
    app = real_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("a")
        await pilot.pause()
        form = app.screen
        form.query_one("#tool", Select).value = "codex"
        for name, text in (
            ("name", "gateway-cx"), ("base_url", "https://gateway.example"), ("key", "eval"),
            ("key_source", "env:EVAL_KEY"), ("model", "m-1"),
        ):  # fmt: skip
            form.query_one(f"#{name}", Input).value = text
        await pilot.pause()
        assert "codex is given  https://gateway.example/v1" in form.query_one("#effective", Lines).text()
        await pilot.press("f2")
        await settle(pilot)
        (row,) = list_profiles()
        assert (row.name, row.tool, row.base_url) == ("gateway-cx", "codex", "https://gateway.example")
        assert (row.key_label, row.model) == ("eval", "m-1")
        shown = app.screen.query_one("#profiles", Rows).text()
        assert "gateway-cx" in shown


async def test_form_says_what_keeps_a_profile_out_and_loses_nothing() -> None:
    app = real_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("a")
        await pilot.pause()
        form = app.screen
        form.query_one("#base_url", Input).value = "not a url"
        await pilot.press("f2")
        await pilot.pause()
        assert app.screen is form
        assert form.query_one("#problems", Lines).text().strip()
        assert form.query_one("#base_url", Input).value == "not a url"
        assert list_profiles() == []
        await pilot.press("f10")
        await settle(pilot)
        assert app.pane is not None


async def test_a_key_value_typed_as_a_source_is_refused_and_stays_out_of_every_file(home: Path) -> None:
    value = "sk-planted-0123456789abcdef"
    app = real_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("a")
        await pilot.pause()
        form = app.screen
        for name, text in (
            ("name", "leaky"),
            ("base_url", "https://gateway.example"),
            ("key", "eval"),
            ("key_source", value),
        ):
            form.query_one(f"#{name}", Input).value = text
        await pilot.press("f2")
        await settle(pilot)
        assert app.screen is form
        assert value not in form.query_one("#problems", Lines).text()
    assert holding(home, value) == []


def holding(folder: Path, value: str) -> list[Path]:
    """Files below a folder that hold a value."""
    return [path for path in folder.rglob("*") if path.is_file() and value.encode() in path.read_bytes()]


CONFIG = '# mine\nmodel = "old"\n\n[tui]\ntheme = "dark"\n'


async def test_switch_shows_the_difference_asks_and_can_be_taken_back(home: Path) -> None:
    config = home / "home" / "codex" / "config.toml"
    config.write_text(CONFIG)
    store(Verbs(), "gateway-cx")
    app = real_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert app.screen.query_one("#profiles", Rows).current == "store:codex:gateway-cx"
        await pilot.press("D")
        await wait_for(pilot, PreviewDialog)
        await pilot.press("y", "n")
        await settle(pilot)
        assert config.read_text() == CONFIG, "looking writes nothing"

        await pilot.press("enter")
        await wait_for(pilot, PreviewDialog)
        shown = app.screen.query_one("#changes", Lines).text()
        assert "https://gateway.example/api/v1" in shown
        assert "- model = " in shown
        await pilot.press("n")
        await settle(pilot)
        assert config.read_text() == CONFIG, "no means no"

        await pilot.press("enter")
        await wait_for(pilot, PreviewDialog)
        await pilot.press("y")
        await settle(pilot)
        assert "https://gateway.example/api/v1" in config.read_text()
        assert config.read_text().startswith("# mine\n")
        row = next(
            row for row in app.screen.query_one("#profiles", Rows).rows if row.key.startswith("store:")
        )
        assert row.cells["active"] == "●!", "live, and its key is not set here"
        assert ("cx", "gateway-cx") in app.active_profiles

        await pilot.press("u")
        await wait_for(pilot, PreviewDialog)
        await pilot.press("y")
        await settle(pilot)
        assert config.read_text() == CONFIG


async def test_delete_asks_and_leaves_the_key() -> None:
    from elometer.profiles.store import Store

    store(Verbs(), "gateway-cx")
    app = real_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("d")
        await wait_for(pilot, Question)
        await pilot.press("n")
        await settle(pilot)
        assert len(list_profiles()) == 1
        await pilot.press("d")
        await wait_for(pilot, Question)
        await pilot.press("y")
        await settle(pilot)
        assert list_profiles() == []
        assert list(Store.load().keys) == ["eval"]


async def test_edit_changes_only_what_was_changed_and_copy_adds_a_name() -> None:
    store(Verbs(), "gateway-cx")
    app = real_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("e")
        await wait_for(pilot, ProfileForm)
        assert app.screen.query_one("#name", Input).disabled
        app.screen.query_one("#base_url", Input).value = "https://other.example"
        await pilot.press("f2")
        await settle(pilot)
        (row,) = list_profiles()
        assert (row.name, row.base_url, row.key_label, row.model) == (
            "gateway-cx", "https://other.example", "eval", "m-1",
        )  # fmt: skip
        await pilot.press("c", "c")
        await settle(pilot)
        names = {row.name for row in list_profiles()}
        assert {"gateway-cx", "gateway-cx-2"} <= names


async def test_launch_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVAL_KEY", raising=False)
    store(Verbs(), "gateway-cx")
    app = real_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("o")
        await settle(pilot)
        (notice,) = app._notifications
        assert notice.severity == "error"
        assert "EVAL_KEY" in f"{notice.title} {notice.message}"


async def test_drift_tells_what_each_tool_lives_by() -> None:
    app = real_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("v")
        await wait_for(pilot, TextDialog)
        shown = app.screen.query_one("#text", Lines).text()
        for tool in ("claude-code", "codex"):
            assert f"{tool}: " in shown


async def test_two_hundred_profiles_at_80x24(make_app: MakeApp) -> None:
    from elometer.profiles.store import Store

    with Store.editing() as edited:
        for at in range(200):
            edited.add(Profile(name=f"p{at:03}", tool="codex", base_url="https://gateway.example"))
    app = real_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        table = app.screen.query_one("#profiles", Rows)
        assert sum(row.key.startswith("store:") for row in table.rows) == 200
        await pilot.press("pagedown", "pagedown")
        await asyncio.sleep(0)
        assert (table.current or "").startswith("store:codex:p0")


NOW = datetime(2026, 11, 29, tzinfo=UTC)


def test_boundary_shows_only_what_is_set_and_the_countdown_first() -> None:
    full = Boundary(("a", "b"), 200_000, 4, datetime(2026, 12, 11, 3, tzinfo=UTC))
    assert boundary_text(full, NOW) == "in 12 d 3 h 4∥ 200k/d 2 models"
    assert boundary_text(Boundary(), NOW) == "–"


@pytest.mark.parametrize(
    ("expires", "words"),
    [
        (datetime(2026, 12, 2, 4, 59, tzinfo=UTC), "in 3 d 4 h"),
        (datetime(2026, 11, 29, 4, 12, tzinfo=UTC), "in 4 h 12 min"),
        (datetime(2026, 11, 29, 0, 0, 59, tzinfo=UTC), "in 0 min"),
        (NOW, "expired 0 min ago"),
        (datetime(2026, 11, 17, tzinfo=UTC), "expired 12 d 0 h ago"),
        # The same moment in another zone of the earth.
        (datetime(2026, 12, 2, 12, 59, tzinfo=timezone(timedelta(hours=8))), "in 3 d 4 h"),
    ],
)
def test_expiry_is_a_countdown(expires: datetime, words: str) -> None:
    assert expiry_text(expires, NOW) == words


def many_profiles(tmp_path: Path, count: int) -> None:
    """A store of profiles whose keys spent something today."""
    text = "".join(
        f'[keys.k{n}]\nsource = "env:EVAL_KEY_{n % 3}"\n'
        f'[keys.k{n}.boundary]\nallowed_models = ["m"]\ndaily_budget_tokens = 90000\n'
        f"expires_at = {'2020-01-01' if n % 2 else '2999-01-01'}T00:00:00Z\n"
        for n in range(count)
    ) + "".join(
        f'[[profiles]]\nname = "gateway-{n:03}"\ntool = "{TOOLS[n % 3]}"\n'
        f'base_url = "https://gateway-{n}.example/a/long/prefix"\nkey = "k{n}"\nmodel = "m"\n'
        for n in range(count)
    )
    folder = tmp_path / "config" / "elometer"
    folder.mkdir(parents=True)
    (folder / "profiles.toml").write_text(text)


async def test_two_hundred_profiles_at_80x24_with_what_each_key_spent_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_profiles(tmp_path, 200)
    for n in range(3):
        monkeypatch.setenv(f"EVAL_KEY_{n}", f"sk-unit-{n}-0123456789abcdef")
    line = {
        "experiment_id": "e", "strategy": "s", "task": "t", "run": 1, "model": "m", "prompt_tokens": 100,
        "completion_tokens": 400, "total_tokens": 500, "timestamp": timestamp(),
        "key_fp": fingerprint(Secret("sk-unit-1-0123456789abcdef")),
    }  # fmt: skip
    yesterday = {**line, "timestamp": timestamp(utc_now() - timedelta(days=1))}
    ledger = tmp_path / "work" / "e" / "token_ledger.jsonl"
    ledger.parent.mkdir(parents=True)
    ledger.write_text("".join(json.dumps(one) + "\n" for one in (yesterday, line, line)))
    app = real_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        table = app.screen.query_one("#profiles", Rows)
        cells = {row.key.rpartition(":")[2]: row.cells for row in table.rows if row.key.startswith("store:")}
        assert len(cells) == 200
        for n in range(200):
            mine = cells[f"gateway-{n:03}"]
            assert mine["today"] == ("1.0k/90.0k" if n % 3 == 1 else "0/90.0k")
            assert mine["boundary"].startswith("expired" if n % 2 else "in ")
        await pilot.press("end")
        await settle(pilot)
        await pilot.press(*["up"] * len([row for row in table.rows if row.key.startswith("preset:")]))
        await settle(pilot)
        assert table.current == "store:openai-compatible:gateway-197"
        shown = app.export_screenshot()
        assert "gateway-197" in shown
        assert "tokens" in app.screen.query_one("#detail", Lines).text()
        lines = table.text().splitlines()
        assert max(map(cell_len, lines)) <= 78
        await pilot.press("slash", *"gateway-123")
        await settle(pilot)
        assert [row.key for row in table.rows if not row.heading] == ["store:claude-code:gateway-123"]
