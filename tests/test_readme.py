"""The README tells the truth: its two commands are those of .ci/run, and every command it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from elometer.cli.main import elometer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CI = (ROOT / ".ci" / "run").read_text()


def test_the_second_command_is_what_ci_runs() -> None:
    assert ".venv/bin/pip install -q -e '.[test]' && .venv/bin/python -m pytest -q" in README
    assert "pip install -q -e '.[test]'" in CI
    assert "python -m pytest -q" in CI


def test_the_first_command_is_smoke_run_by_ci() -> None:
    assert ".venv/bin/pip install -q -e . && .venv/bin/elometer demo" in README
    assert "elometer demo --plain" in CI


def test_ci_can_be_executed() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_pictures_are_there() -> None:
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README):
        assert (ROOT / picture).is_file(), picture


def named_commands() -> list[str]:
    # `elometer word` and `elometer group word`, in code spans and code blocks
    code = re.findall(r"```.*?```|`[^`]+`", README, re.DOTALL)
    found = re.findall(r"elometer ((?:[a-z]+)(?: [a-z]+)?)", "\n".join(code))
    return sorted(set(found))


@pytest.mark.parametrize("words", named_commands())
def test_every_command_named_in_the_readme_exists(words: str) -> None:
    context = click.Context(elometer)
    first, *rest = words.split()
    command = elometer.get_command(context, first)
    assert command is not None, words
    if rest and isinstance(command, click.Group):
        assert command.get_command(context, rest[0]) is not None, words
