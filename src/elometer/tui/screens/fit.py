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

from elometer.core.text import gettext as _
from elometer.tui.curve import Curve
from elometer.tui.fit_columns import FOUNDING, basis_text, fit_rows, pages, sentences
from elometer.tui.screens.pane import Pane
from elometer.tui.widgets.lines import Line, Lines
from elometer.tui.widgets.rows import Rows


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

    `m` shows further columns, `v` other choices, ranks and P(better), `t` each task, `s` all sentences.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "more", _("More"), id="fit.more"),
        Binding("v", "views(False)", _("Views"), id="fit.views"),
        Binding("t", "views(True)", _("Tasks"), id="fit.tasks"),
        Binding("s", "sentences", _("Text"), id="fit.sentences"),
    ]
    DEFAULT_CSS = """
    FitPane {
        #body { layout: vertical; padding: 0 1; }
        #fit-basis { height: auto; }
        #fit { max-height: 50%; }
        #sentence { margin: 1 0 0 0; max-height: 4; overflow-y: hidden; }
        &.-high #sentence { max-height: 12; }
        &.-short #plot { display: none; }
        &.-short #sentence { margin: 0; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.page = 0
        self._shown: tuple[int, int, int] | None = None

    def compose_body(self) -> Iterable[Widget]:
        columns = [quantity.column for quantity in FOUNDING]
        table = Rows(columns, id="fit")
        table.can_focus = True  # so that many strategies can be scrolled, and help knows where it is
        yield Container(
            Lines(id="fit-basis"),
            table,
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
        self.query_one(Curve).show(fit, session.fit_version, moving=session.running)

    def _fill(self, fit: Any, width: int) -> None:
        sets = pages(width)
        self.page %= len(sets)
        quantities = sets[self.page]
        head: Line = ((_("Fit"), "heading"), (f"  {basis_text(fit)}", "muted"))
        if self.session.running:
            head = ((_("Provisional fit"), "heading"), (f"  {basis_text(fit)}", "muted"))
        self.query_one("#fit-basis", Lines).set_lines([head])
        rows = self.query_one("#fit", Rows)
        rows.set_columns([quantity.column for quantity in quantities])
        rows.set_rows(fit_rows(fit, quantities))
        said = [
            ((part, style),) for text, style in sentences(fit) for part in textwrap.wrap(text, max(20, width))
        ]
        self.query_one("#sentence", Lines).set_lines(said)

    def on_resize(self, event: events.Resize) -> None:
        self._shown = None
        if self.is_mounted:
            self.call_after_refresh(self.look)

    def action_sentences(self) -> None:
        """Everything that may be said of this fit, in one text."""
        from elometer.tui.screens.dialogs import TextDialog

        fit = self.session.fit
        if fit is not None:
            width = min(94, self.size.width - 8)
            lines = [part for text, _style in sentences(fit) for part in (*textwrap.wrap(text, width), "")]
            self.app.push_screen(TextDialog(basis_text(fit), lines))

    @work(group="views", exclusive=True)
    async def action_views(self, tasks: bool) -> None:
        """What stands behind the fit: other choices, ranks, P(better), influence; or each task by itself."""
        from elometer.tui.fit_views import task_lines, view_lines
        from elometer.tui.screens.dialogs import TextDialog

        fit = self.session.fit
        if fit is None:
            return
        title = _("Each task by itself") if tasks else _("What stands behind the fit")
        self.notify(_("Computing …"), timeout=1)
        lines = await asyncio.to_thread(task_lines if tasks else view_lines, fit)
        await self.app.push_screen(TextDialog(title, lines))

    def action_more(self) -> None:
        """The next set of columns."""
        self.page += 1
        self.pull()
