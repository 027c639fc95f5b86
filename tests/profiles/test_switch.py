"""Switch, diff, undo, drift over whole files: bytes and mode come back, and only our fields ever change."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from live_file_strategies import config_files, settings_files, valid_toml

from elometer.core.errors import AccessError, UsageError
from elometer.jobs import profiles as job
from elometer.profiles.model import Key, Profile
from elometer.profiles.store import Store

KEY_A = "sk-A-0123456789abcdef"
KEY_B = "sk-B-fedcba9876543210"


def _setup(*profiles: Profile) -> None:
    with Store.editing() as store:
        for label, variable in (("a", "A_KEY"), ("b", "B_KEY")):
            store.set_key(Key(label, f"env:{variable}"))
        for profile in profiles:
            store.add(profile)


def _claude(name: str, key: str = "a", **fields: object) -> Profile:
    return Profile(name=name, tool="claude-code", base_url=f"https://{name}.example", key=key, **fields)  # type: ignore[arg-type]


def _codex(name: str, key: str = "a", **fields: object) -> Profile:
    values: dict[str, object] = {"key_env": f"{name.upper()}_KEY", **fields}
    return Profile(name=name, tool="codex", base_url=f"https://{name}.example", key=key, **values)  # type: ignore[arg-type]


@pytest.fixture
def keys(home: Path, quick_disk: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("A_KEY", KEY_A)
    monkeypatch.setenv("B_KEY", KEY_B)
    return home


def _switch(name: str) -> job.Preview:
    preview = job.preview_switch(name)
    job.apply(preview)
    return preview


def _undo() -> None:
    job.apply(job.preview_undo())


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _fresh(home: Path) -> None:
    shutil.rmtree(home)
    home.mkdir(mode=0o700)


SLOW_FIXTURE = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@SLOW_FIXTURE
@given(data=settings_files(), mode=st.sampled_from([0o600, 0o644, 0o664, 0o640]))
def test_two_switches_and_two_undos_give_the_same_settings_back(data: bytes, mode: int, keys: Path) -> None:
    _fresh(keys)
    _setup(_claude("one", model="m-1"), _claude("two", key="b", key_env="ANTHROPIC_API_KEY"))
    path = keys / ".claude/settings.json"
    path.parent.mkdir()
    path.write_bytes(data)
    path.chmod(mode)
    _switch("one")
    env = json.loads(path.read_bytes().decode("utf-8-sig"))["env"]
    assert (env["ANTHROPIC_BASE_URL"], env["ANTHROPIC_AUTH_TOKEN"]) == ("https://one.example", KEY_A)
    assert env["ANTHROPIC_MODEL"] == env["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == "m-1"
    assert "ANTHROPIC_API_KEY" not in env
    _switch("two")
    env = json.loads(path.read_bytes().decode("utf-8-sig"))["env"]
    assert (env["ANTHROPIC_BASE_URL"], env["ANTHROPIC_API_KEY"]) == ("https://two.example", KEY_B)
    assert "ANTHROPIC_AUTH_TOKEN" not in env
    # A model that only the first profile wanted goes back to what the user had.
    # (as text: a null of the user's means an empty variable to the client too).
    before = json.loads(data.decode("utf-8-sig")).get("env", {})
    had = before.get("ANTHROPIC_MODEL", "")
    assert env.get("ANTHROPIC_MODEL", "") == ("" if had is None else str(had))
    assert _mode(path) == mode & 0o700
    _undo()
    _undo()
    assert path.read_bytes() == data
    assert _mode(path) == mode


@SLOW_FIXTURE
@given(data=config_files().filter(valid_toml), mode=st.sampled_from([0o600, 0o644, 0o664]))
def test_two_switches_and_two_undos_give_the_same_config_back(data: bytes, mode: int, keys: Path) -> None:
    _fresh(keys)
    _setup(_codex("one", model="m-1"), _codex("two", key="b", provider_id="shared"))
    path = keys / ".codex/config.toml"
    path.parent.mkdir()
    path.write_bytes(data)
    path.chmod(mode)
    _switch("one")
    _switch("two")
    config = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    assert config["model_provider"] == "shared"
    assert config["model_providers"]["shared"] == {
        "name": "two",
        "base_url": "https://two.example/v1",
        "env_key": "TWO_KEY",
        "wire_api": "responses",
    }
    assert config["model_providers"]["one"]["base_url"] == "https://one.example/v1"
    assert config.get("model") == tomllib.loads(data.decode("utf-8-sig")).get("model")
    assert _mode(path) == mode
    assert KEY_A.encode() not in path.read_bytes()
    _undo()
    _undo()
    assert path.read_bytes() == data
    assert _mode(path) == mode


def test_a_file_that_was_not_there_is_made_private_and_goes_away_again(keys: Path) -> None:
    _setup(_claude("one"), _codex("two"))
    old = os.umask(0)
    try:
        _switch("one")
        _switch("two")
    finally:
        os.umask(old)
    made = [keys / ".claude/settings.json", keys / ".codex/config.toml"]
    assert [_mode(path) for path in made] == [0o600, 0o600]
    assert [_mode(path.parent) for path in made] == [0o700, 0o700]
    _undo()
    _undo()
    assert [path.exists() for path in made] == [False, False]


def test_undo_goes_newest_first_over_all_tools(keys: Path) -> None:
    openai = Profile(name="o", tool="openai-compatible", base_url="https://o.example", key="a")
    _setup(_claude("one"), _codex("two"), openai)
    for name in ("one", "o", "two"):
        _switch(name)
    assert Store.load().default == "o"
    assert job.preview_undo().plan.profile == "two"
    _undo()
    _undo()
    assert Store.load().default is None
    _undo()
    with pytest.raises(UsageError, match="no switch"):
        job.preview_undo()


def test_edits_made_since_survive_an_undo(keys: Path) -> None:
    path = keys / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text('{"env": {"ANTHROPIC_BASE_URL": "https://mine", "FOO": "1"}}')
    _setup(_claude("one"))
    _switch("one")
    settings_now = json.loads(path.read_text())
    settings_now["permissions"] = {"allow": ["Bash"]}
    settings_now["env"]["BAR"] = "2"
    path.write_text(json.dumps(settings_now))
    _undo()
    assert json.loads(path.read_text()) == {
        "env": {"ANTHROPIC_BASE_URL": "https://mine", "FOO": "1", "BAR": "2"},
        "permissions": {"allow": ["Bash"]},
    }


def test_a_value_someone_else_changed_since_stays_and_is_named(keys: Path) -> None:
    _setup(_claude("one"))
    _switch("one")
    path = keys / ".claude/settings.json"
    path.write_text(path.read_text().replace("https://one.example", "https://theirs"))
    preview = job.preview_undo()
    assert any("ANTHROPIC_BASE_URL" in note for note in preview.plan.notes)
    job.apply(preview)
    assert json.loads(path.read_text())["env"] == {"ANTHROPIC_BASE_URL": "https://theirs"}


def test_a_plan_is_not_carried_out_on_a_file_that_moved_on(keys: Path) -> None:
    _setup(_claude("one"))
    preview = job.preview_switch("one")
    path = keys / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text("{}")
    with pytest.raises(UsageError, match="changed while"):
        job.apply(preview)
    assert path.read_text() == "{}"
    assert sorted(p.name for p in path.parent.iterdir()) == ["settings.json"]
    with pytest.raises(UsageError, match="no switch"):
        job.preview_undo()


def test_a_plan_made_before_another_switch_is_refused(keys: Path) -> None:
    _setup(_claude("one"), _claude("two", key="b"))
    first, second = job.preview_switch("one"), job.preview_switch("two")
    job.apply(first)
    with pytest.raises(UsageError, match="in between"):
        job.apply(second)


def test_the_pristine_copy_outlives_all_undos(keys: Path) -> None:
    path = keys / ".claude/settings.json"
    path.parent.mkdir()
    path.write_bytes(b'{ "x" : 1 }')
    _setup(_claude("one"), _claude("two", key="b"))
    _switch("one")
    _switch("two")
    _undo()
    _undo()
    assert job.pristine(str(path)) == b'{ "x" : 1 }'


def test_a_foreign_provider_table_is_not_taken_over(keys: Path) -> None:
    path = keys / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text('[model_providers.one]\nname = "Theirs"\nbase_url = "https://theirs/v1"\n')
    _setup(_codex("one"))
    with pytest.raises(UsageError) as caught:
        job.preview_switch("one")
    assert "--provider-id" in caught.value.fix


def test_the_diff_shows_fingerprints_and_no_part_of_a_key(keys: Path) -> None:
    path = keys / ".claude/settings.json"
    path.parent.mkdir()
    old = "zz-old-key-value-000111222"
    path.write_text(
        json.dumps({"env": {"ANTHROPIC_API_KEY": old, "ANTHROPIC_BASE_URL": f"https://u:{old}@h/p?k={old}"}})
    )
    _setup(_claude("one"))
    preview = job.preview_switch("one")
    shown = repr(preview) + repr(preview.plan.changes)
    for value in (old, KEY_A):
        assert not any(value[i : i + 8] in shown for i in range(len(value) - 7))
    gone = next(change for change in preview.plan.changes if change.field == "env.ANTHROPIC_API_KEY")
    assert (gone.before is not None, gone.after) == (True, None)


def test_no_key_value_lies_anywhere_but_where_it_must(keys: Path) -> None:
    path = keys / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"env": {"ANTHROPIC_API_KEY": "sk-mine-000111222333"}}))
    _setup(_claude("one"), _claude("two", key="b"), _codex("three"))
    job.set_key_source("b", value=KEY_B)
    for name in ("one", "three", "two"):
        _switch(name)
    found: dict[str, set[str]] = {}
    for file in (p for p in keys.rglob("*") if p.is_file()):
        data = file.read_bytes()
        for value in (KEY_A, KEY_B, "sk-mine-000111222333"):
            if value.encode() in data:
                found.setdefault(value, set()).add(str(file.relative_to(keys)))
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file
    assert found == {KEY_B: {".claude/settings.json", ".config/elometer/secrets.toml"}}


def test_a_claude_profile_needs_a_usable_key_and_a_codex_one_says_what_to_export(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _setup(_claude("one", key=None), _codex("two"))  # type: ignore[arg-type]
    with pytest.raises(AccessError, match="no key"):
        job.preview_switch("one")
    preview = job.preview_switch("two")
    assert any("TWO_KEY" in step for step in preview.next_steps)
    monkeypatch.setenv("A_KEY", "YOUR_API_KEY")
    with pytest.raises(AccessError, match="placeholder"):
        job.preview_switch("two")


def test_drift_names_field_file_and_whose_key(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _setup(_claude("one"), _claude("two", key="b"))
    _switch("one")
    claude = next(state for state in job.drift() if state.tool == "claude-code")
    assert (claude.profile, claude.key_labels, claude.drift, claude.overrides) == ("one", ("a",), (), ())
    path = keys / ".claude/settings.json"
    path.write_text(path.read_text().replace(KEY_A, KEY_B))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-stale-in-the-shell")
    (keys / ".claude.json").write_text('{"primaryApiKey": "sk-ant-primary"}')
    project = Path.cwd() / ".claude"
    project.mkdir()
    (project / "settings.json").write_text('{"env": {"ANTHROPIC_BASE_URL": "https://evil"}}')
    (project / "settings.local.json").write_text("{ broken")
    claude = next(state for state in job.drift() if state.tool == "claude-code")
    assert claude.key_labels == ("b",)
    assert claude.base_url == "https://evil"
    assert len(claude.drift) == 1 and "env.ANTHROPIC_AUTH_TOKEN" in claude.drift[0]
    assert str(path) in claude.drift[0]
    told = "\n".join(claude.overrides)
    for part in (
        "primaryApiKey",
        "(shell): ANTHROPIC_API_KEY",
        "settings.local.json",
        "env.ANTHROPIC_BASE_URL",
    ):
        assert part in told
    job.edit_profile("one", model="m-9")
    assert any("changed since the switch" in line for row in job.list_profiles() for line in row.drift)


def test_codex_drift_names_dotenv_and_what_breaks_it(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _setup(_codex("one"))
    path = keys / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text('[model_providers.old]\nname = "o"\nwire_api = "chat"\n')
    before = path.read_text()
    _switch("one")
    assert before in path.read_text()
    monkeypatch.setenv("ONE_KEY", KEY_A)
    (keys / ".codex/.env").write_text(f"ONE_KEY={KEY_B}\n")
    codex = next(state for state in job.drift() if state.tool == "codex")
    assert codex.key_labels == ("b",)
    told = "\n".join(codex.overrides)
    assert "model_providers.old.wire_api" in told
    assert ".env: ONE_KEY" in told
    assert any("beats the shell" in line for line in job.preview_switch("one").warnings)


def test_a_model_that_stays_from_the_file_is_named(keys: Path) -> None:
    path = keys / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text('{"env": {"ANTHROPIC_MODEL": "your-claude-model"}}')
    _setup(_claude("one"))
    assert any("your-claude-model" in line for line in job.preview_switch("one").warnings)


def test_clients_that_are_running_are_named(keys: Path, tmp_path: Path) -> None:
    _setup(_claude("one"), _codex("two"))
    script = tmp_path / "codex"
    script.write_text("import sys; sys.stdin.read()")
    node = tmp_path / "node"
    node.symlink_to(sys.executable)
    claude = tmp_path / "claude"
    claude.symlink_to("/bin/cat")
    started = [
        subprocess.Popen([str(claude)], stdin=subprocess.PIPE),
        subprocess.Popen([str(node), str(script)], stdin=subprocess.PIPE),
    ]
    try:
        for name, process in zip(("one", "two"), started, strict=True):
            assert any(str(process.pid) in step for step in job.preview_switch(name).next_steps)
    finally:
        for process in started:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()


def test_an_expired_key_is_not_switched_to(keys: Path) -> None:
    _setup(_claude("one"))
    with Store.editing() as store:
        store.keys["a"] = Key("a", "env:A_KEY", {"expires_at": "2020-01-01"})
    with pytest.raises(AccessError, match="expired"):
        job.preview_switch("one")
    with pytest.raises(UsageError, match="expired"):
        job.add_key("late", source="env:A_KEY", boundary={"expires_at": "2020-01-01"})


def test_a_hard_link_or_a_closed_folder_is_named_and_nothing_changes(keys: Path, tmp_path: Path) -> None:
    path = keys / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text("{}")
    os.link(path, tmp_path / "other-name")
    _setup(_claude("one"))
    with pytest.raises(UsageError, match="hard links"):
        job.preview_switch("one")
    assert path.read_text() == "{}"


def test_a_table_that_an_undo_left_is_still_ours(keys: Path) -> None:
    _setup(_codex("one"))
    _switch("one")
    path = keys / ".codex/config.toml"
    path.write_text(path.read_text() + "\n[mcp_servers.x]\nurl = 'u'\n")
    _undo()
    config = tomllib.loads(path.read_text())
    assert "model_provider" not in config and "one" in config["model_providers"]
    job.edit_profile("one", base_url="https://moved.example")
    _switch("one")
    assert tomllib.loads(path.read_text())["model_providers"]["one"]["base_url"] == "https://moved.example/v1"


def test_half_a_surrogate_in_the_file_does_no_harm(keys: Path) -> None:
    path = keys / ".claude/settings.json"
    path.parent.mkdir()
    path.write_bytes(b'{"env": {"ANTHROPIC_MODEL": "\\ud800", "X": "\\udfff"}}')
    before = path.read_bytes()
    _setup(_claude("one", model="m"), _claude("two"))
    _switch("one")
    _switch("two")
    assert json.loads(path.read_text())["env"]["ANTHROPIC_MODEL"] == "\ud800"
    _undo()
    _undo()
    assert path.read_bytes() == before


def test_codex_tables_of_names_in_other_scripts_stay_apart() -> None:
    ids = {_codex(name).codex_provider for name in ("测试", "评估", "a.b", "a-b")}
    assert len(ids) == 4
    assert all(i.isascii() and i.strip("-") for i in ids)


def test_headers_are_never_shown_and_never_carry_a_credential(keys: Path) -> None:
    path = keys / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"env": {"ANTHROPIC_CUSTOM_HEADERS": "x-api-key: sk-hidden-000111"}}))
    _setup(_claude("one", env={"ANTHROPIC_CUSTOM_HEADERS": "X-Run: 1"}))
    assert "sk-hidden" not in repr(job.preview_switch("one").plan.changes)
    with pytest.raises(UsageError, match="credential of its own"):
        job.add_profile(_claude("two", env={"ANTHROPIC_CUSTOM_HEADERS": "X-Run: 1\nX-Api-Key: k"}))


def test_a_key_in_a_repository_is_warned_of(keys: Path) -> None:
    target = keys / "dotfiles/settings.json"
    (target.parent / ".git").mkdir(parents=True)
    target.write_text("{}")
    (keys / ".claude").mkdir()
    (keys / ".claude/settings.json").symlink_to(target)
    _setup(_claude("one"))
    assert any("commit" in line for line in job.preview_switch("one").warnings)
