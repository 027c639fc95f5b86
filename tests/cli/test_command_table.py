"""The table that --help prints agrees with the commands it names."""

from __future__ import annotations

import importlib

import click
import pytest

from elometer.cli.main import COMMANDS, run


@pytest.mark.parametrize(("name", "module", "summary"), COMMANDS)
def test_summary_is_the_docstrings_first_line(name: str, module: str, summary: str) -> None:
    command = getattr(importlib.import_module(module), name)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert (command.help or "").splitlines()[0] == summary


def commands() -> list[tuple[str, click.Command]]:
    found = []
    for name, module, _summary in COMMANDS:
        command = getattr(importlib.import_module(module), name)
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {child}", item) for child, item in command.commands.items()]
    return found


@pytest.mark.parametrize(
    ("path", "command"), commands(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_has_help_with_an_example(path: str, command: click.Command) -> None:
    assert command.help
    example = command.epilog or ""
    assert example.startswith("Example: "), path
    assert "elometer" in example, path


def test_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["ledgr"], open_app=lambda folder: None)
    assert code == 2
    assert "Did you mean 'ledger'?" in capsys.readouterr().err


def test_bare_command_without_a_terminal_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    code = run([], open_app=lambda folder: pytest.fail("the app was opened"))
    assert code == 2
    assert "terminal" in capsys.readouterr().err
