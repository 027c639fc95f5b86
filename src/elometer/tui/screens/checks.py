"""Checks: what stands in the way of a run, with the proof and the fix."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, work
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from elometer.core.errors import ElometerError
from elometer.core.text import gettext as _
from elometer.tui.check_rows import COLUMNS, check_rows, detail_lines, summary_line
from elometer.tui.figures import count
from elometer.tui.screens.pane import Pane
from elometer.tui.widgets.lines import Lines
from elometer.tui.widgets.rows import Rows

if TYPE_CHECKING:
    from elometer.checks.engine import Row


class ChecksPane(Pane):
    """Static checks read files and the environment; live ones ask the gateway, after a question."""

    NAME = "checks"
    HELP = """
    # Checks
    Each row is a question; `✗ fail` stands in the way of a run, `! warn` deserves a look, `? unknown` could
    not be answered here. Evidence, cause and fix of the chosen row are beside or below it.

    `r` asks the chosen question again, `R` all, `l` also those that ask the gateway: their cost is named and
    agreed to once. `y` copies the fix and keeps it in a file.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "again(False)", _("Rerun"), id="checks.again"),
        Binding("R", "again(True)", _("Rerun all"), id="checks.all"),
        Binding("l", "live", _("Live"), id="checks.live"),
        Binding("y", "copy_fix", _("Copy fix"), id="checks.copy"),
    ]
    DEFAULT_CSS = """
    ChecksPane {
        #body { layout: vertical; padding: 0 1; }
        #check-summary { height: 1; }
        #check-body { layout: vertical; height: 1fr; }
        #checks { height: 1fr; }
        #evidence { height: auto; max-height: 10; margin: 1 0 0 0; }
        &.-short #evidence { max-height: 5; margin: 0; }
        &.-wide #check-body { layout: horizontal; }
        &.-wide #checks { width: 1fr; height: 100%; }
        &.-wide #evidence { width: 1fr; height: 100%; max-height: 100%; margin: 0 0 0 2; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._found: list[Row] = []
        self._asked = False
        self._live_agreed = -1  # tokens that the user has said yes to

    def compose_body(self) -> Iterable[Widget]:
        yield Container(
            Lines(id="check-summary"),
            Container(Rows(COLUMNS, cursor=True, id="checks"), Lines(id="evidence"), id="check-body"),
            id="body",
        )

    def pull(self) -> None:
        if not self._asked:
            self._asked = True
            self._ask(None)

    @work(group="checks", exclusive=True)
    async def _ask(self, only: str | None) -> None:
        summary = self.query_one("#check-summary", Lines)
        summary.set_lines([((_("asking …"), "muted"),)])
        folder = self.session.folder
        try:
            found = await asyncio.to_thread(self._questions, folder, only)
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
            summary.set_lines([((_("not answered; R asks again"), "warning"),)])
            return
        if only is None:
            self._found = list(found)
        else:
            answers = {row.check.id: row for row in found}
            self._found = [answers.get(row.check.id, row) for row in self._found]
        self._show()

    def _show(self) -> None:
        self.query_one("#checks", Rows).set_rows(check_rows(self._found))
        self.query_one("#check-summary", Lines).set_lines([summary_line(self._found)])
        self._detail()

    def _questions(self, folder: Path | None, only: str | None) -> Sequence[Row]:
        known = {row.check.id: row.status for row in self._found}
        return self.session.verbs.checks(
            folder, only=() if only is None else (only,), known=known if only else None
        )

    def _chosen(self) -> Row | None:
        key = self.query_one("#checks", Rows).current
        return next((row for row in self._found if row.check.id == key), None)

    def _detail(self) -> None:
        evidence = self.query_one("#evidence", Lines)
        width = self.size.width // 2 - 3 if self.has_class("-wide") else self.size.width - 3
        lines = [
            ((part, style),)
            for text, style in detail_lines(self._chosen())
            for part in textwrap.wrap(text, max(20, width)) or [""]
        ]
        evidence.set_lines(lines)
        evidence.scroll_to(y=0, animate=False)

    def on_rows_moved(self) -> None:
        self._detail()

    def on_resize(self, event: events.Resize) -> None:
        if self.is_mounted:
            self.call_after_refresh(self._detail)

    def action_again(self, everything: bool) -> None:
        """Ask the chosen question again, or all of them."""
        chosen = self._chosen()
        self._ask(None if everything or chosen is None else chosen.check.id)

    @work(group="checks", exclusive=True)
    async def action_live(self) -> None:
        """Ask the gateway too; the first time after a question that names the cost."""
        verbs, folder = self.session.verbs, self.session.folder
        if not await self._agreed():
            return
        summary = self.query_one("#check-summary", Lines)
        summary.set_lines([((_("asking the gateway …"), "muted"),)])
        try:
            found = await asyncio.to_thread(verbs.live_checks, folder)
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
            found = []
        fresh = {row.check.id: row for row in found}
        self._found = [fresh.pop(row.check.id, row) for row in self._found] + list(fresh.values())
        self._show()

    async def _agreed(self) -> bool:
        """True once the user has said yes to the cost; it is asked once, and named each time."""
        from elometer.tui.screens.dialogs import Question

        cost = await asyncio.to_thread(self.session.verbs.live_cost)
        words = _("Up to {tokens} tokens are spent and booked as probe.").format(tokens=count(cost))
        if self._live_agreed >= cost:
            self.notify(words, timeout=3)
            return True
        question = Question(_("Ask the gateway?"), words, yes=_("ask"), no=_("leave it"))
        agreed = await self.app.push_screen_wait(question)
        if agreed:
            self._live_agreed = cost
        return agreed

    @work(group="fix", exclusive=True)
    async def action_copy_fix(self) -> None:
        """Send the fix to the terminal's clipboard, and keep it in a file: the clipboard may not take it."""
        chosen = self._chosen()
        if chosen is None or not chosen.result.fix:
            self.notify(_("This row needs no fix."))
            return
        fix = chosen.result.fix
        self.app.copy_to_clipboard(fix)
        try:
            path = await asyncio.to_thread(self.session.verbs.keep_fix, chosen.check.id, fix)
        except OSError as fault:
            self.own_app.say(fault)
            return
        self.notify(
            _(
                "Written to {path}, and sent to the terminal by OSC 52 (tmux: set -g set-clipboard on)."
            ).format(path=path),
            title=fix,
            timeout=15,
            markup=False,
        )
