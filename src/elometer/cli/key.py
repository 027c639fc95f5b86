"""`elometer key`: name keys, say where they come from and what they may do. A value is never an argument."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from elometer.core.text import gettext as _

if TYPE_CHECKING:
    from elometer.profiles.keys import KeyState


@click.group(epilog="Example: elometer key add bt-eval --source env:TAOTOKEN_API_KEY --max-concurrency 8")
def key() -> None:
    """Name keys, their sources and their boundaries."""


def _boundary_options(command: Any) -> Any:
    options = (
        click.option("--allowed-model", "allowed_models", multiple=True, help="A model it may use (repeat)."),
        click.option("--daily-budget-tokens", type=click.IntRange(min=1), help="Spent tokens per day."),
        click.option("--max-concurrency", type=click.IntRange(min=1), help="Calls in flight at once."),
        click.option("--expires-at", help="A date (its whole day counts) or a time."),
        click.option("--timezone", help="Whose days count, such as Europe/Berlin (default UTC)."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """The limits that were named on the command line."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items() if v not in (None, ())}


def _value(from_stdin: bool) -> str:
    """The key's value from standard input or a prompt without echo; one line end is dropped."""
    if from_stdin:
        return sys.stdin.read().removesuffix("\n").removesuffix("\r")
    return str(click.prompt(_("Key"), hide_input=True, err=True))


_VALUE_OPTIONS = (
    click.option("--source", help="env:NAME, file:PATH, cmd:ARGV or keyring:SERVICE/USER."),
    click.option("--stdin", "from_stdin", is_flag=True, help="Read the value from standard input."),
    click.option("--prompt", is_flag=True, help="Ask for the value without echo."),
)


def _value_options(command: Any) -> Any:
    for option in reversed(_VALUE_OPTIONS):
        command = option(command)
    return command


def _one_way(source: str | None, from_stdin: bool, prompt: bool) -> None:
    if sum((source is not None, from_stdin, prompt)) > 1:
        raise click.UsageError(_("Use one of --source, --stdin and --prompt."))


@key.command(epilog="Example: elometer key add bt-eval --source env:TAOTOKEN_API_KEY --expires-at 2026-12-31")
@click.argument("label")
@_value_options
@_boundary_options
def add(label: str, source: str | None, from_stdin: bool, prompt: bool, **limits: Any) -> None:
    """Add a key LABEL with its source and boundary."""
    from elometer.jobs import profiles as job

    _one_way(source, from_stdin, prompt)
    value = _value(from_stdin) if from_stdin or prompt else None
    added = job.add_key(label, source=source, value=value, boundary=_given(limits))
    click.echo(
        _("Key '{label}' added: {source}").format(label=label, source=added.source or _("no source yet"))
    )


@key.command("set-source", epilog="Example: elometer key set-source bt-eval --stdin < key.txt")
@click.argument("label")
@click.argument("source", required=False)
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the value from standard input.")
@click.option("--prompt", is_flag=True, help="Ask for the value without echo.")
def set_source(label: str, source: str | None, from_stdin: bool, prompt: bool) -> None:
    """Change where the value of LABEL comes from; --stdin and --prompt keep it in the secret store."""
    from elometer.jobs import profiles as job

    _one_way(source, from_stdin, prompt)
    if source is None and not (from_stdin or prompt):
        raise click.UsageError(_("Name a source, or use --stdin or --prompt."))
    value = None if source is not None else _value(from_stdin)
    changed = job.set_key_source(label, source=source, value=value)
    click.echo(_("Key '{label}' now comes from {source}").format(label=label, source=changed.source))


@key.command("set-boundary", epilog="Example: elometer key set-boundary bt-eval --max-concurrency 4")
@click.argument("label")
@_boundary_options
@click.option("--clear", multiple=True, help="A limit to take away (repeat).")
def set_boundary(label: str, clear: tuple[str, ...], **limits: Any) -> None:
    """Change what LABEL may do."""
    from elometer.jobs import profiles as job

    changed = job.set_key_boundary(label, {**dict.fromkeys(clear), **_given(limits)})
    click.echo(json.dumps(job.boundary_json(changed.boundary)))


@key.command(epilog="Example: elometer key remove old-label")
@click.argument("label")
def remove(label: str) -> None:
    """Take LABEL out of the store, and its value out of the secret store."""
    from elometer.jobs import profiles as job

    job.remove_key(label)
    click.echo(_("Key '{label}' removed.").format(label=label))


