"""The README's table of the founding text's commands: ours run, print what it says, and agree with jq."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.workspace import Workspace

from elometer.core.limits import Boundary
from elometer.gateway.demo.server import create_app, serve_in_thread

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "tests" / "fixtures" / "founding" / "token_ledger.jsonl"
KEY = "sk-planted-0123456789abcdef"
BY_MODEL = "group_by(.model) | map({model: .[0].model, total: (map(.total_tokens) | add)})"
LAST = "{strategy,total_tokens,model}"
SECTION = "## The founding text's commands and ours"


def said_by_readme() -> str:
    text = (ROOT / "README.md").read_text()
    return text[text.index(SECTION) :].split("\n## ", 2)[0]


def promised(start: str) -> str:
    """The last code span of the table's row whose second column holds some words."""
    row = next(line for line in said_by_readme().splitlines() if start in line)
    return re.findall(r"`([^`]+)`", row)[-1]


@pytest.fixture
def gateway() -> Iterator[str]:
    bound = Boundary(allowed_models=("demo-agent",), max_concurrency=4)
    app = create_app(0, keys={KEY: bound}, latency=(0, 0), rate_429=0, prefix="/api")
    with serve_in_thread(app) as url:
        yield url


def jq(*arguments: str) -> list[dict[str, object]]:
    done = subprocess.run(["jq", "-c", *arguments, str(LEDGER)], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines[0] if len(lines) == 1 and isinstance(lines[0], list) else lines


def test_the_environment_is_shown_layer_by_layer_and_masked(place: Workspace) -> None:
    done = place.run("check", "-v", ANTHROPIC_AUTH_TOKEN="sk-old-0123456789")
    assert promised("`elometer check -v`") in done.stdout
    assert "0123456789" not in done.stdout


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize(
    ("words", "row"),
    [
        (("tail", "20"), "ledger tail"),
        (("totals", "--founding"), "--founding"),
        (("totals", "--by", "model"), "--by model"),
    ],
)
def test_the_ledger_commands_print_what_the_table_says(
    place: Workspace, words: tuple[str, ...], row: str
) -> None:
    done = place.run("ledger", *words, LEDGER)
    assert done.returncode == 0, done.stderr
    assert promised(row) in done.stdout


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_ledger_commands_agree_with_jq(place: Workspace) -> None:
    last = [
        json.loads(line) for line in place.run("ledger", "tail", "20", LEDGER, "--json").stdout.splitlines()
    ]
    assert [{name: line[name] for name in ("strategy", "total_tokens", "model")} for line in last] == jq(LAST)
    models = json.loads(place.run("ledger", "totals", LEDGER, "--by", "model", "--json").stdout)
    assert [{"model": row["model"], "total": row["total_tokens"]} for row in models] == jq("-s", BY_MODEL)


def test_one_probe_stands_for_the_curl_lines(place: Workspace, gateway: str) -> None:
    done = place.run("probe", "--base-url", gateway, "--model", "demo-agent", "--key-env", "K", K=KEY)
    assert done.returncode == 0, done.stderr
    assert promised("curl …/v1/chat/completions") in done.stdout
    assert promised("curl …/v1/messages") in done.stdout


def test_a_wrong_path_is_told_with_the_right_one(place: Workspace, gateway: str) -> None:
    wrong = gateway.removesuffix("/api")
    done = place.run("probe", "--base-url", wrong, "--model", "demo-agent", "--key-env", "K", K=KEY)
    assert done.returncode == 3
    assert promised("%{http_code}").replace("http://127.0.0.1:8484", wrong) in done.stdout
    assert "404" in done.stdout


def test_the_sentence_of_why_is_one_that_it_says(place: Workspace) -> None:
    from elometer.checks.why_findings import Case
    from elometer.checks.why_ledger import Tally, ledger_findings

    found = Tally(lines=64, answers=64, tokens=7_328.0, cached=62, sizes=[(114.5, "c")] * 64)
    said = ledger_findings(Case("x", "sample_8", None), {"sample_8": found}, Path("x"))
    cache = next(finding for finding in said if finding.code == "cache")
    assert promised("elometer why") == f"explained: {cache.because}"
