"""Ledger: every attempt, as the file has it, and the totals by strategy or model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from elometer.core.errors import ElometerError
from elometer.core.natural import natural_key
from elometer.core.text import gettext as _
from elometer.core.text import ngettext
from elometer.tui.figures import UNKNOWN, count, decimal
from elometer.tui.ledger_pages import LedgerPages, pretty
from elometer.tui.screens.pane import Pane
from elometer.tui.widgets.ledger_view import LedgerView
from elometer.tui.widgets.lines import Line, Lines
from elometer.tui.widgets.rows import Column, Row, Rows

LEDGER = "token_ledger.jsonl"
TOTALS_PAUSE_S = 2.0
GROW_PAUSE_S = 1.0
BY = {"strategy": _("strategy"), "model": _("model")}


def total_columns(by: str) -> tuple[Column, ...]:
    """Columns of the totals, headed by what they are grouped by."""
    return (
        Column("name", BY[by], 10, "left", grow=14),
        Column("runs", _("runs"), 6, drop=3),
        Column("calls", _("calls"), 7),
        Column("failed", _("failed"), 6, drop=2),
        Column("prompt", _("prompt"), 11, drop=4),
        Column("completion", _("completion"), 11, drop=5),
        Column("total", _("total"), 12),
        Column("average", _("avg/run"), 9, drop=1),
    )


def total_row(row: Any) -> Row:
    """Cells of one line of the totals; the null strategy is what no strategy is charged with."""
    name = _("(none)") if row.name is None else str(row.name)
    return Row(
        name,
        {
            "name": name,
            "runs": count(row.runs),
            "calls": count(row.calls),
            "failed": count(row.failed_attempts),
            "prompt": count(row.prompt_tokens),
            "completion": count(row.completion_tokens),
            "total": ("~" if row.estimated_tokens else "") + count(row.total_tokens),
            "average": UNKNOWN if row.avg_tokens is None else decimal(row.avg_tokens, 1),
        },
        style="muted" if row.name is None else "",
    )


class LedgerPane(Pane):
    """A virtual view over the JSONL; opens a file of a million lines at once."""

    NAME = "ledger"
    HELP = """
    # Ledger
    One line per attempt, newest at the end. A line that is no record is shown as such, never left out.
    The view follows the end until you move; `f` follows again. `Enter` shows the whole line.
    Tokens of failed attempts and of excluded blocks are in the totals: they were spent.
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("b", "by", _("By"), id="ledger.by")]
    DEFAULT_CSS = """
    LedgerPane {
        #body { layout: vertical; padding: 0 1; }
        #ledger-title { height: 1; }
        LedgerView { height: 1fr; }
        #totals { margin: 1 0 0 0; max-height: 40%; }
        &.-short #totals { display: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.by = "strategy"
        self._path: Path | None = None
        self._pages: LedgerPages | None = None
        self._reading = False
        self._next_look = 0.0
        self._totals_at = 0.0
        self._totals_lines = -1
        self._bad = 0

    def compose_body(self) -> Iterable[Widget]:
        yield Container(
            Lines(id="ledger-title"),
            LedgerView(id="ledger"),
            Rows(total_columns(self.by), id="totals"),
            id="body",
        )

    def pull(self) -> None:
        folder = self.session.folder
        path = folder / LEDGER if folder else None
        if path != self._path:
            self._path = path
            self._pages = LedgerPages(self.session.verbs.ledger_index(path)) if path else None
            self._totals_lines, self._bad, self._next_look = -1, 0, 0.0
            self.query_one(LedgerView).open(self._pages)
            # Rows to come take their room at once: a later change of layout would send the page again.
            names = sorted(self.session.state.lanes, key=natural_key)
            self.query_one("#totals", Rows).set_rows([Row(name, {"name": name}) for name in names])
        if path is None:
            self.say_empty(
                _("No ledger is open. Every attempt of a start will be here, with its tokens."),
                ("d", _("run the demo: no key, no cost")),
                ("o", _("open an experiment of this workspace")),
            )
            return
        self.say_filled()
        if not self._reading and time.monotonic() >= self._next_look:
            self._reading = True
            self._read()
        self._title()

    @work(group="ledger")
    async def _read(self) -> None:
        pages, path = self._pages, self._path
        assert pages is not None
        assert path is not None
        try:
            while await asyncio.to_thread(pages.update) and pages is self._pages:
                self.query_one(LedgerView).grow()
            await self._read_totals(path, pages.count)
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
        finally:
            self._reading = False
            self._next_look = time.monotonic() + GROW_PAUSE_S
        self._title()

    async def _read_totals(self, path: Path, lines: int) -> None:
        now = time.monotonic()
        if lines == self._totals_lines or now < self._totals_at or not lines:
            return
        by = self.by
        totals = await asyncio.to_thread(self.session.verbs.ledger_totals, path, by)
        self._totals_at = time.monotonic() + max(TOTALS_PAUSE_S, 4 * (time.monotonic() - now))
        if path == self._path and by == self.by:
            self._totals_lines, self._bad = lines, totals.bad_lines
            self.query_one("#totals", Rows).set_rows([total_row(row) for row in totals.rows])

    def _title(self) -> None:
        if self._path is None or self._pages is None:
            return
        view = self.query_one(LedgerView)
        lines = self._pages.count
        words = ngettext("{n} attempt", "{n} attempts", lines).format(n=count(lines))
        follow = _("following") if view.follow else _("standing still, f follows")
        title: Line = ((LEDGER, "heading"), (f"  {words}  ", ""), (follow, "muted"))
        if self._bad:
            bad = ngettext("{n} bad line", "{n} bad lines", self._bad).format(n=self._bad)
            title = (*title, (f"  ! {bad}", "error"))
        self.query_one("#ledger-title", Lines).set_lines([title])

    def on_ledger_view_follow_changed(self) -> None:
        self._title()

    def action_by(self) -> None:
        """Totals by the other label."""
        self.by = "model" if self.by == "strategy" else "strategy"
        self.query_one("#totals", Rows).set_columns(total_columns(self.by))
        self._totals_lines, self._totals_at, self._next_look = -1, 0.0, 0.0
        self.pull()

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        if self._pages is not None and message.rows is self.query_one(LedgerView):
            from elometer.tui.screens.dialogs import TextDialog

            number = int(message.key)
            title = _("line {n} of {name}").format(n=count(number + 1), name=LEDGER)
            self.app.push_screen(TextDialog(title, pretty(self._pages.whole(number))))
