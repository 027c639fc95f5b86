"""`elometer fit`: from pair records, or from a table of tokens and Elo, to Elo per token."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from elometer.core.text import gettext as _

FILE = click.Path(path_type=Path)
# The closed sets of elometer.rating.options, written out so that --help needs no numpy.
ESTIMATORS = ("firth", "mle", "davidson")
TIES = ("half", "drop", "davidson")
AGGREGATIONS = ("pooled", "per-task", "per-task-standardised")


class DashedChoice(click.Choice[str]):
    """A choice that also takes underscores for dashes, as experiment.yaml is often written."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The choice with dashes."""
        return super().convert(str(value).replace("_", "-"), param, ctx)


@click.command(
    epilog="Example: elometer fit pairwise_records.jsonl --ledger token_ledger.jsonl --csv out.csv"
)
@click.argument("records", type=FILE, required=False)
@click.option("--table", type=FILE, help="A CSV of strategy, total_tokens, elo: print the founding columns.")
@click.option("--ledger", type=FILE, help="The token ledger of the same experiment.")
@click.option("--estimator", type=click.Choice(ESTIMATORS), default="firth", show_default=True)
@click.option("--ties", type=click.Choice(TIES), default="half", show_default=True)
@click.option("--aggregation", type=DashedChoice(AGGREGATIONS), default="pooled", show_default=True)
@click.option("--anchor", help="The strategy whose Elo is the base.  [default: first in natural order]")
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--elo-base", type=float, default=1000.0, show_default=True)
@click.option("--elo-scale", type=float, default=400.0, show_default=True)
@click.option("--position", is_flag=True, help="Add a term for being shown first (a of each record).")
@click.option(
    "--generalise",
    type=click.Choice(("tasks", "runs")),
    default="tasks",
    show_default=True,
    help="What intervals speak of: further tasks, or further runs of these.",
)
@click.option("--task-weight", type=click.Choice(("equal", "records")), default="equal", show_default=True)
@click.option("--knee-margin", type=float, default=25.0, show_default=True, help="In Elo.")
@click.option("--profile-as-elo", is_flag=True, help="Print a standardised profile as Elo all the same.")
@click.option("--more", is_flag=True, help="Also other choices, ranks, P(better), influence and drift.")
@click.option("--json", "as_json", is_flag=True, help="One object on stdout.")
@click.option("--csv", "csv_file", type=FILE, help="Write elo_result.csv to this file ('-': stdout).")
def fit(
    records: Path | None,
    table: Path | None,
    ledger: Path | None,
    more: bool,
    as_json: bool,
    csv_file: Path | None,
    **choices: Any,
) -> None:
    """Fit Bradley-Terry to pair records and print Elo per token.

    RECORDS is JSONL of pair records, of {"winner","loser"} or of [winner, loser], or a two-column CSV.
    Numbers that the data do not bound are marked; the exit code is 0 for them too.
    """
    if as_json and csv_file == Path("-"):
        raise click.UsageError(_("--json and --csv - both want stdout; give --csv a file."))
    if (records is None) == (table is None):
        raise click.UsageError(_("Give either RECORDS or --table FILE."))
    if table is not None:
        if ledger is not None:
            raise click.UsageError(_("--ledger goes with RECORDS; a table brings its own tokens."))
        _refuse_given("more", *choices)
        _print_table(table, as_json=as_json, csv_file=csv_file)
        return
    assert records is not None
    _print_fit(records, ledger, choices, more=more, as_json=as_json, csv_file=csv_file)


def _refuse_given(*names: str) -> None:
    """Options of the fit beside --table would have no effect."""
    source = click.get_current_context().get_parameter_source
    given = ["--" + name.replace("_", "-") for name in names if source(name) is ParameterSource.COMMANDLINE]
    if given:
        message = _("{options}: goes with RECORDS; a table is printed, not fitted.")
        raise click.UsageError(message.format(options=", ".join(given)))


def _print_fit(
    records: Path,
    ledger: Path | None,
    choices: dict[str, Any],
    *,
    more: bool,
    as_json: bool,
    csv_file: Path | None,
) -> None:
    from elometer.jobs.fit import fit_file, write_csv
    from elometer.rating.details import details, details_json, details_text
    from elometer.rating.options import FitOptions
    from elometer.rating.report import csv_text, fit_json, text_table

    result = fit_file(records, ledger=ledger, options=FitOptions(**choices))
    to_stdout = csv_file == Path("-")
    if csv_file is not None and not to_stdout:
        write_csv(result, csv_file)
        click.echo(_("Wrote {path}").format(path=csv_file), err=True)
    views = details(result) if more else None
    if as_json:
        made = fit_json(result) | ({} if views is None else {"details": details_json(views)})
        click.echo(json.dumps(made, indent=2, ensure_ascii=False, allow_nan=False))
    elif to_stdout:
        click.echo(csv_text(result), nl=False)
    else:
        width = shutil.get_terminal_size().columns
        click.echo(text_table(result, width=width), nl=False)
        if views is not None:
            click.echo("\n" + details_text(result, views, width=width), nl=False)


def _print_table(table: Path, *, as_json: bool, csv_file: Path | None) -> None:
    from elometer.jobs.fit import write_text
    from elometer.rating.table import table_csv, table_from_csv, table_json, table_text

    rows = table_from_csv(table)
    to_stdout = csv_file == Path("-")
    if csv_file is not None and not to_stdout:
        write_text(table_csv(rows), csv_file)
        click.echo(_("Wrote {path}").format(path=csv_file), err=True)
    if as_json:
        click.echo(json.dumps(table_json(rows), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        click.echo(table_csv(rows) if to_stdout else table_text(rows), nl=False)
