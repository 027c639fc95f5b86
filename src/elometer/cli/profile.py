"""`elometer profile`: what the store holds, and the way in and out of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from elometer.cli import profile_live as live
from elometer.cli.profile_live import TOOL, TOOL_NAMES
from elometer.core.text import gettext as _

if TYPE_CHECKING:
    from elometer.profiles.model import Problem


@click.group(epilog="Example: elometer profile add --from taotoken --key bt-eval")
def profile() -> None:
    """List, switch and launch client profiles."""


def say_problems(problems: Iterable[Problem]) -> None:
    """Problems on stderr, one a line, the fix after it."""
    for problem in problems:
        click.echo(f"{problem.severity}: {problem.message} {problem.fix}".rstrip(), err=True)


@profile.command("list", epilog="Example: elometer profile list --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--presets", "show_presets", is_flag=True, help="List what 'profile add --from' can start from."
)
def list_profiles(as_json: bool, show_presets: bool) -> None:
    """List the profiles of the store: tool, effective URL, key, whether it is active."""
    from elometer.jobs import profiles as job

    if show_presets:
        _list_presets(as_json)
        return
    rows = job.list_profiles()
    if as_json:
        click.echo(json.dumps([row.as_json() for row in rows], indent=2))
        return
    if not rows:
        click.echo(_("No profiles yet: elometer profile add --from taotoken"), err=True)
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        mark = "*" if row.active else " "
        key = f"{row.key_label or '-'} {row.fingerprint or '--------'}"
        click.echo(f"{mark} {row.name:<{width}}  {row.tool:<17}  {row.effective_url}  {key}")
        for line in row.drift:
            click.echo(f"    {line}")
        say_problems(problem for problem in row.problems if problem.severity == "fail")


def _list_presets(as_json: bool) -> None:
    from elometer.jobs import profiles as job

    found = job.presets()
    if as_json:
        rows = [
            {
                "preset": preset.name,
                "title": preset.title,
                "name": item.name,
                "tool": item.tool,
                "base_url": item.base_url,
                "effective_url": item.effective_url,
            }
            for preset in found
            for item in preset.profiles
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    for preset in found:
        click.echo(f"{preset.name}: {preset.title}")
        for item in preset.profiles:
            click.echo(f"  {item.name}  {item.tool}  {item.effective_url}")


@profile.command(epilog="Example: elometer profile show taotoken-codex-bt-eval")
@click.argument("name")
@TOOL
def show(name: str, tool: str | None) -> None:
    """Show the profile NAME as JSON: every field, its effective URL, its key's fingerprint; never the key."""
    from elometer.jobs import profiles as job
    from elometer.profiles.store import Store

    store = Store.load()
    found = store.profile(name, tool)
    row = next(r for r in job.list_profiles(store) if (r.name, r.tool) == (found.name, found.tool))
    fields = {k: v for k, v in asdict(found).items() if v not in (None, {}, ())}
    click.echo(json.dumps({**fields, **row.as_json()}, indent=2, ensure_ascii=False, default=str))


def _environment(_ctx: Any, _param: Any, pairs: tuple[str, ...]) -> dict[str, str]:
    split = [pair.partition("=") for pair in pairs]
    if any(not equals for _name, equals, _value in split):
        raise click.BadParameter(_("Write NAME=VALUE."))
    return {name: value for name, _equals, value in split}


_FIELDS = (
    click.option("--base-url", help="The gateway's root; each tool's own URL is derived from it."),
    click.option("--key", help="The label of its key."),
    click.option("--model", help="The model to ask for."),
    click.option("--small-model", help="Claude Code's small model, if not the same."),
    click.option("--key-env", help="The variable that carries the key, if not the tool's usual one."),
    click.option(
        "--protocol", type=click.Choice(("chat", "responses", "messages")), help="For our own calls."
    ),
    click.option("--wire-api", type=click.Choice(("responses", "chat")), help="Codex only."),
    click.option("--provider-id", help="Codex only: the id of its provider table."),
    click.option("--codex-version", help="Codex only: the version this profile is for."),
    click.option("--tokenizer", help="A tokenizer.json, for replies without usage (extra: tokenizers)."),
    click.option("--notes", help="Anything worth remembering."),
    click.option("--env", multiple=True, callback=_environment, help="NAME=VALUE of the tool's own family."),
)


