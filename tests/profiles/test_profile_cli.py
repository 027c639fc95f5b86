"""The command lines `profile` and `key` as a user types them: output, exit codes, three-line errors."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from elometer.cli.key import key
from elometer.cli.main import run as run_command
from elometer.cli.profile import profile
from elometer.jobs import profiles as job
from elometer.profiles.model import Profile

REAL = "sk-real-0123456789abcdef"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*words: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = run_command(list(words), open_app=lambda _path: None)
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def test_every_command_has_an_example() -> None:
    for group in (profile, key):
        for command in group.commands.values():
            assert isinstance(command, click.Command)
            assert (command.epilog or "").startswith("Example: "), command.name
            assert command.help, command.name


def test_the_profile_commands_are_those_of_the_design() -> None:
    wanted = [
        "list",
        "show",
        "add",
        "edit",
        "remove",
        "import",
        "export",
        "switch",
        "diff",
        "undo",
        "drift",
        "check",
        "env",
        "exec",
    ]
    assert set(wanted) <= set(profile.commands)
    assert {"add", "list", "show", "check", "set-source"} <= set(key.commands)


def test_from_an_empty_home_to_a_listed_profile(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("profile", "list")[:2] == (0, "")
    assert cli("profile", "list", "--json")[1] == "[]\n"
    assert cli("key", "add", "bt", "--stdin", "--max-concurrency", "4", stdin=REAL + "\n")[0] == 0
    assert (
        cli("profile", "add", "--from", "openrouter", "--tool", "codex", "--key", "bt", "--model", "m")[0]
        == 0
    )
    code, out, _err = cli("profile", "list", "--json")
    row = json.loads(out)[0]
    assert code == 0
    assert {
        k: row[k] for k in ("name", "tool", "base_url", "effective_url", "key_label", "active", "drift")
    } == {
        "name": "openrouter-codex",
        "tool": "codex",
        "base_url": "https://openrouter.ai/api",
        "effective_url": "https://openrouter.ai/api/v1",
        "key_label": "bt",
        "active": False,
        "drift": [],
    }
    assert row["boundary"]["max_concurrency"] == 4 and len(row["fingerprint"]) == 8
    assert cli("profile", "edit", "openrouter-codex", "--name", "orc", "--clear", "model")[0] == 0
    shown = json.loads(cli("profile", "show", "orc")[1])
    assert (shown["name"], shown["model"]) == ("orc", None)
    assert cli("profile", "remove", "orc")[0] == 0
    assert cli("profile", "list", "--json")[1] == "[]\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("profile", "show", "nope"), 2),
        (("profile", "add", "--from", "nope"), 2),
        (("profile", "add", "a b", "--tool", "codex", "--base-url", "https://g"), 2),
        (("profile", "add", "a", "--tool", "codex", "--base-url", "https://g?x=1"), 2),
        (("profile", "add", "a", "--tool", "codex", "--base-url", "https://u:p@g"), 2),
        (("profile", "add", "a", "--tool", "codex", "--base-url", "https://g", "--provider-id", "openai"), 2),
        (("profile", "add", "a", "--tool", "codex", "--base-url", "https://g", "--env", "ANTHROPIC_X=1"), 2),
        (("profile", "add", "a", "--tool", "claude-code", "--base-url", "https://g", "--key-env", "FOO"), 2),
        (("profile", "undo", "--yes"), 2),
        (("profile", "env"), 2),
        (("profile", "import", "/nowhere.json"), 2),
        (("key", "add", "x", "--source", "nonsense"), 2),
        (("key", "show", "x"), 2),
        (("profile", "switch", "keyless", "--yes"), 3),
        (("profile", "env", "keyless"), 3),
        (("profile", "exec", "keyless", "--", "true"), 3),
    ],
)
def test_errors_are_short_and_have_the_right_code(cli: Run, words: tuple[str, ...], code: int) -> None:
    cli("profile", "add", "keyless", "--tool", "claude-code", "--base-url", "https://g")
    cli("profile", "add", "second", "--tool", "claude-code", "--base-url", "https://g")
    got, out, err = cli(*words)
    assert (got, out) == (code, "")
    assert 1 <= len(err.strip().splitlines()) <= 4 and "Traceback" not in err


def test_a_dry_run_writes_nothing_and_a_switch_says_how_to_go_back(
    cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", REAL)
    cli(
        "profile",
        "add",
        "p",
        "--tool",
        "claude-code",
        "--base-url",
        "https://g",
        "--key",
        "k",
        "--key-source",
        "env:MY_KEY",
    )
    code, out, _err = cli("profile", "switch", "p", "--dry-run")
    assert code == 0 and "+ env.ANTHROPIC_BASE_URL = https://g" in out
    assert (
        not (home / ".claude").exists() and not (home / ".local/state/elometer/switch/journal.json").exists()
    )
    assert cli("profile", "switch", "p")[0] == 2
    code, out, _err = cli("profile", "switch", "p", "--yes")
    assert code == 0 and "elometer profile undo" in out
    assert "(nothing changes)" in cli("profile", "diff", "p")[1]
    assert cli("profile", "drift")[0] == 0
    assert cli("profile", "pristine")[1].startswith(str(home / ".claude/settings.json"))
    assert cli("profile", "undo", "--dry-run")[0] == 0
    assert (home / ".claude/settings.json").exists()
    assert cli("profile", "undo", "--yes")[0] == 0
    assert not (home / ".claude/settings.json").exists()


def test_the_default_profile_is_what_env_takes_without_a_name(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", REAL)
    for name in ("a", "b"):
        url = f"https://{name}.example"
        cli(
            "profile",
            "add",
            name,
            "--tool",
            "openai-compatible",
            "--base-url",
            url,
            "--key",
            "k",
            "--key-source",
            "env:MY_KEY",
        )
    assert cli("profile", "env")[0] == 2
    code, out, _err = cli("profile", "switch", "b", "--yes")
    assert code == 0 and 'eval "$(elometer profile env b)"' in out
    assert "export OPENAI_BASE_URL='https://b.example/v1'" in cli("profile", "env")[1]


def test_exec_becomes_the_command_and_gives_its_code(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", REAL)
    base = [sys.executable, "-m", "elometer"]
    add = ["profile", "add", "p", "--tool", "openai-compatible", "--base-url", "https://g", "--key", "k"]
    subprocess.run([*base, *add, "--key-source", "env:MY_KEY"], check=True, capture_output=True)
    script = "import os, sys; print(os.environ['OPENAI_API_KEY'][:3], sys.argv[1:]); sys.exit(9)"
    words = [
        "profile",
        "exec",
        "p",
        "--tool",
        "openai-compatible",
        "--",
        sys.executable,
        "-c",
        script,
        "--flag",
        "-x",
    ]
    done = subprocess.run([*base, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (9, "sk- ['--flag', '-x']\n")


def test_a_command_line_imports_nothing_heavy(home: Path) -> None:
    script = (
        "import sys; from elometer.cli import main; main.run(['profile', 'list'], open_app=lambda p: None);"
        "print([m for m in ('pandas', 'scipy', 'numpy', 'textual', 'httpx', 'aiohttp', 'http.server', 'tomlkit')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "words", [("env", "p"), ("export", "--with-keys"), ("pristine", "/x")], ids=["env", "export", "pristine"]
)
def test_no_key_is_printed_on_a_terminal(
    home: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", REAL)
    job.add_profile(
        Profile(name="p", tool="openai-compatible", base_url="https://g", key="k"), key_source="env:MY_KEY"
    )
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "elometer", "profile", *words]
    done = subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, check=False)
    os.close(theirs)
    told = os.read(ours, 10_000).decode()
    os.close(ours)
    assert done.returncode == 2 and REAL[:8] not in told


def test_export_into_a_file_is_private(cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", REAL)
    job.add_profile(Profile(name="p", tool="codex", base_url="https://g", key="k"), key_source="env:MY_KEY")
    assert cli("profile", "export", "--with-keys", "-o", str(home / "out.json"))[:2] == (0, "")
    assert REAL in (home / "out.json").read_text()
    assert (home / "out.json").stat().st_mode & 0o777 == 0o600
