"""`elometer demo`: the whole job without a key."""

from __future__ import annotations

import click


@click.command(epilog="Example: elometer demo --plain")
@click.option("--plain", is_flag=True, help="Progress lines on stderr, the table on stdout; no app.")
@click.option("--json", "as_json", is_flag=True, help="One event a line on stdout, as in events.jsonl.")
@click.option("--seed", type=click.IntRange(0), help="Seed of tasks, truth and samples; random by default.")
@click.option("--max-in-flight", type=click.IntRange(1), help="A fixed cap of calls in flight.")
@click.pass_context
def demo(ctx: click.Context, plain: bool, as_json: bool, seed: int | None, max_in_flight: int | None) -> None:
    """Run the whole job on the embedded gateway, no key needed.

    A make-believe provider with a known truth answers on this machine; strategies race, and the three
    artefacts are on disk at the end. 'elometer run FOLDER' goes on with a demo that was stopped.
    """
    from elometer.cli.run import begin
    from elometer.jobs.demo import create_demo
    from elometer.jobs.prepare import prepare

    prepared = prepare(create_demo(seed=seed))
    begin(ctx, prepared, plain=plain, as_json=as_json, detach=False, max_in_flight=max_in_flight)
