"""`elometer archive`: pack and audit what a start left behind."""

from __future__ import annotations

import json

import click

from elometer.core.text import gettext as _
from elometer.core.text import ngettext


@click.group(epilog="Example: elometer archive audit bt-eval-001")
def archive() -> None:
    """Pack and audit what a start left behind."""


@archive.command(epilog="Example: elometer archive pack bt-eval-001")
@click.argument("identity", metavar="ID")
def pack(identity: str) -> None:
    """Pack the last start of an experiment.

    Each start is packed when it ends; this is for one that died.
    """
    from elometer.jobs.archive import pack_experiment

    click.echo(str(pack_experiment(identity)))


@archive.command(
    epilog="Example: elometer archive audit ~/bt-eval/bt-eval-001/archive/bt-eval-001-20261129T193000Z"
)
@click.argument("identity", metavar="DIR|ID")
@click.option("--json", "as_json", is_flag=True, help="One array on stdout.")
def audit(identity: str, as_json: bool) -> None:
    """Re-hash, re-sum, re-pair and re-fit an archive offline, and look for keys.

    Exit code 6 if anything does not hold.
    """
    from elometer.core.errors import VerificationError
    from elometer.jobs.archive import audit_archive

    folder, found = audit_archive(identity)
    if as_json:
        rows = [{"path": f.path, "line": f.line, "kind": f.kind, "message": f.message} for f in found]
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        for f in found:
            click.echo(f"{f.path}{'' if f.line is None else f':{f.line}'}: {f.kind}: {f.message}")
    if found:
        raise VerificationError(
            ngettext(
                "{n} thing does not hold in {folder}.", "{n} things do not hold in {folder}.", len(found)
            ).format(n=len(found), folder=folder),
            evidence=_("First: {path}: {message}").format(path=found[0].path, message=found[0].message),
            fix=_("Compare with the experiment's own folder, or with another copy of the archive."),
        )
    click.echo(_("{folder} holds what it says.").format(folder=folder), err=True)
