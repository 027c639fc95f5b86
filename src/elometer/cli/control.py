"""`elometer control`: ask a running start for something."""

from __future__ import annotations

import click

from elometer.core.text import gettext as _

STATES = {"pause": "paused", "resume": "running", "stop": "stopping"}


@click.command(epilog="Example: elometer control bt-math-007 cap 4")
@click.argument("identity", metavar="ID")
@click.argument("verb", type=click.Choice([*STATES, "cap"]))
@click.argument("number", metavar="[N]", type=int, required=False)
def control(identity: str, verb: str, number: int | None) -> None:
    """Pause, resume or stop a running start, or set its cap.

    The start takes it over within a quarter of a second; a stop lets calls in flight come back.
    """
    from elometer.jobs.control import set_limit, set_state
    from elometer.jobs.places import find_experiment

    if (verb == "cap") != (number is not None):
        raise click.UsageError(_("'cap' needs a number of calls, the other words take none."))
    folder = find_experiment(identity)
    asked = set_limit(folder, number) if number is not None else set_state(folder, STATES[verb])  # type: ignore[arg-type]
    cap = "" if asked.limit is None else _(", cap {n}").format(n=asked.limit)
    if number is not None and asked.bound is not None and number > asked.bound:
        cap += " " + _("(the key allows no more)")
    click.echo(_("Asked for: {state}{cap}").format(state=asked.state, cap=cap), err=True)
