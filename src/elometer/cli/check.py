"""`elometer check`: what stands in the way, with evidence and fix."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elometer.core.text import gettext as _
from elometer.core.text import ngettext

if TYPE_CHECKING:
    from elometer.checks.engine import Row

FAILED = 3
MARKS = {"pass": "✓", "warn": "!", "fail": "✗", "unknown": "?"}
COLOURS = {"pass": "green", "warn": "yellow", "fail": "red", "unknown": None}


@click.command(epilog="Example: elometer check --experiment experiment.yaml --live")
@click.option("--profile", "profile_name", metavar="NAME", help="Look at this profile only.")
@click.option("--tool", help="Which tool's profile, if names are shared.")
@click.option(
    "--experiment", metavar="FILE", type=click.Path(path_type=Path), help="Look at this experiment."
)
@click.option("--live", is_flag=True, help="Also ask the gateway; says first what that may cost.")
@click.option(
    "--ramp", is_flag=True, help="With --live: how many calls at once the gateway takes (at most 8)."
)
@click.option("--yes", is_flag=True, help="Do not ask before --live spends tokens.")
@click.option("--json", "as_json", is_flag=True, help="Print every row as JSON.")
@click.option("--verbose", "-v", is_flag=True, help="Show the evidence of passed rows too.")
@click.pass_context
def check(
    ctx: click.Context,
    profile_name: str | None,
    tool: str | None,
    experiment: Path | None,
    live: bool,
    ramp: bool,
    yes: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Name what stands in the way, with evidence and fix.

    Looks at keys, URLs, the environment of each client, models, limits, ledgers, files and the terminal.
    Nothing is sent without --live. Exit code 3 when a row fails.
    """
    from elometer.jobs.checks import Question, live_cost_tokens, run_all

    if ramp and not live:
        raise click.UsageError(_("--ramp asks the gateway: it goes with --live."))
    if live:
        cost = live_cost_tokens(ramp=ramp)
        click.echo(_("Asking the gateway may spend up to {n} tokens.").format(n=cost), err=True)
        if not yes and sys.stdin.isatty():
            click.confirm(_("Go on?"), abort=True, err=True)
    rows = run_all(Question(profile_name, tool, experiment), live=live, ramp=ramp)
    print_rows(rows, as_json=as_json, verbose=verbose)
    if any(row.status == "fail" for row in rows):
        ctx.exit(FAILED)


def print_rows(rows: list[Row], *, as_json: bool, verbose: bool) -> None:
    """Rows grouped by family, or all of them as JSON; the sum goes to stderr."""
    if as_json:
        click.echo(json.dumps([row.as_json() for row in rows], ensure_ascii=False, indent=2))
        return
    family = ""
    for row in rows:
        if row.check.family != family:
            family = row.check.family
            click.echo(click.style(family, bold=True))
        for line in lines_of(row, verbose=verbose):
            click.echo(line)
    click.echo(summary(rows), err=True)


def lines_of(row: Row, *, verbose: bool) -> Iterable[str]:
    """One line for what passed; question, cause, evidence and fix for what did not."""
    mark = click.style(f"{MARKS[row.status]} {_(row.status):<7}", fg=COLOURS[row.status])
    yield f"  {mark} {_(row.check.question)}  {click.style(row.check.id, dim=True)}"
    if row.status in ("warn", "fail"):
        yield f"            {row.result.cause}"
    if row.status in ("warn", "fail") or verbose:
        for line in row.result.evidence:
            yield f"            | {line}"
    if row.result.fix:
        yield f"            → {row.result.fix}"


def summary(rows: list[Row]) -> str:
    """`41 passed, 2 warnings, 0 failed, 4 not asked`."""
    count = {status: sum(row.status == status for row in rows) for status in MARKS}
    warnings = ngettext("{n} warning", "{n} warnings", count["warn"]).format(n=count["warn"])
    return _("{p} passed, {warnings}, {f} failed, {u} without an answer").format(
        p=count["pass"], warnings=warnings, f=count["fail"], u=count["unknown"]
    )
