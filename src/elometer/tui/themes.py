"""Themes are TOML files: the fields of a Textual theme, loaded, validated, and never the reason not to start.

Surfaces are neutral greys and colours lie on the 256-colour cube, because that is what an SSH terminal shows.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from textual.theme import Theme

from elometer.core.text import gettext as _

DEFAULT = "elometer-dark"
LIGHT = "elometer-light"
# WCAG 2.1, 1.4.3: the contrast that text of normal size needs.
LEAST_CONTRAST = 4.5

COLOURS = (
    "primary", "secondary", "accent", "warning", "error", "success",
    "foreground", "background", "surface", "panel",
)  # fmt: skip
# Our own style names with what they are under a theme that does not set them (the terminal's own palette).
ROW_DEFAULTS = {
    "row-muted": "ansi_bright_black",
    "row-heading": "ansi_cyan",
    "row-cursor-foreground": "ansi_default",
    "row-cursor-background": "ansi_default",
    "row-cursor-blurred-foreground": "ansi_default",
    "row-cursor-blurred-background": "ansi_default",
    "bar-foreground": "ansi_default",
    "bar-background": "ansi_default",
}
_ROW_BY_THEME = {
    "row-muted": "foreground",
    "row-heading": "primary",
    "row-cursor-foreground": "background",
    "row-cursor-background": "foreground",
    "row-cursor-blurred-foreground": "foreground",
    "row-cursor-blurred-background": "panel",
    "bar-foreground": "foreground",
    "bar-background": "panel",
}
_HEX = re.compile(r"#[0-9a-fA-F]{6}\Z")
_FIELDS = {field.name for field in fields(Theme)}


def row_variables(theme: Theme, made: Mapping[str, str]) -> dict[str, str]:
    """Values for our style names under a theme that knows nothing of them; `made` is its colour system."""
    if theme.ansi:
        return dict(ROW_DEFAULTS)
    return {name: made.get(source, "") or "#808080" for name, source in _ROW_BY_THEME.items()}


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, 0 (black) to 1 (white), by WCAG 2.1."""

    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two `#rrggbb` colours, 1 to 21, by WCAG 2.1."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def text_pairs(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The (text, ground) colour pairs of a theme file that someone has to read."""
    variables = data.get("variables", {})
    texts = [data[name] for name in COLOURS[:7]] + [
        variables[name] for name in ("row-muted", "row-heading") if name in variables
    ]
    pairs = [(text, data[ground]) for text in texts for ground in ("background", "surface")]
    pairs += [(data["foreground"], data["panel"])]
    for name in variables:
        ground = name.replace("foreground", "background")
        if name.endswith("foreground") and ground in variables and not name.startswith("bar-"):
            pairs.append((variables[name], variables[ground]))
    return pairs


def parse_theme(text: str) -> Theme:
    """The theme of a TOML text. Raises ValueError or TypeError that says what does not fit."""
    data = tomllib.loads(text)
    if unknown := sorted(set(data) - _FIELDS):
        raise ValueError(_("unknown key {key}").format(key=unknown[0]))
    if missing := [name for name in ("name", *COLOURS) if name not in data]:
        raise ValueError(_("{key} is missing").format(key=missing[0]))
    for name in COLOURS:
        if not isinstance(data[name], str) or not _HEX.match(data[name]):
            raise ValueError(_("{key} is no colour of the form #rrggbb").format(key=name))
    for name, value in data.get("variables", {}).items():
        if not isinstance(value, str):
            raise TypeError(_("{key} is not a text").format(key=name))
    for ink, ground in text_pairs(data):
        if _HEX.match(ink) and _HEX.match(ground) and contrast(ink, ground) < LEAST_CONTRAST:
            raise ValueError(
                _("{ink} on {ground} has a contrast of {ratio:.1f}, below {least}").format(
                    ink=ink, ground=ground, ratio=contrast(ink, ground), least=LEAST_CONTRAST
                )
            )
    return Theme(**data)


def load_themes(*folders: Path) -> tuple[list[Theme], list[str]]:
    """All themes of some folders, and one line for each file that does not fit."""
    themes: list[Theme] = []
    failures: list[str] = []
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            try:
                themes.append(parse_theme(path.read_text(encoding="utf-8")))
            except (OSError, ValueError, TypeError) as fault:
                failures.append(f"{path.name}: {fault}")
    return themes, failures
