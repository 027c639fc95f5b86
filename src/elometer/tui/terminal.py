"""What the terminal at the other end can do, read from the environment before the app is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elometer.tui.themes import DEFAULT

ANSI = "ansi-dark"
PULL_HZ = 4.0
SLOW_PULL_HZ = 1.0


@dataclass(frozen=True, slots=True)
class Terminal:
    """`pull_seconds` is the time between two looks at the files; `theme` is the theme to begin with."""

    theme: str = DEFAULT
    mouse: bool = True
    pull_seconds: float = 1 / PULL_HZ


def read_terminal(environ: Mapping[str, str]) -> Terminal:
    """Choose theme, mouse and rate.

    NO_COLOR and terminals of 16 colours get the terminal's own palette: hex colours would be snapped to it
    and a cursor row become unreadable. Over SSH the mouse stays with the terminal, so that selecting works.
    """
    theme = environ.get("ELOMETER_THEME") or DEFAULT
    if environ.get("NO_COLOR") is not None or _sixteen_colours(environ):
        theme = ANSI
    slow = environ.get("ELOMETER_SLOW_LINK", "") not in ("", "0")
    mouse = environ.get("ELOMETER_MOUSE")
    return Terminal(
        theme=theme,
        mouse=mouse == "1" if mouse else "SSH_CONNECTION" not in environ,
        pull_seconds=1 / (SLOW_PULL_HZ if slow else PULL_HZ),
    )


def _sixteen_colours(environ: Mapping[str, str]) -> bool:
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return False
    term = environ.get("TERM", "").strip().lower()
    return not term.endswith(("256color", "direct", "kitty"))
