"""`elometer check` and `elometer probe`: rows, exit codes, what scripts rely on, and no key anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elometer.cli.main import run
from elometer.core.limits import Boundary
from elometer.gateway.demo.faults import MODEL
from elometer.gateway.demo.server import create_app, serve_in_thread

KEY = "sk-planted-cli-0123456789abcdef"
FIELDS = {"id", "family", "status", "question", "evidence", "cause", "fix", "tokens"}
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def elometer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command line in a home of its own; returns exit code, stdout and stderr."""
    import os

    for name in list(os.environ):
        if name not in ("PATH", "LANG", "PYTHONPATH", "TMPDIR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("EVAL_KEY", KEY)
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments, open_app=lambda _path: None)
        shown = capsys.readouterr()
        assert KEY not in shown.out + shown.err
        return code, shown.out, shown.err

    return command


@contextmanager
def demo(prefix: str = "/api") -> Iterator[str]:
    bound = Boundary(allowed_models=(MODEL,), max_concurrency=4)
    app = create_app(0, keys={KEY: bound}, latency=(0, 0), rate_429=0, prefix=prefix)
    with serve_in_thread(app) as url:
        yield url


def experiment(folder: Path, url: str, model: str = MODEL) -> Path:
    file = folder / "experiment.yaml"
    file.write_text(
        "experiment_id: exp\n"
        f"gateway:\n  base_url: {url}\n  key_env: EVAL_KEY\n"
        f"  key_boundary: {{allowed_models: [{model}], max_concurrency: 4}}\n"
        "agent: {kind: http, strategies: [sample_1, sample_2]}\n"
    )
    (folder / "tasks.jsonl").write_text('{"id":"a","prompt":"1+1?","answer":"2"}\n')
    return file


def test_every_row_of_an_empty_home_has_the_fields_that_scripts_rely_on(elometer: Command) -> None:
    code, out, err = elometer("check", "--json")
    rows = json.loads(out)
    assert code == 0
    assert len(rows) >= 20
    assert all(set(row) == FIELDS and row["tokens"] == 0 for row in rows)
    assert err == ""


def test_a_failing_row_gives_exit_code_3_and_its_fix(
    elometer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = experiment(tmp_path, "https://gateway.example/api")
    assert elometer("check", "--experiment", str(file))[0] == 0
    monkeypatch.delenv("EVAL_KEY")
    code, out, err = elometer("check", "--experiment", str(file))
    assert code == 3
    assert "export EVAL_KEY=…" in out
    assert "1 failed" in err


def test_an_unknown_profile_and_a_missing_file_are_usage_errors(elometer: Command) -> None:
    assert elometer("check", "--profile", "nope")[0] == 2
    assert elometer("check", "--experiment", "nope.yaml")[0] == 2
    assert elometer("probe", "nope")[0] == 2
    assert elometer("probe")[0] == 2


def test_live_checks_say_their_cost_first_and_book_what_they_spent(elometer: Command, tmp_path: Path) -> None:
    with demo() as url:
        code, out, err = elometer(
            "check", "--live", "--yes", "--json", "--experiment", str(experiment(tmp_path, url))
        )
    rows = {row["id"]: row for row in json.loads(out)}
    assert code == 0
    assert "300 tokens" in err
    ledger = tmp_path / "bt-eval" / "imports" / "probe" / "token_ledger.jsonl"
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert {(line["phase"], line["strategy"], line["experiment_id"]) for line in lines} == {
        ("probe", None, "exp")
    }
    assert sum(line["total_tokens"] for line in lines) == rows["live.reach"]["tokens"]
    assert KEY not in ledger.read_text()


def test_probe_names_path_header_usage_and_served_name(elometer: Command) -> None:
    with demo() as url:
        code, out, _err = elometer("probe", "--base-url", url, "--key-env", "EVAL_KEY")
    assert code == 0
    assert "POST /api/v1/chat/completions (Authorization: Bearer) → 200" in out
    assert "POST /api/v1/messages (x-api-key) → 200" in out
    assert "POST /api/v1/responses (Authorization: Bearer) → 200" in out
    assert '{"prompt":' in out
    assert '{"input":' in out


def test_probe_finds_a_prefix_that_was_left_out(elometer: Command) -> None:
    with demo() as url:
        code, out, _err = elometer(
            "probe", "--base-url", url.removesuffix("/api"), "--key-env", "EVAL_KEY", "--json"
        )
    rows = {row["id"]: row for row in json.loads(out)}
    assert code == 3
    assert rows["live.path"]["fix"] == f"Set base_url to {url}"
    assert all(set(row) == FIELDS for row in rows.values())


def test_probe_takes_an_experiment_and_a_wrong_key_is_refused(
    elometer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with demo() as url:
        file = experiment(tmp_path, url)
        assert elometer("probe", str(file))[0] == 0
        monkeypatch.setenv("EVAL_KEY", "sk-another-0123456789abcdef")
        code, out, _err = elometer("probe", str(file))
    assert code == 3
    assert "The gateway does not accept this key" in out


def test_probe_without_the_named_variable_is_an_access_error(elometer: Command) -> None:
    code, _out, err = elometer("probe", "--base-url", "http://127.0.0.1:9", "--key-env", "NOT_SET")
    assert code == 3
    assert "NOT_SET is not set" in err


def test_nothing_of_a_static_check_touches_the_network(
    elometer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    def refuse(*_arguments: object, **_names: object) -> None:
        raise AssertionError("a static check opened a socket")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    code, out, _err = elometer(
        "check", "--json", "--experiment", str(experiment(tmp_path, "https://g.example"))
    )
    assert code == 0
    assert not [row for row in json.loads(out) if any("itself broke" in line for line in row["evidence"])]


@pytest.mark.parametrize("spoilt", [KEY + "\n", KEY + "\u200b", f'"{KEY}"', "YOUR_API_KEY"])
def test_a_key_that_cannot_be_sent_is_not_sent(
    elometer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: str
) -> None:
    monkeypatch.setenv("EVAL_KEY", spoilt)
    with demo() as url:
        file = experiment(tmp_path, url)
        assert elometer("probe", str(file))[0] == 3
        assert elometer("probe", "--base-url", url, "--key-env", "EVAL_KEY")[0] == 3
        code, out, _err = elometer("check", "--live", "--yes", "--json", "--experiment", str(file))
    rows = {row["id"]: row for row in json.loads(out)}
    assert code == 3
    assert rows["live.reach"]["status"] == "unknown"
    assert not (tmp_path / "bt-eval" / "imports").exists()
