"""Real reports of other switchers as small inputs; the numbers are those of the collection they come from."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from elometer.cli.main import run as run_command
from elometer.core.errors import UsageError
from elometer.jobs import profiles as job
from elometer.profiles import ccswitch
from elometer.profiles.clients import claude_code
from elometer.profiles.model import Key, Profile
from elometer.profiles.store import Store

KEY_A, KEY_B = "sk-A-0123456789abcdef", "sk-B-fedcba9876543210"


@pytest.fixture(autouse=True)
def two_keys(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KEY_OF_A", KEY_A)
    monkeypatch.setenv("KEY_OF_B", KEY_B)
    with Store.editing() as store:
        store.set_key(Key("a", "env:KEY_OF_A"))
        store.set_key(Key("b", "env:KEY_OF_B"))
    return home


def _add(
    name: str, tool: str = "claude-code", key: str | None = "a", url: str = "https://h/api", **more: object
) -> None:
    job.add_profile(Profile(name=name, tool=tool, base_url=url, key=key, **more))  # type: ignore[arg-type]


def _switch(name: str) -> job.Preview:
    preview = job.preview_switch(name)
    job.apply(preview)
    return preview


def _file(path: Path, data: str | bytes, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    path.chmod(mode)
    return path


def _cli(*words: str, capture: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run_command(list(words), open_app=lambda _path: None)
    out = capture.readouterr()
    return code, out.out, out.err


def test_1_other_keys_of_settings_stay(home: Path) -> None:
    text = '{"hooks":{"Stop":[]},"enabledPlugins":{"p@m":true},"env":{"ANTHROPIC_BASE_URL":"https://a","FOO":"1"}}'
    path = _file(home / ".claude/settings.json", text)
    _add("b", url="https://b")
    _switch("b")
    assert path.read_text() == (
        '{"hooks":{"Stop":[]},"enabledPlugins":{"p@m":true},"env":{"ANTHROPIC_BASE_URL":"https://b","FOO":"1",'
        f'"ANTHROPIC_AUTH_TOKEN":"{KEY_A}"}}}}'
    )


def test_2_servers_projects_and_comments_of_config_stay(home: Path) -> None:
    text = (
        '# mine\nmodel = "old" # o\n\n[mcp_servers.r]\nurl="http://127.0.0.1:1/mcp"\nbearer_token_env_var="T"\n'
        '[projects."/w"]\ntrust_level="trusted" # yes\n'
    )
    path = _file(home / ".codex/config.toml", text)
    _add("c", "codex", model="new", key_env="P1_KEY")
    _switch("c")
    assert path.read_text() == (
        text.replace('"old"', '"new"').replace("# o\n", '# o\nmodel_provider = "c"\n')
        + '\n[model_providers.c]\nname = "c"\nbase_url = "https://h/api/v1"\nenv_key = "P1_KEY"\n'
        'wire_api = "responses"\n'
    )


def test_3_a_provider_table_stays_when_its_profile_goes(home: Path) -> None:
    path = home / ".codex/config.toml"
    _add("a", "codex", key_env="A_KEY")
    _add("b", "codex", key_env="B_KEY", key="b")
    _switch("a")
    table = path.read_text()[path.read_text().index("[model_providers.a]") :]
    _switch("b")
    assert table in path.read_text()
    assert tomllib.loads(path.read_text())["model_provider"] == "b"
    job.edit_profile("a", provider_id="stable")
    job.edit_profile("b", provider_id="stable")
    _switch("a")
    _switch("b")
    config = tomllib.loads(path.read_text())
    assert (config["model_provider"], config["model_providers"]["stable"]["env_key"]) == ("stable", "B_KEY")
    assert KEY_A not in path.read_text()


def test_4_an_edit_reads_the_store_and_live_values_are_drift(home: Path) -> None:
    _add("a", url="https://a")
    _add("b", key="b", url="https://b")
    _switch("a")
    path = home / ".claude/settings.json"
    path.write_text(path.read_text().replace("https://a", "https://by-hand"))
    edited = job.edit_profile("b", model="m")
    assert (edited.key, edited.base_url) == ("b", "https://b")
    assert (Store.load().profile("a").base_url, Store.load().profile("a").key) == ("https://a", "a")
    rows = {row.name: row for row in job.list_profiles()}
    assert any("https://by-hand" in line for line in rows["a"].drift)
    assert rows["b"].drift == ()


@pytest.mark.parametrize("order", [("token", "key"), ("key", "token")])
def test_5_one_credential_after_any_switch(home: Path, order: tuple[str, str]) -> None:
    _add("token", key_env="ANTHROPIC_AUTH_TOKEN")
    _add("key", key="b", key_env="ANTHROPIC_API_KEY")
    _file(home / ".claude/settings.json", '{"env":{"ANTHROPIC_AUTH_TOKEN":"x","ANTHROPIC_API_KEY":"y"}}')
    for name in order:
        _switch(name)
        env = json.loads((home / ".claude/settings.json").read_text())["env"]
        assert [n for n in claude_code.CREDENTIALS if n in env] == [Store.load().profile(name).key_env]


def test_6_a_shell_that_settings_beat_is_named_and_exec_goes_round_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _file(home / ".claude/settings.json", '{"env":{"ANTHROPIC_BASE_URL":"https://a"}}')
    _add("p")
    code, out, err = _cli("profile", "env", "p", capture=capsys)
    assert (code, out) == (2, "")
    assert str(path) in err and "env.ANTHROPIC_BASE_URL" in err
    launch = job.prepare("p", ["true"]).launch
    assert launch.env["CLAUDE_CONFIG_DIR"] != str(path.parent)
    assert launch.env["ANTHROPIC_BASE_URL"] == "https://h/api"


def test_7_a_version_in_the_url_is_named_and_not_rewritten() -> None:
    _add("q", url="https://h/compatible-mode/v1")
    assert Store.load().profile("q").base_url == "https://h/compatible-mode/v1"
    row = job.list_profiles()[0]
    assert row.effective_url == "https://h/compatible-mode/v1"
    problem = next(p for p in row.problems if p.code == "url_version")
    assert "https://h/compatible-mode/v1/v1/messages" in problem.message
    assert "https://h/compatible-mode" in problem.fix
    _add("c", "codex", url="https://h/compatible-mode")
    assert Store.load().profile("c").effective_url == "https://h/compatible-mode/v1"


def test_8_wire_api_chat_is_refused_at_save_and_flagged_in_live_tables(home: Path) -> None:
    with pytest.raises(UsageError, match=r"0\.94\.0"):
        _add("c", "codex", wire_api="chat")
    _add("old", "codex", wire_api="chat", codex_version="0.94.0")
    _add("new", "codex")
    table = '[model_providers.x]\nname = "x"\nwire_api = "chat"\n'
    path = _file(home / ".codex/config.toml", table)
    preview = _switch("new")
    assert any("model_providers.x.wire_api" in line for line in preview.warnings)
    assert table in path.read_text()


def test_9_links_are_followed_and_a_dangling_one_is_named(home: Path) -> None:
    target = _file(home / "dotfiles/config.toml", "# d\n", 0o644)
    link = home / ".codex/config.toml"
    link.parent.mkdir()
    link.symlink_to("../dotfiles/config.toml")
    _add("c", "codex")
    _switch("c")
    assert link.is_symlink() and str(link.readlink()) == "../dotfiles/config.toml"
    assert target.read_text().startswith('model_provider = "c"\n# d\n')
    assert sorted(p.name for p in target.parent.iterdir()) == ["config.toml"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    job.apply(job.preview_undo())
    assert (target.read_text(), link.is_symlink()) == ("# d\n", True)
    target.unlink()
    with pytest.raises(UsageError, match="does not exist"):
        job.preview_switch("c")


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        (".claude/settings.json", '{"env":{},}', "line 1, column 11"),
        (".claude/settings.json", "{// c\n}", "line 1, column 2"),
        (".codex/config.toml", 'a = 1\ncommand="C:\\W\\x.exe"\n', "line 2, column 12"),
    ],
)
def test_10_what_cannot_be_read_is_refused_and_left_alone(
    home: Path, name: str, text: str, place: str
) -> None:
    path = _file(home / name, text)
    _add("p", "codex" if name.endswith("toml") else "claude-code")
    with pytest.raises(UsageError) as caught:
        job.preview_switch("p")
    assert place in caught.value.evidence and str(path) in caught.value.evidence
    assert "cannot read it either" in caught.value.message
    assert path.read_text() == text


def test_11_everything_of_ours_is_private_from_creation(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = os.umask(0o022)
    try:
        _add("p")
        job.set_key_source("b", value=KEY_B)
        _switch("p")
        job.prepare("p", ["true"])
    finally:
        os.umask(old)
    for path in home.rglob("*"):
        wanted = 0o700 if path.is_dir() else 0o600
        if "elometer" in path.parts or ".claude" in path.parts:
            assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    secrets = home / ".config/elometer/secrets.toml"
    secrets.chmod(0o644)
    _code, out, _err = _cli("key", "check", capture=capsys)
    assert "secrets.toml" in out and stat.S_IMODE(secrets.stat().st_mode) == 0o644
    _cli("key", "check", "--tighten", capture=capsys)
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600


def test_12_no_eight_characters_of_a_key_leave(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _file(home / ".claude/settings.json", json.dumps({"env": {"SOMETHING": KEY_A, "ANTHROPIC_MODEL": KEY_A}}))
    _add("p")
    _add("c", "codex")
    job.set_key_source("b", value=KEY_B)
    told = ""
    for words in (
        *(
            ("profile", "list"),
            ("profile", "list", "--json"),
            ("profile", "show", "p"),
            ("profile", "diff", "p"),
        ),
        *(("profile", "switch", "p", "--yes"), ("profile", "switch", "c", "--yes"), ("profile", "drift")),
        *(
            ("profile", "drift", "--json"),
            ("profile", "export"),
            ("profile", "undo", "--yes"),
            ("profile", "check", "p"),
        ),
        *(("key", "list"), ("key", "list", "--json"), ("key", "show", "b"), ("key", "check")),
        *(("key", "set-source", "a", KEY_A), ("profile", "edit", "p", "--env", f"ANTHROPIC_X={KEY_A}")),
    ):
        _code, out, err = _cli(*words, capture=capsys)
        told += out + err
    for value in (KEY_A, KEY_B):
        assert not any(value[i : i + 8] in told for i in range(len(value) - 7))


def test_13_the_clients_own_folder_variables_are_honoured(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "x"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "y"))
    _add("p")
    _add("c", "codex")
    assert _switch("p").plan.path == tmp_path / "x/settings.json"
    assert _switch("c").plan.path == tmp_path / "y/config.toml"
    assert not (home / ".claude").exists() and not (home / ".codex").exists()
    _file(tmp_path / "x/.claude.json", '{"primaryApiKey":"k"}')
    claude = next(state for state in job.drift() if state.tool == "claude-code")
    assert claude.path == str(tmp_path / "x/settings.json")
    assert any(str(tmp_path / "x/.claude.json") in line for line in claude.overrides)


def test_14_codex_gets_its_own_variable_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    _add("c", "codex", key_env="P1_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-of-the-user")
    launch = job.prepare("c", ["true"]).launch
    assert launch.env["P1_KEY"] == KEY_A
    assert "OPENAI_API_KEY" not in launch.env
    assert not any(KEY_A in word for word in launch.argv)
    assert any("P1_KEY" in step for step in job.preview_switch("c").next_steps)


_CLAUDE_ROW = {
    "env": {"ANTHROPIC_BASE_URL": "https://g", "ANTHROPIC_AUTH_TOKEN": "sk-in-the-database-1"},
    "hooks": {},
}


def _database(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE providers (id TEXT, app_type TEXT, name TEXT, settings_config TEXT, sort_index INTEGER)"
        )
        config = 'model_provider="custom"\n[model_providers.custom]\nname="x"\nbase_url="https://g/v1"\n'
        rows = [
            ("1", "claude", "My GW", json.dumps(_CLAUDE_ROW), 0),
            (
                "2",
                "claude",
                "My GW",
                json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:15721"}}),
                1,
            ),
            (
                "3",
                "codex",
                "My GW",
                json.dumps({"auth": {"OPENAI_API_KEY": "sk-in-the-database-1"}, "config": config}),
                0,
            ),
            ("4", "codex", "bad", json.dumps({"config": "a = ["}), 1),
            ("5", "gemini", "g", "{}", 0),
        ]
        connection.executemany("INSERT INTO providers VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    return path


def test_15_a_locked_or_half_written_database_is_read_from_a_copy(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ccswitch, "PAUSE_S", 0)
    path = _database(home / ".cc-switch/cc-switch.db")
    before = path.read_bytes()
    with sqlite3.connect(path) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        report = job.import_profiles(path)
        holder.rollback()
    holder.close()
    assert [(p.name, p.tool) for p in report.added] == [
        ("My-GW", "claude-code"),
        ("My-GW-2", "claude-code"),
        ("My-GW", "codex"),
    ]
    assert {p.key for p in report.added} == {"My-GW", None}
    notes = "\n".join(report.notes)
    for part in (
        "gemini",
        "cannot be read",
        "15721" if "15721" in notes else "own proxy",
        "hooks",
        "file; Codex",
    ):
        assert part in notes
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["cc-switch.db"]
    # A journal that is no journal: the copy is read without it.
    path.with_name("cc-switch.db-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 600)
    assert job.import_profiles(path).unchanged
    path.write_bytes(before[:2048])
    with pytest.raises(UsageError, match="cannot be read"):
        job.import_profiles(path)


def test_without_a_terminal_nothing_is_written_unless_told_so(home: Path) -> None:
    _add("p")
    program = [sys.executable, "-m", "elometer", "profile", "switch", "p"]
    done = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--yes" in done.stderr
    assert not (home / ".claude").exists()
    done = subprocess.run(
        [*program, "--yes"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (home / ".claude/settings.json").exists()
