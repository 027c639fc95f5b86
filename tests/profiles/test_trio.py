"""The founding trio file: in and out without a byte's difference, and a difference of one field after one edit."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.core.errors import UsageError
from elometer.jobs import profiles as job
from elometer.profiles import trio
from elometer.profiles.store import Store

REAL = "sk-real-0123456789abcdef"


def _changed_lines(before: str, after: str) -> list[str]:
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]


def test_the_founding_file_goes_through_unchanged_and_its_placeholders_stay_unset(
    home: Path, founding: Path
) -> None:
    text = (founding / "trio.json").read_text()
    report = job.import_profiles(founding / "trio.json")
    assert len(report.unset) == 3 and not report.new_keys
    assert job.export_profiles() == text
    assert job.export_profiles(with_keys=True) == text
    assert job.import_profiles(founding / "trio.json").unchanged == tuple(
        p.name for p in Store.load().profiles
    )


def test_one_key_for_the_whole_trio(home: Path, founding: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = job.import_profiles(founding / "trio.json", key_source="env:TAOTOKEN_API_KEY")
    assert (report.new_keys, report.unset) == (("trio",), ())
    monkeypatch.setenv("TAOTOKEN_API_KEY", REAL)
    assert len({row.fingerprint for row in job.list_profiles()}) == 1
    assert job.export_profiles() == (founding / "trio.json").read_text()
    assert job.export_profiles(with_keys=True) == (founding / "trio.json").read_text().replace(
        "YOUR_API_KEY", REAL
    )
    one = json.loads(job.export_profiles(["taotoken-codex-bt-eval"]))
    assert [p["name"] for p in one["profiles"]] == ["taotoken-codex-bt-eval"]


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"name": "new"}, ['-       "name": "taotoken-codex-bt-eval",', '+       "name": "new",']),
        (
            {"base_url": "https://n/api"},
            ['-       "base_url": "https://taotoken.net/api",', '+       "base_url": "https://n/api",'],
        ),
        ({"model": "m"}, ["-       }", "+       },", '+       "model": "m"']),
        (
            {"key_env": "MY_KEY"},
            ['-         "TAOTOKEN_API_KEY": "YOUR_API_KEY"', '+         "MY_KEY": "YOUR_API_KEY"'],
        ),
    ],
)
def test_an_edited_field_is_the_only_difference(
    home: Path, founding: Path, changes: dict[str, str], lines: list[str]
) -> None:
    job.import_profiles(founding / "trio.json")
    before = job.export_profiles()
    job.edit_profile("taotoken-codex-bt-eval", **changes)
    told = [line.rstrip() for line in _changed_lines(before, job.export_profiles())]
    assert told == lines


def test_real_keys_go_into_the_secret_store_once(home: Path, founding: Path) -> None:
    file = home / "trio.json"
    file.write_text((founding / "trio.json").read_text().replace("YOUR_API_KEY", REAL))
    report = job.import_profiles(file)
    assert report.new_keys == ("taotoken-claude-bt-eval",)
    assert {p.key for p in report.added} == {"taotoken-claude-bt-eval"}
    assert REAL not in (home / ".config/elometer/profiles.toml").read_text()
    assert job.export_profiles(with_keys=True) == file.read_text()
    assert job.export_profiles() == (founding / "trio.json").read_text()


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"ANTHROPIC_AUTH_TOKEN": "YOUR_API_KEY", "OPENAI_API_KEY": "x"}, "OPENAI_API_KEY does not belong"),
        ({"ANTHROPIC_AUTH_TOKEN": "a1", "ANTHROPIC_API_KEY": "b2"}, "two credentials"),
        ({"ANTHROPIC_AUTH_TOKEN": f"Bearer {REAL}"}, "Bearer"),
        ({"ANTHROPIC_AUTH_TOKEN": f"{REAL}\n"}, "line break"),
        ({"ANTHROPIC_BASE_URL": "https://elsewhere", "ANTHROPIC_AUTH_TOKEN": ""}, "differs from"),
        ({"ANTHROPIC_AUTH_TOKEN": "", "MY_SECRET": REAL}, "looks like a credential"),
    ],
)
def test_what_crosses_families_or_is_no_key_is_refused_whole(
    home: Path, env: dict[str, str], told: str
) -> None:
    file = home / "t.json"
    row = {"name": "c", "tool": "claude-code", "base_url": "https://h", "env": env}
    good = {"name": "g", "tool": "codex", "base_url": "https://h", "env": {}}
    file.write_text(json.dumps({"profiles": [good, row]}))
    with pytest.raises(UsageError, match=told) as caught:
        job.import_profiles(file)
    assert REAL not in "".join(caught.value.lines())
    assert Store.load().profiles == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1"),
        ("[]", "profiles"),
        ('{"profiles": [1]}', "profiles[0]"),
        ('{"profiles": [{"name": "a", "tool": "x", "base_url": "u"}]}', "profiles[0]"),
        ('{"profiles": [{"name": "a", "tool": "codex"}]}', "profiles[0]"),
    ],
)
def test_a_file_that_is_none_is_named(home: Path, text: str, told: str) -> None:
    file = home / "t.json"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        job.import_profiles(file)
    assert told in caught.value.evidence
    with pytest.raises(UsageError):
        job.import_profiles(home / "missing.json")


_WORD = st.text("abcdef-1", min_size=1, max_size=6)


@st.composite
def _trio_rows(draw: st.DrawFn) -> dict[str, object]:
    tool = draw(st.sampled_from(["claude-code", "codex", "openai-compatible"]))
    url = f"https://{draw(_WORD)}.example/api"
    pools = {
        "claude-code": {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_MODEL": "m", "CLAUDE_CODE_X": draw(_WORD)},
        "codex": {"CODEX_X": draw(_WORD)},
        "openai-compatible": {"OPENAI_BASE_URL": url, "OPENAI_MODEL": "m", "OPENAI_X": draw(_WORD)},
    }
    key = {
        "claude-code": "ANTHROPIC_AUTH_TOKEN",
        "codex": "K_API_KEY",
        "openai-compatible": "OPENAI_API_KEY",
    }[tool]
    pool = {**pools[tool], key: "YOUR_API_KEY"}
    names = draw(st.permutations(list(pool)))[: draw(st.integers(0, len(pool)))]
    row: dict[str, object] = {"name": draw(_WORD), "tool": tool, "base_url": url}
    row["env"] = {name: pool[name] for name in names}
    if draw(st.booleans()):
        row["notes"] = draw(_WORD)
    row |= draw(st.dictionaries(_WORD.map(lambda w: f"x-{w}"), st.integers() | _WORD, max_size=2))
    return row


@settings(max_examples=150)
@given(
    rows=st.lists(_trio_rows(), max_size=4), extra=st.dictionaries(st.just("x-v"), st.integers(), max_size=1)
)
def test_any_trio_in_the_founding_layout_goes_through_unchanged(
    rows: list[dict[str, object]], extra: dict[str, int]
) -> None:
    text = json.dumps({"profiles": rows, **extra}, indent=2, ensure_ascii=False) + "\n"
    read = trio.parse(text.encode())
    assert trio.export([entry.profile for entry in read.entries], None, read.extra) == text
