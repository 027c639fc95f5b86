"""The store: private from creation, whole, and kind to what it does not know."""

from __future__ import annotations

import os
import stat
import tomllib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.core.errors import UsageError
from elometer.jobs import profiles as job
from elometer.profiles.model import Key, Profile, parse_boundary
from elometer.profiles.store import Store


def _profile(name: str = "p", **fields: object) -> Profile:
    values: dict[str, object] = {"tool": "codex", "base_url": "https://g.example/api"}
    return Profile(name=name, **{**values, **fields})  # type: ignore[arg-type]


def test_a_missing_store_is_empty_and_the_first_save_is_private(home: Path) -> None:
    old = os.umask(0)
    try:
        with Store.editing() as store:
            assert (store.profiles, store.keys) == ([], {})
            store.add(_profile())
    finally:
        os.umask(old)
    path = home / ".config/elometer/profiles.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_unknown_fields_survive_an_edit(home: Path) -> None:
    text = """
schema = 1
future = "kept"
[keys.a]
source = "env:A_KEY"
owner = "me"
[keys.a.boundary]
max_concurrency = 4
colour = "red"
[[profiles]]
name = "p"
tool = "codex"
base_url = "https://g.example/api"
key = "a"
shelf = [1, 2]
"""
    path = home / "profiles.toml"
    path.write_text(text)
    store = Store.load(path)
    store.edit("p", model="m-1")
    store.save()
    after, before = tomllib.loads(path.read_text()), tomllib.loads(text)
    assert after["profiles"][0].pop("model") == "m-1"
    assert after == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = = 1", "line 1"),
        ('profiles = "p"', "profiles"),
        ('[[profiles]]\nname = "p"\ntool = "claud"\nbase_url = "https://g"', "claud"),
        ("[[profiles]]\nname = 3", "number 1, name"),
        ("schema = 99", "schema"),
    ],
)
def test_a_bad_file_is_named_and_left_alone(home: Path, text: str, told: str) -> None:
    path = home / "profiles.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        Store.load(path)
    assert told in caught.value.evidence
    assert path.read_text() == text


def test_names_are_unique_per_tool_and_two_tools_may_share_one(home: Path) -> None:
    with Store.editing() as store:
        store.add(_profile("same"))
        store.add(_profile("same", tool="claude-code"))
        with pytest.raises(UsageError, match="exists already"):
            store.add(_profile("same"))
        with pytest.raises(UsageError, match="Several profiles"):
            store.profile("same")
        assert store.profile("same", "codex").tool == "codex"


def test_a_key_in_use_is_not_removed_and_an_unknown_one_is_named(home: Path) -> None:
    with Store.editing() as store:
        store.set_key(Key("lab", "env:LAB"))
        store.add(_profile(key="lab"))
        with pytest.raises(UsageError, match="in use"):
            store.remove_key("lab")
        with pytest.raises(UsageError) as caught:
            store.add(_profile("q", key="labb"))
    assert "'lab'" in caught.value.fix


def test_edits_at_once_lose_nothing(home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: job.add_profile(_profile(f"p{n}")), range(16)))
    assert {p.name for p in Store.load().profiles} == {f"p{n}" for n in range(16)}


def test_a_bare_date_lasts_to_the_end_of_its_day_where_the_key_lives() -> None:
    # Berlin is at UTC+2 on that date, so its midnight is 22:00 UTC.
    fields = {"expires_at": "2026-07-01", "timezone": "Europe/Berlin"}
    assert parse_boundary(fields, where="").expires_at == datetime(2026, 7, 1, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed_models": "m"},
        {"daily_budget_tokens": 0},
        {"max_concurrency": True},
        {"expires_at": "tomorrow"},
        {"expires_at": "2026-01-01", "timezone": "Mars/Olympus"},
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        parse_boundary(fields, where="[keys.a.boundary]")


def test_presets_are_all_valid_and_share_one_key(home: Path) -> None:
    for preset in job.presets():
        added = job.add_from_preset(preset.name)
        assert {p.key for p in added} == {preset.name}
    rows = job.list_profiles()
    assert [r.effective_url for r in rows if r.name.startswith("taotoken")] == [
        "https://taotoken.net/api",
        "https://taotoken.net/api/v1",
        "https://taotoken.net/api/v1",
    ]
    assert not [r.name for r in rows for p in r.problems if p.severity == "fail" and p.code != "unresolved"]


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=0, max_size=12)
_VALUE = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(extra=st.dictionaries(_TEXT.map(lambda t: "x-" + t), _VALUE, max_size=4), notes=_TEXT)
def test_what_was_written_is_what_is_read(extra: dict[str, object], notes: str, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("store") / "profiles.toml"
    profile = _profile(notes=notes, env={"CODEX_X": notes}, extra=extra)
    Store(path, [profile], {"k": Key("k", "env:K", extra=extra)}, extra=extra).save()
    again = Store.load(path)
    assert again.profiles == [profile]
    assert (again.keys["k"].extra, again.extra) == (extra, extra)


def test_one_bad_key_does_not_hide_the_others(home: Path) -> None:
    path = home / ".config/elometer/profiles.toml"
    path.parent.mkdir(parents=True)
    rows = "".join(
        f'[[profiles]]\nname = "p{n}"\ntool = "codex"\nbase_url = "https://g"\nkey = "{n}"\nsince = 2026-01-01\n'
        for n in (1, 2, 3)
    )
    path.write_text(
        '[keys.1]\nsource = "nonsense"\n[keys.2]\nsource = "env:X"\n[keys.2.boundary]\nmax_concurrency = "x"\n'
        '[keys.3]\nsource = "cmd:echo sk-0123456789abcdef"\n' + rows
    )
    listed = job.list_profiles()
    assert [row.fingerprint is None for row in listed] == [True, True, False]
    assert {p.code for p in listed[1].problems} >= {"boundary", "unresolved"}
    assert '"since": "2026-01-01"' in job.export_profiles()
