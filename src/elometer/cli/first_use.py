"""The steps of a first use: probe, plan, key with boundary, client. Each is a command, and Enter skips it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elometer.core.text import gettext as _

if TYPE_CHECKING:
    from elometer.jobs.init import Answers
    from elometer.profiles.model import Tool

TOOLS: tuple[Tool, ...] = ("claude-code", "codex", "openai-compatible")


def first_use(folder: Path | None) -> None:
    """Ask step by step, write the experiment in between, and end with the command that starts it."""
    from elometer.jobs.init import Answers, init

    answers = _probe(Answers())
    _step(2, _("Plan"), "elometer plan FILE")
    answers = _budget(answers)
    written = init(folder, answers)
    for path in written:
        click.echo(path)
    _shown(lambda: _plan(written[0]))
    _key(answers)
    _client(answers)
    click.echo(_("Next: write your problems into {tasks}; then").format(tasks=written[1]), err=True)
    click.echo(f"  elometer run {written[0]}", err=True)


def _step(number: int, name: str, command: str) -> None:
    click.echo(click.style(f"{number}/4 {name}", bold=True) + click.style(f"  {command}", dim=True))


def _shown(action: Callable[[], None]) -> None:
    """Do a step; what goes wrong is told and does not end the others."""
    from elometer.core.errors import ElometerError
    from elometer.core.redact import redact

    try:
        action()
    except ElometerError as error:
        for line in error.lines():
            click.echo("  " + redact(line))


def _asked(question: str, default: str = "") -> str:
    """A line of the user's; the default, or nothing, for Enter."""
    return str(click.prompt(question, default=default, show_default=bool(default))).strip()


def _probe(answers: Answers) -> Answers:
    _step(1, _("Probe"), "elometer probe --base-url URL --model MODEL --key-env NAME")
    url = _asked(_("The gateway's root URL (Enter: later)"))
    if not url:
        return answers
    model = _asked(_("Model (Enter: later)")) or answers.model
    variable = _asked(_("Variable that holds the key"), answers.key_env)
    answers = replace(answers, base_url=url, model=model, key_env=variable)
    if not os.environ.get(variable):
        click.echo("  " + _("{name} is not set, so nothing is sent now.").format(name=variable))
    elif click.confirm(_("Send one minimal request per protocol?"), default=False):
        _shown(lambda: _send(answers))
    return answers


def _send(answers: Answers) -> None:
    from elometer.cli.check import print_rows
    from elometer.jobs.init import Answers
    from elometer.jobs.probe import probe_url

    model = None if answers.model == Answers().model else answers.model
    print_rows(probe_url(answers.base_url, model, answers.key_env).rows, as_json=False, verbose=False)


def _budget(answers: Answers) -> Answers:
    """The numbers of the boundary, which the plan is held against."""
    budget = click.prompt(
        _("Tokens a day that the key may spend"), default=answers.daily_budget_tokens, type=click.IntRange(1)
    )
    cap = click.prompt(_("Calls in flight at once"), default=answers.max_concurrency, type=click.IntRange(1))
    return replace(answers, daily_budget_tokens=budget, max_concurrency=cap)


def _plan(file: Path) -> None:
    from elometer.cli.plan import print_plan
    from elometer.jobs.plan import plan

    print_plan(plan(file))


def _key(answers: Answers) -> None:
    _step(3, _("Key with its boundary"), "elometer key add LABEL --source env:NAME")
    if not click.confirm(
        _("Keep '{label}' in the store, read from {name}?").format(
            label=answers.key_label, name=answers.key_env
        ),
        default=False,
    ):
        return
    from elometer.jobs.profiles import add_key

    boundary = {
        "allowed_models": [answers.model],
        "daily_budget_tokens": answers.daily_budget_tokens,
        "max_concurrency": answers.max_concurrency,
    }
    _shown(
        lambda: click.echo(
            "  " + add_key(answers.key_label, source=f"env:{answers.key_env}", boundary=boundary).label
        )
    )


def _client(answers: Answers) -> None:
    _step(4, _("Client"), "elometer profile add NAME --tool TOOL")
    asked = _asked(_("Profile for {tools} (Enter: none)").format(tools=", ".join(TOOLS)))
    tool = next((tool for tool in TOOLS if tool == asked), None)
    if tool is not None:
        _shown(lambda: _add_profile(tool, answers))
    elif asked:
        text = _("'{tool}' is no tool; 'elometer profile add' makes one later.")
        click.echo("  " + text.format(tool=asked))


def _add_profile(tool: Tool, answers: Answers) -> None:
    from elometer.jobs.profiles import add_profile
    from elometer.profiles.model import Profile

    name = f"bt-{tool.split('-')[0]}"
    profile = Profile(
        name=name, tool=tool, base_url=answers.base_url, key=answers.key_label, model=answers.model
    )
    add_profile(profile, key_source=f"env:{answers.key_env}")
    click.echo("  " + _("'elometer profile switch {name}' shows what it would write.").format(name=name))
