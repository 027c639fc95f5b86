"""Edits of people's files: our values exactly, every other byte as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tomlkit
from hypothesis import example, given, settings
from hypothesis import strategies as st
from live_file_strategies import OWNED, PLAIN, TEXT, config_files, settings_files, valid_toml

from elometer.profiles.edit.document import BOM, NotEditable, Unreadable
from elometer.profiles.edit.json_env import edit_env, read_env
from elometer.profiles.edit.toml_keys import edit_toml, read_toml

# JSON -------------------------------------------------------------------------------------------------

_CHANGES = st.dictionaries(st.sampled_from(OWNED), st.none() | TEXT, min_size=1, max_size=4)


def _load(data: bytes) -> Any:
    return json.loads(data.decode("utf-8-sig"))


@settings(max_examples=250)
@given(data=settings_files(), changes=_CHANGES)
@example(data=b'{"env":{}}', changes={"ANTHROPIC_MODEL": "m"})
@example(data=b'{"env":{"FOO":"1","ANTHROPIC_MODEL":"m"}}', changes={"ANTHROPIC_MODEL": None})
@example(data=b'{"env":{"ANTHROPIC_MODEL":"a","ANTHROPIC_MODEL":"b"}}', changes={"ANTHROPIC_MODEL": "c"})
def test_only_the_named_variables_change(data: bytes, changes: dict[str, str | None]) -> None:
    before = _load(data)
    after_bytes = edit_env(data, changes)
    after = _load(after_bytes)
    wanted = {**before.get("env", {}), **changes}
    wanted = {k: v for k, v in wanted.items() if not (k in changes and v is None)}
    assert after.get("env", {}) == wanted
    assert [k for k in after if k != "env"] == [k for k in before if k != "env"]
    assert {k: v for k, v in after.items() if k != "env"} == {k: v for k, v in before.items() if k != "env"}
    assert after_bytes.startswith(BOM) == data.startswith(BOM)
    if b"\n" in data:
        assert (b"\r\n" in data) == (b"\r\n" in after_bytes)
        assert after_bytes.count(b"\n") - after_bytes.count(b"\r\n") <= (0 if b"\r\n" in data else 10**6)
    assert read_env(after_bytes) == after.get("env", {})
    # The text around env is the same text, not a new printing of the same values.
    start, end = _around_env(data), _around_env(after_bytes)
    if "env" in before and before["env"] != wanted:
        assert (after_bytes[: end[0]], after_bytes[end[1] :]) == (data[: start[0]], data[start[1] :])


def _around_env(data: bytes) -> tuple[int, int]:
    """Where the value of the last top-level env begins and ends, found with another scanner."""
    text = data.decode()
    decoder, depth, at, place = json.JSONDecoder(), 0, 0, (0, 0)
    while at < len(text):
        mark = text[at]
        if mark == '"':
            word, end = decoder.raw_decode(text, at)
            colon = end
            while colon < len(text) and text[colon] in " \t\r\n":
                colon += 1
            if depth == 1 and word == "env" and text[colon : colon + 1] == ":":
                begin = colon + 1
                while text[begin] in " \t\r\n":
                    begin += 1
                _value, finish = decoder.raw_decode(text, begin)
                place = (len(text[:begin].encode()), len(text[:finish].encode()))
            at = end
            continue
        depth += (mark in "{[") - (mark in "}]")
        at += 1
    return place


@settings(max_examples=100)
@given(data=settings_files(), changes=_CHANGES)
def test_an_edit_that_says_what_is_there_changes_no_byte(data: bytes, changes: dict[str, str | None]) -> None:
    once = edit_env(data, changes)
    assert edit_env(once, changes) == once


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"env":{},}', "line 1, column 11"),
        ('{// c\n"env":{}}', "line 1, column 2"),
        ('{"a": 1\n "b": 2}', "line 2, column 2"),
        ('{"a": tru', "line 1, column 7"),
        ('{"a": NaN}', "line 1, column 7"),
        ('{"a": 1} x', "line 1, column 10"),
        ("[1]", "line 1, column 1"),
        ('{"env": [1]}', "line 1, column 9"),
        ('{"env": null}', "line 1, column 9"),
        ('{"a": "x\ny"}', "line 1, column 9"),
    ],
)
def test_what_claude_code_ignores_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(Unreadable) as caught:
        edit_env(text.encode(), {"ANTHROPIC_MODEL": "m"})
    assert caught.value.where == place


def test_bytes_that_are_not_utf8_are_refused_with_their_place() -> None:
    with pytest.raises(Unreadable) as caught:
        edit_env(b'{\n "a": "\xff"}', {"X": "1"})
    assert caught.value.where == "line 2, column 8"


def test_an_empty_file_becomes_a_whole_one_and_keeps_its_mark() -> None:
    assert _load(edit_env(b"", {"A": "1"})) == {"env": {"A": "1"}}
    assert edit_env(BOM + b"\n", {"A": "1"}).startswith(BOM + b"{\n")
    assert edit_env(b" ", {"A": None}) == b" "


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        (
            '{\n    "env": {\n        "A": "1"\n    }\n}\n',
            {"B": "2"},
            '{\n    "env": {\n        "A": "1",\n        "B": "2"\n    }\n}\n',
        ),
        ('{"a":1}', {"B": "2"}, '{"a":1,"env":{"B":"2"}}'),
        ('{"a": 1}', {"B": "2"}, '{"a": 1, "env": {"B": "2"}}'),
        ('{\n  "a": 1\n}\n', {"B": "2"}, '{\n  "a": 1,\n  "env": {\n    "B": "2"\n  }\n}\n'),
        ('{\n\t"env": {}\n}\n', {"B": "2"}, '{\n\t"env": {\n\t\t"B": "2"\n\t}\n}\n'),
        ('{ "env": { "A":"1", "B":"2" } }', {"A": None}, '{ "env": { "B":"2" } }'),
        ('{"env": {"A": "1", "B": "2"}}', {"B": None, "A": "x"}, '{"env": {"A": "x"}}'),
        ('{"env": {"A": "\\u0031"}}', {"A": "1"}, '{"env": {"A": "\\u0031"}}'),
    ],
)
def test_new_text_takes_the_file_s_own_style(before: str, changes: dict[str, str | None], after: str) -> None:
    assert edit_env(before.encode(), changes).decode() == after


# TOML -------------------------------------------------------------------------------------------------

_ROOT = st.fixed_dictionaries({"model_provider": PLAIN}, optional={"model": st.none() | PLAIN})
_TABLE = st.fixed_dictionaries({"name": PLAIN, "base_url": PLAIN}, optional={"env_key": st.just("K_1")})


@settings(max_examples=250)
@given(data=config_files().filter(valid_toml), root=_ROOT, table=_TABLE)
def test_only_the_named_toml_keys_change(
    data: bytes, root: dict[str, str | None], table: dict[str, str | None]
) -> None:
    after_bytes = edit_toml(data, root, ("model_providers", "ours"), table)
    before, after = read_toml(data), read_toml(after_bytes)
    # An independent reader sees the same document.
    other = tomlkit.parse(after_bytes.decode("utf-8-sig")).unwrap()
    assert repr(other.get("model_provider")) == repr(after["model_provider"])
    for name, value in root.items():
        assert after.get(name) == value
    ours = after["model_providers"].pop("ours")
    kept = before.get("model_providers", {}).pop("ours", {})
    assert ours == {**kept, **table}
    for tree in (before, after):
        for name in root:
            tree.pop(name, None)
        if not tree.get("model_providers", True):
            del tree["model_providers"]
    assert repr(_ordered(after)) == repr(_ordered(before))
    assert after_bytes.startswith(BOM) == data.startswith(BOM)
    first = data.find(b"\n")
    if first > 0 and data[first - 1 : first] == b"\r":
        assert b"\n" not in after_bytes.replace(b"\r\n", b"")
    # Lines that are not ours are there as they were, in their order.
    ours_lines = ("model", '"model"', "name", "base_url", "env_key", "[model_providers.ours]")
    mine = [line for line in data.decode("utf-8-sig").splitlines() if not line.startswith(ours_lines)]
    rest = iter(after_bytes.decode("utf-8-sig").splitlines())
    assert all(line in rest for line in mine if line.strip())
    assert edit_toml(after_bytes, root, ("model_providers", "ours"), table) == after_bytes


def _ordered(tree: Any) -> Any:
    return {k: _ordered(tree[k]) for k in sorted(tree)} if isinstance(tree, dict) else tree


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('a = 1\ncommand="C:\\W\\x.exe"\n', "line 2, column 12"),
        ("a = 1\na = 2\n", "line 2, column 6"),
        ("[t]\n[t]\n", "line 2, column 3"),
        ("a = [1", "line 1, column 7"),
    ],
)
def test_what_codex_refuses_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(Unreadable) as caught:
        edit_toml(text.encode(), {"model": "m"})
    assert caught.value.where == place


def test_root_keys_go_above_the_first_table_not_into_it() -> None:
    # Behind a header, model_provider would be swallowed by that table and Codex would use its built-in one.
    text = b'[mcp_servers.r]\nurl = "u"'
    after = edit_toml(text, {"model_provider": "p"}, ("model_providers", "p"), {"name": "n"})
    assert after == b'model_provider = "p"\n[mcp_servers.r]\nurl = "u"\n\n[model_providers.p]\nname = "n"\n'


def test_a_comment_behind_a_changed_value_stays() -> None:
    assert edit_toml(b"model = 'a' # mine\r\n", {"model": "b"}) == b'model = "b" # mine\r\n'


def test_a_layout_without_a_place_is_refused() -> None:
    with pytest.raises(NotEditable):
        edit_toml(b"model_providers = { a = { name = 'x' } }\n", {}, ("model_providers", "p"), {"name": "n"})
