"""What an empty pane says: what would be here, and the next key to press."""

from __future__ import annotations

from collections.abc import Sequence

from elometer.tui.widgets.lines import Line, Lines


class Hint(Lines):
    """A sentence, then a line for each key."""

    DEFAULT_CSS = "Hint { padding: 1 2; height: 1fr; }"

    def say(self, sentence: str, keys: Sequence[tuple[str, str]]) -> None:
        """`keys` are (key, what it does)."""
        lines: list[Line] = [((sentence, ""),), ()]
        lines += [((f"  {key:<7}", "heading"), (what, "")) for key, what in keys]
        self.set_lines(lines)
