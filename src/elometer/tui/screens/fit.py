"""Fit: what each further token bought, what is not resolved, and the curve."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterable
from typing import Any, ClassVar

from textual import events, work
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from elometer.core.errors import ElometerError
from elometer.core.text import gettext as _
from elometer.tui.curve import Curve
from elometer.tui.fit_columns import FOUNDING, basis_text, fit_rows, pages, sentences
from elometer.tui.provenance import source_lines
from elometer.tui.screens.pane import Pane
from elometer.tui.widgets.lines import Line, Lines
from elometer.tui.widgets.rows import Rows

VIEW = Binding.Group(_("Views"), compact=True)


class FitPane(Pane):
    """The founding columns first; the rest behind one key; the plot below."""

    NAME = "fit"
    HELP = """
    # Fit
    `tokens` are those charged to the strategy, `ΔElo` and `Δtoken` the step from the strategy before.
    `ΔE/1k` is the founding column: it halves when repetitions double. `/run` is Elo per 1k further tokens of
    one task-run, with its interval.
    `? no`: the data do not tell this step from none. The dotted grey line is best-of-n with a perfect
    selector, 120.4 Elo per doubling.

    `◇` is a ceiling: its choice looks at the grades, so it takes no part in the fit; it is drawn where its
    win rate against the anchor puts it.

    - `Enter` shows where the numbers of a row come from, `m` further columns, `s` all sentences;
      `! 2: s` counts the warnings that there was no room for
    - `v` Elo under other choices, `t` each task, `b` which is better with what probability
    - `r` ranks that are left open, `i` what the result hangs on: tasks, pairs, time
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "more", _("More"), id="fit.more"),
        Binding("s", "sentences", _("Text"), id="fit.sentences"),
        Binding("v", "view('sensitivity')", _("Choices"), group=VIEW, id="fit.sensitivity"),
        Binding("t", "view('tasks')", _("Tasks"), group=VIEW, id="fit.tasks"),
        Binding("b", "view('better')", _("Better"), group=VIEW, id="fit.better"),
        Binding("r", "view('ranks')", _("Ranks"), group=VIEW, id="fit.ranks"),
        Binding("i", "view('influence')", _("Influence"), group=VIEW, id="fit.influence"),
    ]
    DEFAULT_CSS = """
    FitPane {
        #body { layout: vertical; padding: 0 1; }
        #fit-basis { height: auto; }
        #fit { max-height: 50%; }
        #sentence { margin: 1 0 0 0; max-height: 4; overflow-y: hidden; }
        &.-high #sentence { max-height: 12; }
        &.-short #plot { display: none; }
        &.-short #sentence { margin: 0; height: 1fr; max-height: 100%; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.page = 0
        self._shown: tuple[int, int, int] | None = None

    def compose_body(self) -> Iterable[Widget]:
        columns = [quantity.column for quantity in FOUNDING]
        yield Container(
            Lines(id="fit-basis"),
            Rows(columns, cursor=True, id="fit"),
            Lines(id="sentence"),
            Curve(id="plot"),
            id="body",
        )

    def pull(self) -> None:
        session = self.session
        if session.watch is None:
            self.say_empty(
                _("There is nothing to fit. Elo against tokens will be here."),
                ("d", _("run the demo: no key, no cost")),
                ("o", _("open an experiment of this workspace")),
            )
            return
        self.own_app.want_fit()
        fit = session.fit
        if fit is None:
            words = session.fit_error or _("The fit begins with the first finished block.")
            self.say_empty(words, ("2", _("watch the race")))
            self._shown = None
            return
        self.say_filled()
        width = self.size.width - 2
        shown = (session.fit_version, self.page, width)
        if shown != self._shown:
            self._shown = shown
            self._fill(fit, width)
        self.query_one(Curve).show(fit, session.ceilings, session.fit_version)

    def _fill(self, fit: Any, width: int) -> None:
        sets = pages(width, fit)
        self.page %= len(sets)
        quantities = sets[self.page]
        head: Line = ((_("Fit"), "heading"), (f"  {basis_text(fit)}", "muted"))
        if self.session.running:
            head = ((_("Provisional fit"), "heading"), (f"  {basis_text(fit)}", "muted"))
        rows = self.query_one("#fit", Rows)
        rows.set_columns([quantity.column for quantity in quantities])
        rows.set_rows(fit_rows(fit, quantities))
        said = self._said(fit, width)
        self.query_one("#sentence", Lines).set_lines(said)
        hidden = sum(style == "warning" for _text, style in self._sentences(fit)) - sum(
            line[0][1] == "warning" and line[0][0].startswith("!") for line in said
        )
        if hidden:
            head += ((_("  ! {n}: s").format(n=hidden), "warning"),)
        self.query_one("#fit-basis", Lines).set_lines([head])

    def _said(self, fit: Any, width: int) -> list[Line]:
        """The sentences that there is room for, each of them whole."""
        room = 12 if self.has_class("-high") else 3
        if self.has_class("-short"):  # no plot: the text has what the table leaves
            body = self.size.height - 3  # bar of panes, status line, footer
            room = max(room, body - 1 - min(len(fit.strategies) + 1, body // 2))
        lines: list[Line] = []
        for text, style in self._sentences(fit):
            parts = textwrap.wrap(text, max(20, width))
            if lines and len(lines) + len(parts) > room:
                break
            lines += [((part, style),) for part in parts]
        return lines

    def on_resize(self, event: events.Resize) -> None:
        self._shown = None
        if self.is_mounted:
            self.call_after_refresh(self.look)

    def _sentences(self, fit: Any) -> list[tuple[str, str]]:
        return sentences(fit, self.session.beside)

    def action_sentences(self) -> None:
        """Everything that may be said of this fit, in one text."""
        from elometer.tui.screens.dialogs import TextDialog

        fit = self.session.fit
        if fit is not None:
            lines = [part for text, _style in self._sentences(fit) for part in (text, "")]
            self.app.push_screen(TextDialog(basis_text(fit), lines))

    @work(group="views", exclusive=True)
    async def action_view(self, name: str) -> None:
        """One of the views of what stands behind the fit; computed in a thread."""
        from elometer.tui.fit_views import VIEWS
        from elometer.tui.screens.dialogs import TextDialog, text_width

        fit = self.session.fit
        if fit is None:
            return
        title, lines_of = VIEWS[name]
        width = text_width(self.app.size.width)
        try:
            lines = await asyncio.to_thread(lines_of, fit, width)
        except ElometerError as fault:
            self.own_app.say(fault)
            return
        await self.app.push_screen(TextDialog(title, lines))

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        self._show_source(message.key)

    @work(group="views", exclusive=True)
    async def _show_source(self, strategy: str) -> None:
        """Where the numbers of a row come from."""
        from elometer.tui.screens.dialogs import TextDialog

        session = self.session
        fit, folder = session.fit, session.folder
        if fit is None or folder is None:
            return
        try:
            totals = await asyncio.to_thread(
                session.verbs.ledger_totals, folder / "token_ledger.jsonl", "strategy"
            )
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
            return
        spent = next((row for row in totals.rows if row.name == strategy), None)
        lines = source_lines(fit, strategy, spent, folder)
        title = _("Where {strategy} comes from").format(strategy=strategy)
        await self.app.push_screen(TextDialog(title, lines))

    def action_more(self) -> None:
        """The next set of columns."""
        self.page += 1
        self.pull()
