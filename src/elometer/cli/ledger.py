"""`elometer ledger`: sum, show, verify, add and export token ledgers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from elometer.cli.columns import print_columns
from elometer.core.text import gettext as _
from elometer.core.text import ngettext

BY = ("strategy", "model", "task", "phase", "key_fp", "day")


@click.group(epilog="Example: elometer ledger totals --by model")
def ledger() -> None:
    """Sum, show, verify and export token ledgers.

    ID is an experiment_id, a run_id (its experiment's whole ledger is meant), a folder or a path. Without
    one: all ledgers of the workspace and its imports.
    """


@ledger.command(epilog="Example: elometer ledger totals bt-eval-001 --by model")
@click.argument("identities", metavar="[ID|PATH]...", nargs=-1)
@click.option("--by", type=click.Choice(BY), default="strategy", show_default=True, help="What a row is.")
@click.option("--founding", "as_founding", is_flag=True, help="The rows of the founding jq: a line is a run.")
@click.option("--json", "as_json", is_flag=True, help="One array on stdout.")
def totals(identities: tuple[str, ...], by: str, as_founding: bool, as_json: bool) -> None:
    """Sum tokens by strategy, model, task, phase, key or UTC day.

    Each line counts once. A call that strategies share stands under its owner; what each is charged is in
    elo_result.csv and in `elometer ledger export --expand`.
    """
    from elometer.jobs.ledger import chosen
    from elometer.ledger import totals as job
    from elometer.ledger.reader import BadLine

    paths = chosen(identities)
    if as_founding:
        if by != "strategy":
            raise click.UsageError(_("--founding sums by strategy."))
        bad: list[BadLine] = []
        rows = job.founding(paths, bad)
        skipped = len(bad)
    else:
        result = job.totals(paths, by)
        rows = [row.as_json() for row in result.rows]
        skipped = result.bad_lines
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        _print_totals(rows)
    if skipped:
        _say_skipped(skipped)


_HEADERS = {
    "prompt_tokens": "prompt",
    "completion_tokens": "completion",
    "total_tokens": "total",
    "avg_tokens": "per run",
    "failed_attempts": "failed",
    "unknown_usage_lines": "no usage",
    "estimated_tokens": "estimated",
    "cached_tokens": "cached",
    "reasoning_tokens": "reasoning",
}


def _print_totals(rows: list[dict[str, Any]]) -> None:
    if not rows:
        click.echo(_("The ledger has no lines yet."), err=True)
        return
    # Columns in which every row is 0 or unknown say nothing on a screen; --json has them all.
    rare = ("failed_attempts", "unknown_usage_lines", "estimated_tokens", "cached_tokens", "reasoning_tokens")
    names = [name for name in rows[0] if name not in rare or any(row[name] for row in rows)]
    print_columns(
        [_(_HEADERS.get(name, name)) for name in names], [[row[name] for name in names] for row in rows]
    )


@ledger.command(epilog="Example: elometer ledger tail 50 bt-eval-001")
@click.argument("words", metavar="[N] [ID|PATH]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="The lines as they stand in the file.")
def tail(words: tuple[str, ...], as_json: bool) -> None:
    """Show the last N (20) lines, with the model that served each."""
    from elometer.jobs.ledger import as_record, chosen
    from elometer.jobs.ledger import tail as job

    count, identities = (int(words[0]), words[1:]) if words and words[0].isdecimal() else (20, words)
    lines = job(chosen(identities), count)
    if as_json:
        for line in lines:
            click.echo(line)
        return
    fields = ("timestamp", "experiment_id", "strategy", "task", "run", "model", "phase", "status")
    numbers = ("prompt_tokens", "completion_tokens", "total_tokens")
    records = [as_record(line) for line in lines]
    rows = [[record.get(name) for name in (*fields, *numbers)] for record in records if record is not None]
    headers = [*fields, *(_(_HEADERS[name]) for name in numbers)]
    print_columns(headers, rows, left=len(fields))
    if len(rows) < len(records):
        _say_skipped(len(records) - len(rows))


@ledger.command(epilog="Example: elometer ledger verify bt-eval-001")
@click.argument("identities", metavar="[ID|PATH]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One array on stdout.")
def verify(identities: tuple[str, ...], as_json: bool) -> None:
    """Look for torn lines, missing fields, wrong sums and calls answered twice; exit 6 on damage."""
    from elometer.core.errors import VerificationError
    from elometer.jobs.ledger import chosen, damage

    paths = chosen(identities)
    found = list(damage(paths))
    if as_json:
        rows = [
            {"path": str(item.path), "line": item.line, "offset": item.offset, "kind": item.kind,
             "message": item.message} for item in found
        ]  # fmt: skip
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        for item in found:
            click.echo(f"{item.path}:{item.line}: {item.kind}: {item.message}")
    if found:
        raise VerificationError(
            ngettext("{n} damaged line was found.", "{n} findings in the ledgers.", len(found)).format(
                n=len(found)
            ),
            evidence=_("First: line {line} of {path}.").format(line=found[0].line, path=found[0].path),
            fix=_("Sums skip lines that are torn. Keep the file as it is; the archive has its digest."),
        )
    sound = ngettext("{n} ledger holds what it says.", "{n} ledgers hold what they say.", len(paths))
    click.echo(sound.format(n=len(paths)), err=True)


@ledger.command(epilog="Example: my-agent --usage-jsonl | elometer ledger add")
@click.argument("source", metavar="[PATH]", required=False, type=click.Path(path_type=Path))
@click.option("--to", "identity", metavar="ID|PATH", help="One ledger for all lines, whatever they name.")
def add(source: Path | None, identity: str | None) -> None:
    """Append lines with the nine founding fields, from PATH or standard input.

    Each goes to the ledger of its experiment_id in the workspace. Nothing is written if a line does not fit.
    """
    from elometer.jobs.ledger import add as job
    from elometer.jobs.places import ledgers
    from elometer.ledger.reader import file_lines

    to = ledgers(identity)[0] if identity else None
    named = source is not None and str(source) != "-"
    added = job(file_lines(source) if named and source is not None else sys.stdin.buffer, to=to)
    for path, count in added.lines.items():
        words = ngettext("{n} line added to {path}", "{n} lines added to {path}", count)
        click.echo(words.format(n=count, path=path), err=True)
    if added.known:
        words = ngettext("{n} line was there already.", "{n} lines were there already.", added.known)
        click.echo(words.format(n=added.known), err=True)


@ledger.command(epilog="Example: elometer ledger export bt-eval-001 --format csv --output ledger.csv")
@click.argument("identities", metavar="[ID|PATH]...", nargs=-1)
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
@click.option(
    "--expand",
    is_flag=True,
    help="A line per use: calls that strategies share are repeated with spent: false.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="A file; stdout without it.")
def export(identities: tuple[str, ...], form: Any, expand: bool, output: Path | None) -> None:
    """Write ledgers as JSON Lines or CSV, every field of every line.

    Under the sampling plans nested and pool a call is paid once and used by several strategies. With
    --expand the founding jq over the output gives what each is charged, as elo_result.csv has it.
    """
    from elometer.jobs.ledger import chosen
    from elometer.jobs.ledger import export as job
    from elometer.ledger.reader import BadLine

    bad: list[BadLine] = []
    pieces = job(chosen(identities), form, bad, expand=expand)
    if output is None:
        for piece in pieces:
            click.echo(piece, nl=False)
    else:
        from elometer.core.atomic import replace_file

        replace_file(output, b"".join(pieces))
    if bad:
        _say_skipped(len(bad))


@ledger.command("import", epilog="Example: elometer ledger import claude-code")
@click.argument("tool", type=click.Choice(["claude-code", "codex"]))
@click.argument("sources", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="What was counted and skipped, on stdout.")
def import_(tool: str, sources: tuple[Path, ...], as_json: bool) -> None:
    """Read a client's own session files into a ledger."""
    from elometer.core.errors import NotSupportedYet

    raise NotSupportedYet(
        _("Session files of {tool} cannot be imported yet.").format(tool=tool),
        evidence=_("This version has no importer."),
        fix=_("Lines with the nine founding fields are taken by 'elometer ledger add'."),
    )


def _say_skipped(count: int) -> None:
    text = ngettext(
        "{n} damaged line was skipped; 'elometer ledger verify' names it.",
        "{n} damaged lines were skipped; 'elometer ledger verify' names them.",
        count,
    )
    click.echo(text.format(n=count), err=True)
