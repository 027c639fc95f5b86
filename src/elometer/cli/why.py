"""`elometer why`: what explains an odd number."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from elometer.core.text import gettext as _

if TYPE_CHECKING:
    from elometer.checks.why import Why

MARKS = {"cause": ("✗", "red"), "note": ("!", "yellow"), "fine": ("✓", "green")}


@click.command(epilog="Example: elometer why bt-eval-001 sample_8")
@click.argument("identity", metavar="ID")
@click.argument("strategy")
@click.option("--json", "as_json", is_flag=True, help="One object on stdout.")
def why(identity: str, strategy: str, as_json: bool) -> None:
    """Explain a strategy's odd number: metadata, ledger, pairs, fit.

    Each finding comes with the command that shows it. The last line is one sentence: what explains the
    number, or that nothing was found and how large noise is.
    """
    from elometer.jobs.why import why as job

    found = job(identity, strategy)
    if as_json:
        click.echo(json.dumps(found.as_json(), ensure_ascii=False, indent=2))
        return
    _print(found)


def _print(found: Why) -> None:
    stage = ""
    for finding in found.findings:
        if finding.stage != stage:
            stage = finding.stage
            click.echo(click.style(_(stage), bold=True))
        mark, colour = MARKS[finding.weight]
        click.echo(f"  {click.style(mark, fg=colour)} {finding.text}")
        click.echo(click.style(f"      $ {finding.command}", dim=True))
    click.echo(found.conclusion)
