"""`elometer demo`: the whole job without a key; and with a planted fault, how the checks name it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from elometer.core.text import gettext as _

if TYPE_CHECKING:
    from elometer.gateway.demo.faults import Fault
    from elometer.jobs.planted import PlantedDemo

LIST = "list"
CHOOSE = ""
REFUSED = 3


@click.command(epilog="Example: elometer demo --break doubled-v1 --plain")
@click.option("--plain", is_flag=True, help="Progress lines on stderr, the table on stdout; no app.")
@click.option("--json", "as_json", is_flag=True, help="One event a line on stdout, as in events.jsonl.")
@click.option(
    "--break",
    "fault",
    metavar="[FAULT]",
    is_flag=False,
    flag_value=CHOOSE,
    help="Plant a fault and let the checks name it; 'list' names the faults, no name asks for one.",
)
@click.option("--seed", type=click.IntRange(0), help="Seed of tasks, truth and samples; random by default.")
@click.option("--max-in-flight", type=click.IntRange(1), help="A fixed cap of calls in flight.")
@click.pass_context
def demo(
    ctx: click.Context,
    plain: bool,
    as_json: bool,
    fault: str | None,
    seed: int | None,
    max_in_flight: int | None,
) -> None:
    """Run the whole job on the embedded gateway, no key needed.

    A make-believe provider with a known truth answers on this machine; strategies race, and the three
    artefacts are on disk at the end. 'elometer run FOLDER' goes on with a demo that was stopped.
    """
    from elometer.cli.run import begin
    from elometer.jobs.demo import create_demo
    from elometer.jobs.prepare import prepare

    if plain and as_json:
        raise click.UsageError(_("Give one of --plain and --json."))
    if fault is None:
        prepared = prepare(create_demo(seed=seed))
        begin(ctx, prepared, plain=plain, as_json=as_json, detach=False, max_in_flight=max_in_flight)
        return
    if fault == LIST:
        _list()
        return
    _broken(ctx, fault or _choice(), plain=plain, as_json=as_json, seed=seed, max_in_flight=max_in_flight)


def _list() -> None:
    for number, row in enumerate(_faults(), 1):
        click.echo(f"{number}  {row.id:<21} {_(row.summary)}")


def _faults() -> tuple[Fault, ...]:
    from elometer.jobs.planted import known_faults

    return known_faults()


def _choice() -> str:
    """The fault that the user picks by number. Raises UsageError without a terminal."""
    _list()
    if not sys.stdin.isatty():
        raise click.UsageError(_("Name one of these faults: --break FAULT."))
    rows = _faults()
    number = click.prompt(_("Which one?"), type=click.IntRange(1, len(rows)), err=True)
    return rows[number - 1].id


def _broken(
    ctx: click.Context,
    name: str,
    *,
    plain: bool,
    as_json: bool,
    seed: int | None,
    max_in_flight: int | None,
) -> None:
    """Plant, check, say what was found; then start as the user would be let start."""
    from elometer.cli.run import begin
    from elometer.jobs.planted import plant
    from elometer.jobs.prepare import prepare

    planted = plant(name, seed=seed)
    _show(planted, err=as_json)
    asks = not plain and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    if planted.blocked and not asks:
        text = _("A start is refused. 'elometer run {folder} --force' begins it all the same.")
        click.echo(text.format(folder=planted.folder), err=True)
        ctx.exit(REFUSED)
    if asks and not click.confirm(
        _("Start it all the same?") if planted.blocked else _("Start it?"), default=not planted.blocked
    ):
        ctx.exit(REFUSED if planted.blocked else 0)
    try:
        begin(
            ctx,
            prepare(planted.folder),
            plain=plain,
            as_json=as_json,
            detach=False,
            max_in_flight=max_in_flight,
            force=planted.blocked,
        )
    finally:
        if not asks:
            _afterwards(planted, err=as_json)


def _show(planted: PlantedDemo, *, err: bool) -> None:
    from elometer.cli.check import lines_of, summary

    click.echo(
        _("Planted: {name}, {what}").format(name=planted.fault.id, what=_(planted.fault.summary)), err=True
    )
    for row in planted.complaints:
        for line in lines_of(row, verbose=True):
            click.echo(line, err=err)
    click.echo(summary(list(planted.rows)), err=True)


def _afterwards(planted: PlantedDemo, *, err: bool) -> None:
    """What the ledger of the start tells: some faults can be seen nowhere else."""
    from elometer.cli.check import lines_of
    from elometer.jobs.planted import named_by_the_ledger
    from elometer.jobs.why import highest, why

    if not (planted.folder / "token_ledger.jsonl").exists():
        return
    for row in named_by_the_ledger(planted.folder):
        for line in lines_of(row, verbose=True):
            click.echo(line, err=err)
    strategy = highest(planted.folder)
    click.echo(f"$ elometer why {planted.folder.name} {strategy}", err=err)
    click.echo(why(str(planted.folder), strategy).conclusion, err=err)
