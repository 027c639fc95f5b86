"""The line of panes at the top and the status line above the footer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual import events

from elometer.core.text import gettext as _
from elometer.tui.widgets.lines import Line, Lines, Piece, fit_cells


class PaneBar(Lines):
    """`1 Profiles  2 Run …` with the current pane marked, and SIMULATION in words at the right."""

    DEFAULT_CSS = """
    PaneBar {
        height: 1; dock: top; background: $bar-background; color: $bar-foreground; overflow-y: hidden;
        .lines--here { color: $row-cursor-foreground; background: $row-cursor-background; text-style: bold; }
        &:ansi { text-style: none; .lines--here { text-style: reverse bold; } }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"lines--here"}

    def __init__(self, panes: Sequence[tuple[str, str]], current: str) -> None:
        super().__init__([()])
        self.panes, self.current = panes, current
        self.simulated = False

    def named_style(self, name: str, base: Style) -> Style:
        return (
            self.get_component_rich_style("lines--here")
            if name == "here"
            else super().named_style(name, base)
        )

    def show(self, *, simulated: bool) -> None:
        """Say whether the numbers are those of the demo."""
        self.simulated = simulated
        self._fill()

    def on_resize(self, event: events.Resize) -> None:
        self._fill()

    def _fill(self) -> None:
        width = self.size.width
        pieces: list[Piece] = []
        for position, (name, title) in enumerate(self.panes, start=1):
            style = "here" if name == self.current else ""
            pieces += [(f" {position} {title} ", style)]
        word = " " + _("SIMULATION") + " " if self.simulated else ""
        room = width - sum(cell_len(text) for text, _style in pieces) - cell_len(word)
        if room < 0:  # the words of the other panes give way first, their digits stay
            pieces = [
                (f" {position} {title} ", "here") if name == self.current else (f" {position} ", "")
                for position, (name, title) in enumerate(self.panes, start=1)
            ]
            room = width - sum(cell_len(text) for text, _style in pieces) - cell_len(word)
        self.set_lines([(*pieces, (" " * max(0, room), ""), (word, "warning"))])


class StatusBar(Lines):
    """Experiment or start, phase, and the active profile of each tool: always in sight."""

    DEFAULT_CSS = """
    StatusBar {
        height: 1; background: $bar-background; color: $bar-foreground; overflow-y: hidden;
    }
    """

    def __init__(self) -> None:
        super().__init__([()])
        self._what: tuple[str, str, str, Sequence[tuple[str, str]]] = ("", "", "", ())

    def show(self, start: str, phase: str, phase_style: str, profiles: Sequence[tuple[str, str]]) -> None:
        """`profiles` are (tool, profile name); a tool without an active profile has the name `-`."""
        if self._what != (start, phase, phase_style, profiles):
            self._what = (start, phase, phase_style, profiles)
            self._fill()

    def on_resize(self, event: events.Resize) -> None:
        self._fill()

    def _fill(self) -> None:
        start, phase, phase_style, profiles = self._what
        width = self.size.width
        left: list[Piece] = [(f" {start}" if start else " " + _("no start open"), "" if start else "muted")]
        if phase:
            left += [(" · ", ""), (phase, phase_style)]
        used = sum(cell_len(text) for text, _style in left)
        right = self._profiles(profiles, width - used - 2)
        room = width - used - cell_len(right)
        line: Line = (*left, (" " * max(1, room), ""), (right, ""))
        if room < 1:
            line = ((fit_cells("".join(text for text, _style in left), width), ""),)
        self.set_lines([line])

    @staticmethod
    def _profiles(profiles: Sequence[tuple[str, str]], room: int) -> str:
        """Names are cut alike so that every tool keeps a part of its own."""
        for longest in (40, 24, 16, 10, 6, 3):
            text = "  ".join(
                f"{tool}:{name if cell_len(name) <= longest else fit_cells(name, longest)}"
                for tool, name in profiles
            )
            if cell_len(text) + 1 <= room:
                return text + " "
        return ""
