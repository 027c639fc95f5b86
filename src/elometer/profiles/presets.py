"""Presets: data files in `sample_profiles/` from which profiles are added."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from pathlib import Path

from elometer.core import paths
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.profiles.model import Profile


@dataclass(frozen=True, slots=True)
class Preset:
    """One gateway: a title, where its key usually is, and a profile for each tool it can serve."""

    name: str
    title: str
    key_source: str | None
    profiles: tuple[Profile, ...]


def presets(folder: Path | None = None) -> list[Preset]:
    """All presets, by file name."""
    folder = folder or paths.data_folder("sample_profiles")
    return [_read(path) for path in sorted(folder.glob("*.toml"))]


def preset(name: str, folder: Path | None = None) -> Preset:
    """One preset. Raises UsageError that names the nearest."""
    found = {item.name: item for item in presets(folder)}
    if name in found:
        return found[name]
    near = difflib.get_close_matches(name, found, n=1)
    raise UsageError(
        _("No preset is named '{name}'.").format(name=name),
        evidence=_("Known: {names}").format(names=", ".join(found)),
        fix=_("Did you mean '{name}'?").format(name=near[0]) if near else "elometer profile list --presets",
    )


def _read(path: Path) -> Preset:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return Preset(
        name=path.stem,
        title=data.get("title", path.stem),
        key_source=data.get("key_source"),
        profiles=tuple(Profile(**row) for row in data["profiles"]),
    )
