"""Run: the race of the strategies, live, and what may be said of the fit so far."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import ClassVar, Literal

from textual import work
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from elometer.core.errors import ElometerError
from elometer.core.text import gettext as _
from elometer.tui.curve import Curve
from elometer.tui.lanes import (
    COLUMNS,
    exclusion_lines,
    growth_lines,
    header_lines,
    held_by_stranger,
    lane_rows,
    waiting_strangers,
)
from elometer.tui.screens.pane import Pane
from elometer.tui.widgets.lines import Lines
from elometer.tui.widgets.rows import Rows

CAP = Binding.Group(_("Cap"), compact=True)


class RunPane(Pane):
    """One lane per strategy; progress, budget and refusals above them; the provisional fit below."""

    NAME = "run"
    HELP = """
    # Run
    One lane per strategy. `fly` counts attempts on the wire, `wait` those that will be tried again.
    A `~` marks tokens counted from the stream that the server's usage will replace.
    `score` is the mean over finished blocks. The fit below is provisional until the start ends.
    In the budget's bar `━` is spent today, `▒` reserved for calls that have no bill yet.

    `q` leaves the app and the start running; `ctrl+c` asks the start to finish its calls and end.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", _("Pause"), id="run.pause"),
        Binding("plus,equals_sign", "cap(1)", _("Cap up"), key_display="+", group=CAP, id="run.cap_up"),
        Binding("minus", "cap(-1)", _("Cap down"), key_display="-", group=CAP, id="run.cap_down"),
        Binding("A", "accept", _("Accept name"), id="run.accept"),
        Binding("x", "stop", _("Stop"), id="run.stop"),
        Binding("b", "break", _("Break"), show=False, id="run.break"),
        Binding("R", "resume", _("Go on"), id="run.resume"),
    ]
    AUTO_FOCUS = "#body"
    DEFAULT_CSS = """
    RunPane {
        #body { scrollbar-size-vertical: 1; }
        #header { padding: 0; margin: 1 0 0 0; }
        #lanes, #provisional { scrollbar-gutter: auto; overflow-y: hidden; }
        #lanes { margin: 1 1 0 1; }
        #fit-title { margin: 1 1 0 1; }
        #provisional, #beside { margin: 0 1; }
        #beside { overflow-y: hidden; }
        #curve { margin: 1 1 0 1; display: none; }
        &.-high #curve { display: block; }
        &.-short #header { margin: 0; }
        &.-short #lanes { margin: 0 1; }
        &.-short #fit-title { display: none; }
    }
    """

    def compose_body(self) -> Iterable[Widget]:
        from elometer.tui.fits import PROVISIONAL

        yield VerticalScroll(
            Lines(id="header"),
            Rows(COLUMNS, id="lanes"),
            Lines(id="fit-title"),
            Rows(PROVISIONAL, id="provisional"),
            Lines(id="beside"),
            Curve(id="curve"),
            id="body",
        )

    def pull(self) -> None:
        session = self.session
        if session.watch is None:
            self.say_empty(
                _("Nothing is running. The race of the strategies will be here."),
                ("d", _("run the demo: no key, no cost, about half a minute")),
                ("b", _("run it with a fault, which the checks have to name")),
                ("o", _("open an experiment of this workspace")),
                ("i", _("write a new experiment.yaml and tasks.jsonl")),
                ("p", _("probe a gateway: choose a profile, or add one with a")),
            )
            return
        if session.state.opened is None:
            folder = session.watch.folder
            words = _("Waiting for the first event of {folder}.").format(folder=folder.name)
            self.say_empty(words, *(("", line) for line in session.verbs.last_words(folder)))
            return
        self.say_filled()
        state = session.state
        width = self.size.width
        now = time.time()
        header = header_lines(state, now, width, session.cap_wanted)
        if session.died:
            header.append(
                ((" " + _("The start's process is gone. R goes on: what was paid is kept."), "error"),)
            )
        self.query_one("#header", Lines).set_lines(header)
        self.query_one("#lanes", Rows).set_rows(lane_rows(state, session.rates))
        self.own_app.want_fit()
        self._show_fit()
        self._phase_bindings("died" if session.died else f"{state.phase} {state.reason}")

    _phase_shown = ""

    def _phase_bindings(self, phase: str) -> None:
        if phase != self._phase_shown:
            self._phase_shown = phase
            self.refresh_bindings()

    def _show_fit(self) -> None:
        from elometer.tui.fits import provisional_rows, provisional_title

        session = self.session
        self.query_one("#fit-title", Lines).set_lines(
            [provisional_title(session.fit, session.fit_error, session.state)]
        )
        self.query_one("#provisional", Rows).set_rows(provisional_rows(session.fit))
        width = self.size.width - 3
        self.query_one("#beside", Lines).set_lines(
            [*exclusion_lines(session.beside, width), *growth_lines(session.state)]
        )
        self.query_one(Curve).show(session.fit, session.ceilings, session.fit_version)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        session = self.own_app.session
        if action == "break":
            return session.watch is None
        held = held_by_stranger(session.state) and session.running
        if action == "accept":
            return held
        if action in ("pause", "cap", "stop"):
            return session.running and not (action == "pause" and (held or session.state.phase == "stopping"))
        if action == "resume":
            return session.died or session.state.phase in ("partial", "stopped", "failed")
        return super().check_action(action, parameters)

    def action_pause(self) -> None:
        """Pause the start, or let it go on."""
        wanted: Literal["running", "paused"] = "running" if self.session.state.phase == "paused" else "paused"
        self.own_app.ask_state(wanted)

    def action_cap(self, step: int) -> None:
        """Ask for one call in flight more or less."""
        session = self.session
        opened = session.state.opened
        now = session.cap_wanted or session.state.limit or (opened.max_concurrency if opened else 1)
        bound = opened.key_concurrency if opened else None
        if step > 0 and bound is not None and now >= bound:
            words = _("The key's boundary allows {n} calls in flight.").format(n=bound)
            self.notify(words, timeout=3, markup=False)
            return
        self.own_app.ask_limit(max(1, now + step))

    @work
    async def action_accept(self) -> None:
        """Take the names that nobody asked for as right from now on, and go on; after a question."""
        from elometer.tui.screens.dialogs import Question

        words = _("{served} for {asked}: {n} calls")
        names = [
            words.format(served=served, asked=asked, n=n)
            for (asked, served), n in waiting_strangers(self.session.state).items()
        ]
        question = Question(
            _("Is this the model that was asked for?"),
            "\n".join([*names, _("A yes is kept in experiment.resolved.yaml; the start goes on.")]),
            yes=_("yes, take it for right"),
            no=_("leave the start paused"),
        )
        if await self.app.push_screen_wait(question):
            self.own_app.ask_state("running")

    @work
    async def action_stop(self) -> None:
        """Stop after a question: calls on the wire are finished and booked."""
        from elometer.tui.screens.dialogs import Question

        question = Question(
            _("Stop this start?"),
            _("Calls on the wire are finished and booked; the rest can be resumed later."),
            yes=_("stop"),
            no=_("keep running"),
        )
        if await self.app.push_screen_wait(question):
            self.own_app.ask_state("stopping")

    def action_resume(self) -> None:
        """Start the same experiment again; what is there is kept."""
        folder = self.session.folder
        if folder is not None:
            self.own_app.start_folder(folder, _("Going on with {name}.").format(name=folder.name))

    @work(group="break", exclusive=True)
    async def action_break(self) -> None:
        """Plant a fault in a new demo, show what the checks say of it, and start it if that is wanted."""
        from elometer.tui.screens.dialogs import Question, TextDialog
        from elometer.tui.screens.faults import fault_picker, planted_lines

        verbs = self.session.verbs
        name = await self.app.push_screen_wait(fault_picker(await asyncio.to_thread(verbs.faults)))
        if name is None:
            return
        self.notify(_("Planting {name} and asking the checks …").format(name=name), timeout=2, markup=False)
        try:
            planted = await asyncio.to_thread(verbs.plant, name)
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
            return
        await self.app.push_screen_wait(TextDialog(name, planted_lines(planted)))
        refused = _("A failed check refuses this start; yes begins it all the same.")
        question = Question(
            _("Start it all the same?") if planted.blocked else _("Start it?"),
            refused if planted.blocked else _("Its ledger may tell more."),
            yes=_("start"),
            no=_("leave it"),
        )
        if await self.app.push_screen_wait(question):
            words = _("Starting the demo with {name}.").format(name=name)
            self.own_app.start_folder(planted.folder, words, force=planted.blocked)
