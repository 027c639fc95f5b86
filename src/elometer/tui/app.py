"""The app: five panes over files. It reads what a start writes and asks through control.json."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal

from textual import work
from textual.app import App, ScreenStackError, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from elometer.core.errors import ElometerError
from elometer.core.paths import config_folder, data_folder
from elometer.core.redact import redact
from elometer.core.text import gettext as _
from elometer.tui import themes
from elometer.tui.keymap import read_keymap
from elometer.tui.refit import Refit
from elometer.tui.screens.pane import PANES, Pane
from elometer.tui.session import Session
from elometer.tui.terminal import ANSI, Terminal, read_terminal
from elometer.tui.verbs import Verbs

TOOL_NAMES = {"claude-code": "cc", "codex": "cx", "openai-compatible": "api"}
SECOND_CTRL_C_S = 2.0
SILENCE_S = 5.0
LIFE_PAUSE_S = 30.0
PANES_GROUP = Binding.Group(_("Panes"), compact=True)


def _pane(name: str) -> Callable[[], Screen[Any]]:
    """A pane's screen, its module imported when the pane is first shown."""

    def make() -> Screen[Any]:
        from importlib import import_module

        module = import_module(f"elometer.tui.screens.{name}")
        screen: Screen[Any] = getattr(module, f"{name.capitalize()}Pane")()
        return screen

    return make


