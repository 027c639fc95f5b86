"""`elometer config`: where things are."""

from __future__ import annotations

import json

import click


def _places() -> dict[str, str]:
    from elometer.core import paths

    return {
        "workspace": str(paths.workspace()),
        "config": str(paths.config_folder()),
        "profiles": str(paths.config_folder() / "profiles.toml"),
        "state": str(paths.state_folder()),
        "themes": str(paths.data_folder("themes")),
        "sample_profiles": str(paths.data_folder("sample_profiles")),
    }


@click.group(epilog="Example: elometer config locate")
def config() -> None:
    """Show where elometer keeps things."""


@config.command(epilog="Example: elometer config locate --json")
@click.option("--json", "as_json", is_flag=True, help="One object on stdout.")
def locate(as_json: bool) -> None:
    """Print the folders and files in use."""
    places = _places()
    if as_json:
        click.echo(json.dumps(places, indent=2))
        return
    for name, path in places.items():
        click.echo(f"{name:<16} {path}")


@config.command(epilog="Example: elometer config show")
@click.option("--json", "as_json", is_flag=True, help="One object on stdout.")
def show(as_json: bool) -> None:
    """Print the variables that change what elometer does, and their values."""
    import os

    names = (
        "ELOMETER_HOME",
        "ELOMETER_SLOW_LINK",
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "NO_COLOR",
        "LANG",
        "TERM",
    )
    values = {name: os.environ.get(name) for name in names}
    if as_json:
        click.echo(json.dumps(values, indent=2))
        return
    for name, value in values.items():
        click.echo(f"{name:<20} {'-' if value is None else value}")
