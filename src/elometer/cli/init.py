"""`elometer init`: a first experiment to edit; with a terminal, the steps of a first use."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from elometer.core.text import gettext as _


@click.command(epilog="Example: elometer init my-experiment")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Ask nothing: write the files and print the next steps.")
def init(folder: Path | None, yes: bool) -> None:
    """Write a commented experiment.yaml and a tasks.jsonl.

    DIR is made where it does not exist; without it, a new folder of the workspace is. Nothing is overwritten.
    With a terminal it goes the way of a first use, where Enter skips a step: probe, plan, key with its
    boundary, client.
    """
    from elometer.jobs.init import init as write

    if not yes and sys.stdin.isatty() and sys.stdout.isatty():
        from elometer.cli.first_use import first_use

        first_use(folder)
        return
    written = write(folder)
    for path in written:
        click.echo(path)
    file = written[0]
    click.echo(
        _("Next: name gateway, key and model in the first, your problems in the second; then"), err=True
    )
    click.echo(f"  elometer plan {file}", err=True)
    click.echo(f"  elometer run {file}", err=True)
