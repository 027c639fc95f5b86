"""`elometer watch`: open the app on a start."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from elometer.core.text import gettext as _


@click.command(epilog="Example: elometer watch demo-20261129T193000Z")
@click.argument("identity", metavar="[ID]", required=False)
@click.pass_context
def watch(ctx: click.Context, identity: str | None) -> None:
    """Open the app on a start, running or finished.

    ID is an experiment_id, a run_id or a folder; without it the one that moved last.
    """
    from elometer.core.errors import UsageError
    from elometer.jobs.places import find_experiment
    from elometer.jobs.starts import all_starts

    folder: Path
    if identity:
        folder = find_experiment(identity)
    elif found := all_starts():
        folder = found[0].folder
    else:
        raise UsageError(
            _("There is nothing to watch."), fix=_("'elometer demo' makes an experiment without a key.")
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(_("The app needs a terminal; 'elometer runs' lists starts without one."))
    ctx.obj(folder)