def _json_row(state: Any) -> dict[str, Any]:
    from elometer.jobs import profiles as job

    return {
        "label": state.key.label,
        "source": state.key.source,
        "fingerprint": state.fingerprint,
        "boundary": job.boundary_json(state.boundary),
        "problems": [asdict(problem) for problem in state.problems],
    }


@key.command("list", epilog="Example: elometer key list --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_keys(as_json: bool) -> None:
    """List the keys by fingerprint; the same key under two labels is reported."""
    from elometer.jobs import profiles as job
    from elometer.profiles.store import Store

    states = list(job.key_states(Store.load()).values())
    if as_json:
        click.echo(json.dumps([_json_row(state) for state in states], indent=2))
    else:
        for state in states:
            limit = state.boundary.expires_at
            until = _("until {when}").format(when=limit.isoformat()) if limit else ""
            columns = (state.key.label, state.fingerprint or "--------", state.key.source or "-", until)
            click.echo("  ".join(columns).rstrip())
        if not states:
            click.echo(_("No keys yet: elometer key add LABEL --source env:NAME"), err=True)
    for labels in job.same_key_labels(states):
        click.echo(_("One and the same key: {labels}").format(labels=", ".join(labels)), err=True)


@key.command(epilog="Example: elometer key show bt-eval")
@click.argument("label")
def show(label: str) -> None:
    """Show source, fingerprint, boundary and users of LABEL as JSON; never its value."""
    from elometer.jobs import profiles as job
    from elometer.profiles.store import Store

    store = Store.load()
    store.key(label)
    row = _json_row(job.key_states(store)[label])
    row["profiles"] = [profile.name for profile in store.profiles if profile.key == label]
    click.echo(json.dumps(row, indent=2))


@key.command(epilog="Example: elometer key check")
@click.argument("labels", nargs=-1)
@click.option("--tighten", is_flag=True, help="Remove group and other permissions from files that hold keys.")
@click.option("--rebuild", is_flag=True, help="Set the account of today to what the ledgers show.")
def check(labels: tuple[str, ...], tighten: bool, rebuild: bool) -> None:
    """Check that each key can be read and sent as it is; exit 3 where one cannot."""
    from elometer.jobs import profiles as job
    from elometer.profiles.store import Store

    store = Store.load()
    for label in labels:
        store.key(label)
    states = [s for label, s in job.key_states(store).items() if not labels or label in labels]
    failed = False
    for state in states:
        failed |= any(problem.severity == "fail" for problem in state.problems)
        severities = {problem.severity for problem in state.problems}
        word = "fail" if "fail" in severities else "warn" if severities else "ok"
        click.echo(f"{state.key.label}: {state.fingerprint or '--------'} {word}")
        for problem in state.problems:
            click.echo(f"  {problem.severity}: {problem.message} {problem.fix}".rstrip())
        _show_account(state, rebuild=rebuild)
    if rebuild and not labels:
        _rebuild_the_rest(states)
    for path, mode in job.open_key_files(states):
        click.echo(_("{path} holds a key and others may read it (mode {m:o}).").format(path=path, m=mode))
        if tighten:
            job.tighten(path)
            click.echo(_("Now {m:o}.").format(m=0o600))
        else:
            click.echo(_("  elometer key check --tighten removes their permission."))
    if failed:
        raise click.exceptions.Exit(3)


def _show_account(state: KeyState, *, rebuild: bool) -> None:
    from elometer.jobs import account

    if rebuild and (changed := account.rebuild(state)) is not None:
        click.echo(_("  account of today: {before:,} tokens, now {after:,}").format(
            before=changed[0], after=changed[1]
        ))  # fmt: skip
        return
    day = account.today(state)
    if day is None or not (day.spent or day.budget):
        return
    budget = "" if day.budget is None else _(" of {budget:,}").format(budget=day.budget)
    line = _("  {day}: {spent:,}{budget} tokens spent").format(day=day.day, spent=day.spent, budget=budget)
    if day.spent != day.ledgers:
        line += _(" ({shown:,} in ledgers; --rebuild sets it to that)").format(shown=day.ledgers)
    click.echo(line)


def _rebuild_the_rest(states: list[KeyState]) -> None:
    """Accounts of keys that ledgers know and the store does not, such as those of an environment variable."""
    from elometer.jobs import account

    for name, (before, after) in account.rebuild_others({state.fingerprint for state in states}).items():
        click.echo(_("{name} (not in the store)").format(name=name))
        click.echo(
            _("  account of today: {before:,} tokens, now {after:,}").format(before=before, after=after)
        )
