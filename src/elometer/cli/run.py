"""`elometer run`: carry an experiment out."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elometer.core.text import gettext as _

if TYPE_CHECKING:
    from elometer.jobs.prepare import Prepared
    from elometer.jobs.result import Result


@click.command(epilog="Example: elometer run experiment.yaml --plain")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--plain", is_flag=True, help="Progress lines on stderr, the table on stdout; no app.")
@click.option("--json", "as_json", is_flag=True, help="One event a line on stdout, as in events.jsonl.")
@click.option("--detach", is_flag=True, help="Start it and return; 'elometer watch' opens it later.")
@click.option("--force", is_flag=True, help="Start although a check fails; the start's record says so.")
@click.option("--attended", is_flag=True, hidden=True)  # a view or 'elometer control' can answer it
@click.option("--max-in-flight", type=click.IntRange(1), help="A fixed cap of calls in flight.")
@click.pass_context
def run(
    ctx: click.Context,
    file: Path,
    plain: bool,
    as_json: bool,
    detach: bool,
    force: bool,
    attended: bool,
    max_in_flight: int | None,
) -> None:
    """Carry an experiment out, or go on where it stopped.

    FILE is an experiment.yaml, a folder that holds one, or an id of the workspace. With a terminal the app
    opens on the start; leaving it with q lets the start go on. A finished experiment prints its table. The
    checks that send nothing are asked first; where one fails, the start is refused.
    """
    from elometer.jobs.prepare import prepare

    begin(
        ctx,
        prepare(file),
        plain=plain,
        as_json=as_json,
        detach=detach,
        force=force,
        attended=attended,
        max_in_flight=max_in_flight,
    )


def begin(
    ctx: click.Context,
    prepared: Prepared,
    *,
    plain: bool,
    as_json: bool,
    detach: bool,
    max_in_flight: int | None,
    force: bool = False,
    attended: bool = False,
) -> None:
    """Run here, in the background, or under the app, as the flags and the terminal say."""
    from elometer.jobs.run import RunOptions, is_finished, run_here, spawn

    if plain + as_json + detach > 1:
        raise click.UsageError(_("Give one of --plain, --json and --detach."))
    if is_finished(prepared):
        from elometer.jobs.result import conclude

        show_result(conclude(prepared, None))
        return
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if detach or (terminal and not plain and not as_json):
        spawn(prepared, RunOptions(max_in_flight=max_in_flight, force=force))
        if detach:
            click.echo(_("Started: {folder}").format(folder=prepared.folder.path))
            click.echo(
                _("'elometer watch {name}' opens it.").format(name=prepared.folder.path.name), err=True
            )
        else:
            ctx.obj(prepared.folder.path)
        return
    from elometer.cli.progress import JsonEvents, PlainProgress

    listener = JsonEvents() if as_json else PlainProgress()
    options = RunOptions(max_in_flight=max_in_flight, attended=attended, force=force, listeners=(listener,))
    with contextlib.closing(listener):
        result = run_here(prepared, options)
    if not as_json:
        show_result(result)


def show_result(result: Result) -> None:
    """The table on stdout, where the files are on stderr."""
    click.echo(result.text)
    click.echo(_("Files: {folder}").format(folder=result.folder), err=True)
