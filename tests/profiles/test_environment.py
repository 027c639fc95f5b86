"""Profiles in shells and child processes: nothing of another family gets in, any value survives eval."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.core.errors import AccessError, UsageError
from elometer.jobs import profiles as job
from elometer.profiles.environment import quote_fish, quote_posix, shell_lines
from elometer.profiles.model import Key, Profile
from elometer.profiles.store import Store

KEY = "sk-A'$(>pwned)`x`\\!\"#0123"
STALE = {
    "ANTHROPIC_API_KEY": "sk-stale-1",
    "ANTHROPIC_CUSTOM_HEADERS": "x-api-key: sk-stale-2",
    "CLAUDE_CODE_USE_BEDROCK": "1",
    "CLAUDE_CODE_OAUTH_TOKEN": "sk-stale-3",
    "CODEX_API_KEY": "sk-stale-4",
    "OPENAI_API_KEY": "sk-stale-5",
    "OPENAI_BASE_URL": "https://stale",
    "SOME_VENDOR_OF_TOMORROW_KEY": "sk-stale-6",
    "OTHER_CODEX_KEY": "sk-stale-7",
}


@pytest.fixture(autouse=True)
def trio(home: Path, founding: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MY_KEY", KEY)
    job.import_profiles(founding / "trio.json", key_label="bt", key_source="env:MY_KEY")
    with Store.editing() as store:
        store.add(
            Profile(name="other", tool="codex", base_url="https://o", key="bt", key_env="OTHER_CODEX_KEY")
        )
    for name, value in STALE.items():
        monkeypatch.setenv(name, value)
    return home


NAMES = {
    "claude-code": "taotoken-claude-bt-eval",
    "codex": "taotoken-codex-bt-eval",
    "openai-compatible": "taotoken-openai-compatible-bt-eval",
}
OWN = {
    "claude-code": {"ANTHROPIC_BASE_URL": "https://taotoken.net/api", "ANTHROPIC_AUTH_TOKEN": KEY},
    "codex": {"TAOTOKEN_API_KEY": KEY},
    "openai-compatible": {"OPENAI_BASE_URL": "https://taotoken.net/api/v1", "OPENAI_API_KEY": KEY},
}


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh"])
@pytest.mark.parametrize("tool", list(NAMES))
def test_eval_leaves_one_family_in_the_shell(tool: str, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    lines = job.env_lines(NAMES[tool])
    assert lines.index("unset ") < lines.index("export ")
    script = 'eval "$LINES_TO_EVAL"; unset LINES_TO_EVAL; env -0'
    env = {"PATH": os.environ["PATH"], "MY_KEY": KEY, **STALE, "LINES_TO_EVAL": lines}
    done = subprocess.run([shell, "-c", script], env=env, capture_output=True, text=True, check=True)
    after = dict(item.split("=", 1) for item in done.stdout.split("\0") if "=" in item)
    for name, value in OWN[tool].items():
        assert after.pop(name) == value
    assert not Path("pwned").exists()
    # What no client reads by itself stays: it is not ours to take out of a shell.
    assert {n for n in STALE if n in after} <= {"SOME_VENDOR_OF_TOMORROW_KEY"}
    assert after["MY_KEY"] == KEY


@settings(max_examples=60)
@given(value=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30))
def test_any_value_survives_eval_by_sh(value: str) -> None:
    script = shell_lines([], {"V": value}) + 'printf %s "$V"'
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
    assert done.stdout == value.encode()


def test_fish_words_escape_backslash_and_quote() -> None:
    # By fish's manual: inside single quotes only \' and \\ are escapes.
    assert quote_fish("a'b\\c$d") == "'a\\'b\\\\c$d'"
    assert quote_posix("a'b") == "'a'\\''b'"
    assert shell_lines(["A"], {"B": "c"}, "fish") == "set -e A\nset -gx B 'c'\n"


@pytest.mark.parametrize("tool", list(NAMES))
def test_a_child_gets_one_family_and_an_allow_list(tool: str) -> None:
    prepared = job.prepare(NAMES[tool], [sys.executable, "-c", "import os; print(sorted(os.environ))"])
    launch = prepared.launch
    assert {name: launch.env[name] for name in OWN[tool]} == OWN[tool]
    assert not [name for name in STALE if launch.env.get(name) and name not in OWN[tool]]
    assert "MY_KEY" not in launch.env
    assert not [word for word in launch.argv if KEY in word]
    assert KEY not in repr(prepared)
    assert job.run(launch) == 0
    if launch.private is not None:
        assert launch.private.stat().st_mode & 0o777 == 0o700


def test_a_child_that_fails_gives_its_code_on() -> None:
    launch = job.prepare(NAMES["codex"], [sys.executable, "-c", "import sys; sys.exit(7)"]).launch
    assert job.run(launch) == 7


def test_claude_and_codex_get_their_recipe_and_headless_ones_no_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("claude", "codex"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    claude = job.prepare(NAMES["claude-code"], ["claude", "-p", "hi"]).launch
    assert claude.argv == ("claude", "--strict-mcp-config", "--setting-sources", "user", "-p", "hi")
    assert claude.headless
    assert (claude.env["ANTHROPIC_API_KEY"], claude.env["CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST"]) == ("", "1")
    assert not job.prepare(NAMES["claude-code"]).launch.headless
    mine = job.prepare(NAMES["claude-code"], ["claude", "--setting-sources=project"]).launch
    assert mine.argv[1:] == ("--strict-mcp-config", "--setting-sources=project")
    codex = job.prepare(NAMES["codex"], ["codex", "exec", "hi"]).launch
    assert codex.headless and codex.argv[-2:] == ("exec", "hi")
    given_options = [word for flag, word in zip(codex.argv, codex.argv[1:], strict=False) if flag == "-c"]
    assert 'model_provider="taotoken-codex-bt-eval"' in given_options
    assert "features.daemon_auto_start=false" in given_options
    assert not any("requires_openai_auth" in word for word in codex.argv)


def test_all_model_aliases_are_pinned() -> None:
    job.edit_profile(NAMES["claude-code"], model="m-1", small_model="m-s")
    env = job.prepare(NAMES["claude-code"], ["true"]).launch.env
    pinned = {name: value for name, value in env.items() if name.endswith("_MODEL")}
    assert set(pinned.values()) == {"m-1", "m-s"}
    assert {n for n, v in pinned.items() if v == "m-s"} == {
        "ANTHROPIC_SMALL_FAST_MODEL",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    }
    assert {f"ANTHROPIC_DEFAULT_{alias}_MODEL" for alias in ("OPUS", "SONNET", "HAIKU")} <= set(pinned)


def test_a_shell_is_opened_where_there_is_no_client(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    (home / ".profile").write_text("export OPENAI_API_KEY=sk-again\n")
    prepared = job.prepare(NAMES["openai-compatible"])
    assert prepared.launch.argv == ("/bin/sh",)
    assert prepared.launch.env["ELOMETER_PROFILE"] == NAMES["openai-compatible"]
    assert any("OPENAI_API_KEY" in note and ".profile" in note for note in prepared.notes)


def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="not on PATH"):
        job.prepare(NAMES["codex"])
    assert job.check_profile(NAMES["codex"]).status == "unknown"


def test_dotenv_beats_the_shell_and_is_named(home: Path) -> None:
    (home / ".codex").mkdir()
    (home / ".codex/.env").write_text('export TAOTOKEN_API_KEY="sk-other"\n')
    with pytest.raises(UsageError) as caught:
        job.env_lines(NAMES["codex"])
    assert ".codex/.env: TAOTOKEN_API_KEY" in caught.value.evidence


def test_a_profile_without_a_key_is_not_started() -> None:
    job.edit_profile(NAMES["claude-code"], key=None)
    for use in (job.env_lines, job.prepare):
        with pytest.raises(AccessError, match="no key"):
            use(NAMES["claude-code"])


def test_my_settings_come_without_my_credentials(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".claude/commands").mkdir(parents=True)
    (home / ".claude/commands/x.md").write_text("do x")
    (home / ".claude/settings.json").write_text(
        '{"permissions":{"allow":["Bash"]},"apiKeyHelper":"h","env":{"FOO":"1","ANTHROPIC_API_KEY":"sk-mine-111",'
        '"MY_TOKEN":"sk-mine-222"}}'
    )
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(
        'model_provider = "x"\nsandbox_mode = "read-only"\n[mcp_servers.r]\nbearer_token = "sk-mine-333"\n'
    )
    claude = job.prepare(NAMES["claude-code"], ["true"], with_my_settings=True)
    codex = job.prepare(NAMES["codex"], ["true"], with_my_settings=True)
    assert claude.launch.private is not None and codex.launch.private is not None
    copied = (claude.launch.private / "settings.json").read_text()
    assert '"FOO": "1"' in copied and "permissions" in copied and "sk-mine" not in copied
    assert (claude.launch.private / "commands/x.md").read_text() == "do x"
    assert (codex.launch.private / "config.toml").read_text() == 'sandbox_mode = "read-only"\n'
    assert any("mcp_servers" in note for note in codex.notes)


def test_the_key_that_the_store_uses_itself_stays_in_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.editing() as store:
        store.set_key(Key("bt", "env:TAOTOKEN_API_KEY"))
    monkeypatch.setenv("TAOTOKEN_API_KEY", KEY)
    assert "unset TAOTOKEN_API_KEY" not in job.env_lines(NAMES["claude-code"])


def test_a_key_left_in_the_private_folder_is_not_joined_by_ours() -> None:
    private = job.prepare(NAMES["claude-code"], ["true"]).launch.private
    assert private is not None
    (private / ".claude.json").write_text('{"primaryApiKey": "sk-ant-left-behind"}')
    with pytest.raises(UsageError, match="alone") as caught:
        job.prepare(NAMES["claude-code"], ["true"])
    assert "primaryApiKey" in caught.value.evidence
    private = job.prepare(NAMES["codex"], ["true"]).launch.private
    assert private is not None
    (private / ".env").write_text("TAOTOKEN_API_KEY=sk-other\n")
    with pytest.raises(UsageError, match="alone"):
        job.prepare(NAMES["codex"], ["true"])
