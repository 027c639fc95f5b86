"""`elometer init`: a first experiment to edit."""

from __future__ import annotations

from pathlib import Path

import click

from elometer.core.text import gettext as _


@click.command(epilog="Example: elometer init my-experiment")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
def init(folder: Path | None) -> None:
    """Write a commented experiment.yaml and a tasks.jsonl.

    DIR is made where it does not exist; without it, a new folder of the workspace is. Nothing is overwritten.
    """
    from elometer.jobs.init import init as write

    written = write(folder)
    for path in written:
        click.echo(path)
    file = written[0]
    click.echo(
        _("Next: name gateway, key and model in the first, your problems in the second; then"), err=True
    )
    click.echo(f"  elometer plan {file}", err=True)
    click.echo(f"  elometer run {file}", err=True)
