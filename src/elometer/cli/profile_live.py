"""`elometer profile env|exec|import|export|switch|…`: profiles on their way to clients and back."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elometer.core import atomic
from elometer.core.text import gettext as _

if TYPE_CHECKING:
    from elometer.jobs.profiles import Preview

TOOL_NAMES = ("claude-code", "codex", "openai-compatible")
TOOL = click.option(
    "--tool", type=click.Choice(TOOL_NAMES), help="Which tool's profile, if names are shared."
)


@click.command(
    "import", epilog="Example: elometer profile import trio.json --key-source env:TAOTOKEN_API_KEY"
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--key-label", help="Give every profile of the file this one key.")
@click.option("--key-source", help="Where that key's value comes from, such as env:TAOTOKEN_API_KEY.")
@click.option(
    "--replace", "replace_existing", is_flag=True, help="Take the file's profile where one differs."
)
def import_file(file: Path, key_label: str | None, key_source: str | None, replace_existing: bool) -> None:
    """Import a trio FILE, or a CC Switch database (read from a private copy)."""
    from elometer.jobs import profiles as job

    report = job.import_profiles(
        file, key_label=key_label, key_source=key_source, replace_existing=replace_existing
    )
    for profile in report.added:
        click.echo(f"{profile.name}  {profile.tool}  {profile.effective_url}  {profile.key or '-'}")
    for name in report.unchanged:
        click.echo(_("{name}: already there, unchanged").format(name=name))
    for label in report.new_keys:
        click.echo(_("New key '{label}'").format(label=label))
    for name in report.unset:
        click.echo(_("{name}: no key yet (a placeholder stood there)").format(name=name), err=True)
    for note in report.notes:
        click.echo(note, err=True)


@click.command("export", epilog="Example: elometer profile export > trio.json")
@click.argument("names", nargs=-1)
@TOOL
@click.option("--with-keys", is_flag=True, help="Write key values too; without it each is YOUR_API_KEY.")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="A file of mode 0600 instead of stdout."
)
def export_profiles(names: tuple[str, ...], tool: str | None, with_keys: bool, output: Path | None) -> None:
    """Print the trio form of all profiles, or of NAMES, in the order in which they came."""
    from elometer.jobs import profiles as job

    if output is None and with_keys:
        _no_screen(_("Keys do not belong on a screen: use --output FILE."))
    text = job.export_profiles(names, tool=tool, with_keys=with_keys)
    if output is None:
        click.echo(text, nl=False)
    else:
        atomic.replace_file(output, text.encode())


def _no_screen(message: str) -> None:
    """Refuse to show keys; into a pipe or a file they may go, since that was asked for."""
    if sys.stdout.isatty():
        raise click.UsageError(message)


@click.command(epilog='Example: eval "$(elometer profile env taotoken-claude-bt-eval)"')
@click.argument("name", required=False)
@TOOL
@click.option("--shell", type=click.Choice(("sh", "bash", "zsh", "fish")), default="sh", help="Whose syntax.")
def env(name: str | None, tool: str | None, shell: str) -> None:
    """Print lines for eval: unset the other families' variables, then export NAME's (or the default's)."""
    from elometer.jobs import profiles as job

    if sys.stdout.isatty():
        command = f'eval "$(elometer profile env {name or ""}'.rstrip() + ')"'
        _no_screen(_("The lines hold a key and are for eval: {command}").format(command=command))
    lines = job.env_lines(name, tool=tool, shell=shell)
    for note in job.env_notes(name, tool):
        click.echo(note, err=True)
    click.echo(lines, nl=False)


@click.command("exec", epilog="Example: elometer profile exec taotoken-claude-bt-eval -- claude -p 'say ok'")
@click.option("--tool", type=click.Choice(TOOL_NAMES), help="Which tool's profile, if names are shared.")
@click.option("--with-my-settings", is_flag=True, help="Copy my settings, without credentials, first.")
@click.option("--stdin", "read_stdin", is_flag=True, help="Let a headless client read standard input.")
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def exec_profile(
    name: str, command: tuple[str, ...], tool: str | None, with_my_settings: bool, read_stdin: bool
) -> None:
    """Run CMD under NAME in a clean environment; without CMD the tool's client, or a shell.

    The key travels in the environment only. The client gets a private folder in place of its usual one.
    """
    from elometer.jobs import profiles as job

    prepared = job.prepare(name, command, tool=tool, with_my_settings=with_my_settings)
    for note in prepared.notes:
        click.echo(note, err=True)
    job.become(prepared.launch, read_stdin=read_stdin)


@click.command(epilog="Example: elometer profile check taotoken-claude-bt-eval")
@click.argument("name", required=False)
@TOOL
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(name: str | None, tool: str | None, as_json: bool) -> None:
    """Run NAME's real client against a loopback recorder and show which credential went where.

    The key is made up for the test. Exit 0: one credential, one host. 3: a leak. 5: nothing could be seen.
    """
    from elometer.jobs import profiles as job

    result = job.check_profile(name, tool=tool)
    if as_json:
        click.echo(json.dumps(asdict(result), indent=2))
    else:
        click.echo(f"{result.status}: {result.profile} ({result.tool}): {result.reason}")
        for sighting in result.sightings:
            click.echo(f"  {sighting.line()}")
    if result.status != "pass":
        raise click.exceptions.Exit({"fail": 3}.get(result.status, 5))


def _show(preview: Preview) -> None:
    """The masked field difference, with what should be known before a yes."""
    plan = preview.plan
    click.echo(str(plan.path) if plan.path is not None else _("the store's default profile"))
    for change in plan.changes:
        if change.before is not None:
            click.echo(f"- {change.field} = {change.before}")
        if change.after is not None:
            click.echo(f"+ {change.field} = {change.after}")
    if plan.changes_nothing:
        click.echo(_("(nothing changes)"))
    for note in plan.notes:
        click.echo(note)
    for warning in preview.warnings:
        click.echo(_("warning: {text}").format(text=warning), err=True)


def _consent(yes: bool) -> bool:
    """A yes by flag or by key. Without a terminal and without the flag nothing is written."""
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(_("Nothing was written: without a terminal, say --yes."))
    return click.confirm(_("Write this?"))


@click.command(epilog="Example: elometer profile switch taotoken-claude-bt-eval --dry-run")
@click.argument("name")
@TOOL
@click.option("--dry-run", is_flag=True, help="Show the difference and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def switch(name: str, tool: str | None, dry_run: bool, yes: bool) -> None:
    """Make NAME what its tool lives by: only our fields of its file change, shown first, undoable."""
    from elometer.jobs import profiles as job

    preview = job.preview_switch(name, tool=tool)
    _show(preview)
    if dry_run:
        return
    if not _consent(yes):
        raise click.exceptions.Exit(130)
    job.apply(preview)
    click.echo(_("Switched to '{name}'. Take it back with 'elometer profile undo'.").format(name=name))
    for step in preview.next_steps:
        click.echo(step)


@click.command(epilog="Example: elometer profile diff taotoken-codex-bt-eval")
@click.argument("name")
@TOOL
def diff(name: str, tool: str | None) -> None:
    """Show what a switch to NAME would change; nothing is written."""
    from elometer.jobs import profiles as job

    preview = job.preview_switch(name, tool=tool)
    _show(preview)
    for step in preview.next_steps:
        click.echo(step, err=True)


@click.command(epilog="Example: elometer profile undo --yes")
@click.option("--dry-run", is_flag=True, help="Show the difference and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def undo(dry_run: bool, yes: bool) -> None:
    """Take back one switch, newest first over all tools: the file's bytes and mode from before."""
    from elometer.jobs import profiles as job

    preview = job.preview_undo()
    _show(preview)
    if dry_run:
        return
    if not _consent(yes):
        raise click.exceptions.Exit(130)
    job.apply(preview)
    click.echo(_("The switch to '{name}' is taken back.").format(name=preview.plan.profile))
    for step in preview.next_steps:
        click.echo(step)


@click.command(epilog="Example: elometer profile pristine ~/.claude/settings.json > settings.json.before")
@click.argument("file", required=False)
def pristine(file: str | None) -> None:
    """Print FILE as it was before the first switch ever; without FILE list the copies that are kept.

    What the file held then may contain keys; that is why the copies are sealed on disk.
    """
    from elometer.core.paths import expanded
    from elometer.jobs import profiles as job

    if file is None:
        for path, kept in job.pristine_files().items():
            click.echo(f"{path}  {kept.at}")
        return
    _no_screen(_("The file may hold keys, which do not belong on a screen: redirect it into a file."))
    click.echo(job.pristine(str(expanded(file).resolve())), nl=False)


@click.command(epilog="Example: elometer profile drift --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def drift(as_json: bool) -> None:
    """Show what each tool lives by now: file, key, what differs, what overrides."""
    from elometer.jobs import profiles as job

    states = job.drift()
    if as_json:
        click.echo(json.dumps([asdict(state) for state in states], indent=2))
        return
    for state in states:
        whose = ", ".join(state.key_labels) or _("no key of the store")
        key = f"{state.fingerprint} ({whose})" if state.fingerprint else _("no key")
        click.echo(
            f"{state.tool}: {state.profile or '-'}  {state.base_url or '-'}  {state.model or '-'}  {key}"
        )
        if state.path is not None:
            click.echo(f"  {state.path}")
        for line in state.drift:
            click.echo(_("  drift: {line}").format(line=line))
        for line in state.overrides:
            click.echo(_("  overrides: {line}").format(line=line))