def _field_options(command: Any) -> Any:
    for option in reversed(_FIELDS):
        command = option(command)
    return command


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, {}, ())}


@profile.command(epilog="Example: elometer profile add --from openrouter --tool codex --key bt-eval")
@click.argument("name", required=False)
@click.option("--from", "preset", metavar="PRESET", help="Start from a preset (profile list --presets).")
@click.option("--tool", type=click.Choice(TOOL_NAMES), help="The tool it is for.")
@click.option("--key-source", help="Where a new key's value comes from, such as env:TAOTOKEN_API_KEY.")
@_field_options
def add(
    name: str | None, preset: str | None, tool: str | None, key_source: str | None, **fields: Any
) -> None:
    """Add the profile NAME, or a preset's profiles."""
    from elometer.jobs import profiles as job
    from elometer.profiles.model import Profile
    from elometer.profiles.validate import profile_problems

    changes = _given(fields)
    if preset is not None:
        label = changes.pop("key", None)
        added = job.add_from_preset(
            preset, tool=tool, name=name, key_label=label, key_source=key_source, changes=changes
        )
    else:
        if name is None or tool is None or "base_url" not in changes:
            raise click.UsageError(_("Give NAME, --tool and --base-url, or --from PRESET."))
        added = [Profile(name=name, tool=tool, **changes)]  # type: ignore[arg-type]
        job.add_profile(added[0], key_source=key_source)
    for item in added:
        click.echo(f"{item.name}  {item.tool}  {item.effective_url}  {item.key or '-'}")
        say_problems(profile_problems(item))


@profile.command(epilog="Example: elometer profile edit openrouter --model qwen/qwen3-32b")
@click.argument("name")
@TOOL
@click.option("--name", "new_name", help="A new name.")
@click.option("--clear", multiple=True, help="A field to take away (repeat).")
@_field_options
def edit(name: str, tool: str | None, new_name: str | None, clear: tuple[str, ...], **fields: Any) -> None:
    """Change fields of the profile NAME in the store; the tool's own files change on 'switch' only."""
    from elometer.jobs import profiles as job
    from elometer.profiles.store import Store
    from elometer.profiles.validate import profile_problems

    changes = _given(fields)
    clearable = {f.replace("_", "-"): f for f in fields if f != "base_url"}
    for field in clear:
        if field.replace("_", "-") not in clearable:
            raise click.UsageError(_("Clear one of: {names}").format(names=", ".join(clearable)))
        changes[clearable[field.replace("_", "-")]] = {} if field == "env" else None
    if changes.get("env"):
        changes["env"] = {**Store.load().profile(name, tool).env, **changes["env"]}
    if new_name is not None:
        changes["name"] = new_name
    if not changes:
        raise click.UsageError(_("Name a field to change."))
    changed = job.edit_profile(name, tool, **changes)
    click.echo(f"{changed.name}  {changed.tool}  {changed.effective_url}  {changed.key or '-'}")
    say_problems(profile_problems(changed))


@profile.command(epilog="Example: elometer profile remove openrouter")
@click.argument("name")
@TOOL
def remove(name: str, tool: str | None) -> None:
    """Take the profile NAME out of the store; its key and the tool's own files stay."""
    from elometer.jobs import profiles as job

    gone = job.remove_profile(name, tool)
    click.echo(_("{tool} profile '{name}' removed.").format(tool=gone.tool, name=gone.name))


_LIVE = (
    *(live.import_file, live.export_profiles, live.switch, live.diff, live.undo, live.pristine, live.drift),
    *(live.env, live.exec_profile, live.check),
)
for command in _LIVE:
    profile.add_command(command)
