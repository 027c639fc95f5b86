"""The masked difference of a switch or an undo, and the yes that it needs."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer

from elometer.core.text import gettext as _
from elometer.tui.widgets.lines import Line, Lines

if TYPE_CHECKING:
    from elometer.jobs.profiles import Preview

WIDTH = 90


class PreviewDialog(ModalScreen[bool]):
    """True where the user said yes; never where nothing would change or it was only looked at."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", _("Yes, write it"), id="preview.yes"),
        Binding("n,escape,q", "answer(False)", _("Back"), key_display="n", id="preview.no"),
        Binding("down,j", "scroll(1)", _("Down"), show=False, id="preview.down"),
        Binding("up,k", "scroll(-1)", _("Up"), show=False, id="preview.up"),
    ]
    DEFAULT_CSS = """
    PreviewDialog { align: center middle; background: $background; }
    PreviewDialog > Vertical {
        width: 94; max-width: 100%; height: auto; max-height: 95%; border: round $border; padding: 0 1;
        background: $background;
    }
    PreviewDialog #changes { max-height: 1fr; }
    """

    def __init__(self, preview: Preview, *, ask: bool) -> None:
        super().__init__()
        self.preview, self.ask = preview, ask

    def compose(self) -> ComposeResult:
        plan = self.preview.plan
        with Vertical() as box:
            words = _("Take back: {tool}") if plan.action == "undo" else _("Switch {tool} to {profile}")
            box.border_title = words.format(tool=plan.tool, profile=plan.profile)
            yield Lines(id="changes")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        width = min(WIDTH, self.app.size.width - 6)
        self.query_one("#changes", Lines).set_lines(preview_lines(self.preview, width))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "answer" and parameters == (True,):
            return self.ask and not self.preview.plan.changes_nothing
        return super().check_action(action, parameters)

    def action_scroll(self, step: int) -> None:
        """Further down or up."""
        text = self.query_one("#changes", Lines)
        text.scroll_to(y=text.scroll_offset.y + step, animate=False)

    def action_answer(self, answer: bool) -> None:
        """Close with the answer."""
        self.dismiss(answer)


def preview_lines(preview: Preview, width: int) -> list[Line]:
    """File, fields with a sign before them, notes, warnings, and what remains to be done by hand."""
    plan = preview.plan
    said: list[tuple[str, str]] = [(str(plan.path or _("the store's default profile")), "heading")]
    for change in plan.changes:
        if change.before is not None:
            said.append((f"- {change.field} = {change.before}", "error"))
        if change.after is not None:
            said.append((f"+ {change.field} = {change.after}", "success"))
    if plan.changes_nothing:
        said.append((_("(nothing changes)"), "muted"))
    said += [(note, "") for note in plan.notes]
    said += [(f"! {warning}", "warning") for warning in preview.warnings]
    said += [(f"→ {step}", "strong") for step in preview.next_steps]
    return [((part, style),) for text, style in said for part in textwrap.wrap(text, max(20, width)) or [""]]