class ElometerApp(App[str]):
    """Profiles, Run, Ledger, Fit, Checks. Returns the text to print when it is left."""

    TITLE = "elometer"
    CSS_PATH = "elometer.tcss"
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        name: _pane(name) for name, _title in PANES
    }
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (72, "-normal"), (110, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (22, "-tall"), (32, "-high")]  # noqa: RUF012
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(position), f"pane('{name}')", title, id=f"app.pane.{name}", group=PANES_GROUP)
            for position, (name, title) in enumerate(PANES, start=1)
        ),
        Binding("d", "demo", _("Demo"), show=False, id="app.demo"),
        Binding("o", "open", _("Open"), id="app.open"),
        Binding("i", "init", _("Init"), show=False, id="app.init"),
        Binding("p", "probe", _("Probe"), show=False, id="app.probe"),
        Binding("question_mark", "help", _("Help"), key_display="?", id="app.help"),
        Binding("q", "leave", _("Quit"), id="app.quit"),
        Binding("ctrl+q", "leave", _("Quit"), show=False, priority=True, system=True, id="app.quit_anywhere"),
        Binding("ctrl+c", "interrupt", _("Stop the start"), show=False, priority=True, id="app.interrupt"),
    ]

    def __init__(
        self,
        folder: Path | None = None,
        *,
        verbs: Verbs | None = None,
        terminal: Terminal | None = None,
        first: str = "",
    ) -> None:
        self.terminal = terminal or read_terminal(os.environ)
        self.failures: list[str] = []
        # Only here can Textual be told that NO_COLOR means no colours: with a hex theme it would send greys.
        super().__init__(ansi_color=True if self.terminal.theme == ANSI else None)
        self.animation_level = "none"
        self._load_themes()
        keys, faults = read_keymap(config_folder() / "keys.toml")
        self.set_keymap(keys)
        self.failures += faults
        self.session = Session(verbs or Verbs())
        self.active_profiles: list[tuple[str, str]] = [(short, "-") for short in TOOL_NAMES.values()]
        self._open_first = folder
        self._first_pane = first or "run"
        self._polling = False
        self._refit = Refit(self)
        self._life_after = 0.0
        self._interrupted_at = float("-inf")
        self._asking = asyncio.Lock()

    def _load_themes(self) -> None:
        """Register the theme files and choose one; a broken file costs a notice, not the start."""
        loaded, self.failures = themes.load_themes(data_folder("themes"), config_folder() / "themes")
        for theme in loaded:
            self.register_theme(theme)
        wanted = self.terminal.theme
        if wanted in self.available_themes:
            self.theme = wanted
        elif themes.DEFAULT in self.available_themes:
            self.theme = themes.DEFAULT
            self.failures.append(_("no theme is named {name}").format(name=wanted))

    def get_theme_variable_defaults(self) -> dict[str, str]:
        theme = self.current_theme
        return themes.row_variables(theme, theme.to_color_system().generate())

    def on_mount(self) -> None:
        self.switch_mode(self._first_pane)
        if self.failures:
            self.notify("\n".join(self.failures), title=_("Not taken over"), severity="warning", markup=False)
        self.set_interval(self.terminal.pull_seconds, self.pull)
        if self._open_first is not None:
            self.open_folder(self._open_first)
        self.read_profiles()

    # --- looking at files -------------------------------------------------------------------------------

    @property
    def pane(self) -> Pane | None:
        """The pane that the user looks at; None while a dialog covers it."""
        try:
            return self.screen if isinstance(self.screen, Pane) else None
        except ScreenStackError:  # the app is being left while a look at the files was under way
            return None

    async def pull(self) -> None:
        """Read new events and let the visible pane show them. A stalled disk never holds the keyboard."""
        session = self.session
        if self._polling:
            return
        if session.watch is not None:
            self._polling = True
            watch = session.watch
            try:
                state = await asyncio.to_thread(watch.poll)
            except (OSError, ElometerError) as fault:
                self.say(fault)
                session.watch = None
                return
            finally:
                self._polling = False
            if watch is session.watch:
                session.take(state, time.monotonic())
                self._look_for_life()
        if pane := self.pane:
            pane.look()

    def _look_for_life(self) -> None:
        """A start that says nothing for a while may have died; asking reads all its events: seldom."""
        session, now = self.session, time.monotonic()
        if session.running and now - session.changed_at > SILENCE_S and now >= self._life_after:
            self._life_after = now + LIFE_PAUSE_S
            self._ask_for_life()

    @work(group="life", exclusive=True)
    async def _ask_for_life(self) -> None:
        session, folder = self.session, self.session.folder
        if folder is None:
            return
        try:
            standing = await asyncio.to_thread(session.verbs.standing, folder)
        except (ElometerError, OSError):
            return  # the next poll says what is wrong with the folder
        if folder == session.folder and standing == "died":
            session.died = True
            self.refresh_bindings()
            if pane := self.pane:
                pane.look()

    def want_fit(self) -> None:
        """Fit again in a thread, if blocks were finished since; never more than one at a time."""
        self._refit.want()

    @work(group="profiles", exclusive=True)
    async def read_profiles(self) -> None:
        """Learn the active profile of each tool."""
        try:
            profiles = await asyncio.to_thread(self.session.verbs.active_profiles)
        except (ElometerError, OSError) as fault:
            self.say(fault)
            return
        self.active_profiles = [(short, profiles.get(tool, "-")) for tool, short in TOOL_NAMES.items()]
        if pane := self.pane:
            pane.look()

    # --- starts -----------------------------------------------------------------------------------------

    def open_folder(self, folder: Path) -> None:
        """Turn all panes to this experiment's folder."""
        try:
            self.session.open(self.session.verbs.watch(folder))
        except (ElometerError, OSError) as fault:
            self.say(fault)
            return
        self.refresh_bindings()
        if pane := self.pane:
            pane.look()

    @work(group="start", exclusive=True)
    async def action_demo(self) -> None:
        """Run the demo; its process goes on when the app is left."""
        await self._start(
            self.session.verbs.start_demo, _("Starting the demo (a simulation, no key, no cost).")
        )

    @work(group="start", exclusive=True)
    async def start_folder(self, folder: Path, words: str, *, force: bool = False) -> None:
        """Start an experiment, or go on with it; `force`: although a check fails."""
        await self._start(lambda: self.session.verbs.start_run(folder, force=force), words)

    async def _start(self, start: Callable[[], Path], words: str) -> None:
        self.notify(words, markup=False)
        try:
            folder = await asyncio.to_thread(start)
        except (ElometerError, OSError) as fault:
            self.say(fault)
            return
        self.open_folder(folder)
        self.switch_mode("run")

    @work(group="start", exclusive=True)
    async def action_init(self) -> None:
        """Write a new experiment into the workspace and say what comes next."""
        try:
            written = await asyncio.to_thread(self.session.verbs.init)
        except (ElometerError, OSError) as fault:
            self.say(fault)
            return
        names = "\n".join(str(path) for path in written)
        self.notify(
            _("Edit them, then: elometer run {path}").format(path=written[0]),
            title=names,
            timeout=20,
            markup=False,
        )

    def action_probe(self) -> None:
        """Go where a profile can be chosen and probed."""
        self.switch_mode("profiles")
        self.notify(_("Choose a profile of the store, then p probes its gateway; a adds one."))

    @work
    async def action_open(self) -> None:
        """Choose an experiment to watch."""
        from elometer.tui.screens.starts import start_picker

        try:
            starts = await asyncio.to_thread(self.session.verbs.starts)
        except (ElometerError, OSError) as fault:
            self.say(fault)
            return
        folder = await self.push_screen_wait(start_picker(starts))
        if folder is not None:
            self.open_folder(Path(folder))
            self.switch_mode("run")

    def ask_state(self, state: Literal["running", "paused", "stopping"]) -> None:
        """Write the desired state; the start takes it over by itself."""
        self._ask(lambda folder: self.session.verbs.set_state(folder, state))

    def ask_limit(self, limit: int) -> None:
        """Write the desired cap on calls in flight."""
        self.session.cap_wanted, self.session.cap_asked_at = limit, time.monotonic()
        self._ask(lambda folder: self.session.verbs.set_limit(folder, limit))
        if pane := self.pane:
            pane.look()

    @work(group="ask")
    async def _ask(self, write: Callable[[Path], object]) -> None:
        folder = self.session.folder
        if folder is None:
            return
        try:
            async with self._asking:  # one after the other: the last key pressed is the wish that stays
                await asyncio.to_thread(write, folder)
        except (ElometerError, OSError) as fault:
            self.say(fault)

    # --- keys -------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        # One key must not begin something while another start is looked at; the palette still can.
        if action in ("demo", "init", "probe") and self.session.watch is not None:
            return False
        return super().check_action(action, parameters)

    def action_pane(self, name: str) -> None:
        """Show a pane; a dialog stays until it is answered."""
        if self.pane is not None:
            self.switch_mode(name)

    def action_help(self) -> None:
        """Show or hide the keys and words of the pane."""
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def action_interrupt(self) -> None:
        """The first ctrl+c asks the start to drain; the second within two seconds leaves."""
        now = time.monotonic()
        if now - self._interrupted_at <= SECOND_CTRL_C_S:
            self.action_leave()
            return
        self._interrupted_at = now
        if self.session.running:
            self.ask_state("stopping")
            self.notify(_("The start finishes its calls and ends. ctrl+c again leaves the app."))
        else:
            self.notify(_("ctrl+c again, or q, leaves the app."))

    def action_leave(self) -> None:
        """Leave; a running start goes on, and the farewell says so."""
        from elometer.tui.farewell import farewell

        self.exit(farewell(self.session))

    async def action_quit(self) -> None:
        """What the command palette calls; the same way out."""
        self.action_leave()

    def say(self, fault: BaseException) -> None:
        """Show an error's lines."""
        lines = fault.lines() if isinstance(fault, ElometerError) else [str(fault)]
        self.notify(
            "\n".join(lines[1:]) or lines[0], title=lines[0], severity="error", timeout=10, markup=False
        )

    def _fatal_error(self) -> None:
        # Textual's own report shows the values of local variables; a form may hold one that none may see.
        import traceback

        from rich.text import Text

        self.panic(Text(redact(traceback.format_exc())))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        for name, title in PANES:
            yield SystemCommand(title, _("Show this pane"), lambda name=name: self.action_pane(name))
        yield SystemCommand(_("Demo"), _("Run the whole job on the embedded gateway"), self.action_demo)
        yield SystemCommand(_("Open"), _("Watch a start, or look at a finished one"), self.action_open)


def run_app(folder: Path | None = None) -> str:
    """Run the app on a start's folder, or on the workspace; the text to print afterwards.

    Raises ElometerError where the view broke; the start that it showed is a process of its own and goes on.
    """
    terminal = read_terminal(os.environ)
    app = ElometerApp(folder, terminal=terminal)
    said = app.run(mouse=terminal.mouse)
    if app.return_code:
        raise ElometerError(
            _("The view ended by a fault of its own; a start goes on without it."),
            evidence=str(app.session.folder or ""),
            fix=_("'elometer watch' opens it again; please report the lines above."),
        )
    return said or ""
