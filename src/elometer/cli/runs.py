"""`elometer runs`: the experiments of the workspace."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from elometer.core.text import gettext as _


@click.command(epilog="Example: elometer runs --json")
@click.option("--json", "as_json", is_flag=True, help="One array on stdout.")
def runs(as_json: bool) -> None:
    """List the experiments of the workspace and how they stand."""
    from elometer.jobs.starts import all_starts

    found = all_starts()
    if as_json:
        rows = [{**asdict(item), "folder": str(item.folder), "running": item.running} for item in found]
        click.echo(json.dumps(rows, indent=2))
        return
    if not found:
        click.echo(_("No experiment yet. 'elometer demo' makes one without a key."), err=True)
        return
    width = max(len(item.experiment_id) for item in found)
    for item in found:
        click.echo(
            f"{item.experiment_id:<{width}}  {item.standing:<8}  {item.blocks_done:>4}/{item.blocks:<4} "
            f"{item.total_tokens:>12,}  {item.folder}"
        )
