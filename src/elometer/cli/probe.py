"""`elometer probe`: one minimal request per protocol."""

from __future__ import annotations

import click

from elometer.cli.check import FAILED, print_rows
from elometer.core.text import gettext as _


@click.command(
    epilog="Example: elometer probe --base-url https://gateway.example/api --model m --key-env API_KEY"
)
@click.argument("target", required=False)
@click.option("--base-url", metavar="URL", help="The gateway's root, before there is a profile.")
@click.option(
    "--model", metavar="NAME", help="The model to ask; default: the profile's, or the only one listed."
)
@click.option(
    "--key-env", metavar="VARIABLE", help="The variable that holds the key (default TAOTOKEN_API_KEY)."
)
@click.option("--tool", help="Which tool's profile, if names are shared.")
@click.option("--json", "as_json", is_flag=True, help="Print every row as JSON.")
@click.pass_context
def probe(
    ctx: click.Context,
    target: str | None,
    base_url: str | None,
    model: str | None,
    key_env: str | None,
    tool: str | None,
    as_json: bool,
) -> None:
    """Make one minimal request per protocol and show its usage.

    TARGET is a profile, an experiment file, its folder or its id; or name the gateway with --base-url.
    Shows status, path, header, usage and the name that answered. A few hundred tokens at most are spent.
    """
    from elometer.jobs.probe import probe_named, probe_url

    if (target is None) == (base_url is None):
        raise click.UsageError(_("Name a profile or an experiment, or give --base-url."))
    if target is not None:
        if key_env is not None:
            raise click.UsageError(_("--key-env goes with --base-url; a profile has its own key."))
        found = probe_named(target, model, tool)
    else:
        assert base_url is not None
        found = probe_url(base_url, model, key_env)
    print_rows(found.rows, as_json=as_json, verbose=True)
    for asked, names in found.served_as.items():
        click.echo(_("For experiment.yaml, if these are one model:"), err=True)
        click.echo(f"  served_as: {{{asked}: [{', '.join(names)}]}}", err=True)
    if any(row.status == "fail" for row in found.rows):
        ctx.exit(FAILED)
