"""`elometer plan`: what an experiment will take and what it can show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from elometer.core.text import gettext as _

if TYPE_CHECKING:
    from elometer.runs.plan import Plan

PLANS = {
    "independent": _("independent: no bias; each strategy makes its own calls"),
    "nested": _("nested: no bias as paired: within a run for 0/1 scores and ties half, else across runs"),
    "pool": _("pool: no bias; strategies meet on disjoint subsets of the draws"),
}


@click.command(epilog="Example: elometer plan experiment.yaml --tokens elo_result.csv")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--tokens",
    metavar="TABLE.csv",
    type=click.Path(path_type=Path),
    help="Totals of an earlier experiment: the columns strategy and total_tokens.",
)
@click.option("--json", "as_json", is_flag=True, help="One object on stdout.")
def plan(file: Path, tokens: Path | None, as_json: bool) -> None:
    """Validate an experiment and count what it will cost.

    FILE is an experiment.yaml, a folder that holds one, or an id of the workspace. Tasks need not be written
    yet. Findings do not change the exit code; a file that cannot be read as an experiment does.
    """
    from elometer.jobs.plan import plan as make

    made = make(file, tokens)
    if as_json:
        import json
        from dataclasses import asdict

        click.echo(json.dumps(asdict(made), ensure_ascii=False, indent=2))
        return
    print_plan(made)


def print_plan(made: Plan) -> None:
    """What it will take, what it can show, and the findings."""
    for name, value in _rows(made):
        click.echo(f"{name:<22}{value}")
    for finding in made.findings:
        click.echo()
        click.echo(f"{finding.code}: {finding.message}")
        for line in (finding.evidence, finding.fix):
            click.echo(f"  {line}")


def _rows(made: Plan) -> list[tuple[str, str]]:
    per_block = ", ".join(f"{name} {calls}" for name, calls in made.calls_per_block.items())
    unknown = _("not known: run a first block, or give --tokens TABLE.csv")
    tokens = unknown if made.tokens_low is None else f"{made.tokens_low:,}"
    if made.tokens_low is not None and made.tokens_high != made.tokens_low:
        tokens += f" – {made.tokens_high:,}"
    if made.tokens_source:
        tokens += f"  ({made.tokens_source})"
    detectable = _("none: no difference could be shown")
    if made.detectable_delta_elo is not None:
        detectable = _("{elo:.0f} (power 80 %, two-sided 5 %, over tasks; score SD {sd:.2f} assumed)").format(
            elo=made.detectable_delta_elo, sd=made.score_sd
        )
    return [
        (_("blocks"), f"{made.blocks:,} = {made.tasks:,} × {made.runs:,}  " + _("(tasks × runs)")),
        (_("calls"), f"{made.calls:,}  ({per_block})"),
        (_("sampling plan"), PLANS[made.sampling_plan]),
        (_("tokens"), tokens),
        (_("days under budget"), "–" if made.days is None else str(made.days)),
        (_("detectable ΔElo"), detectable),
        (_("findings"), str(len(made.findings))),
    ]
