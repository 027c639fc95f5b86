"""What all panes have: bar of panes, status line, footer, and one place where they look at the files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer

from elometer.core.text import gettext as _
from elometer.tui.lanes import phase_text
from elometer.tui.session import Session
from elometer.tui.widgets.bars import PaneBar, StatusBar
from elometer.tui.widgets.hint import Hint

if TYPE_CHECKING:
    from elometer.tui.app import ElometerApp

PANES = (
    ("profiles", _("Profiles")),
    ("run", _("Run")),
    ("ledger", _("Ledger")),
    ("fit", _("Fit")),
    ("checks", _("Checks")),
)


WIDE = 110


class Pane(Screen[None]):
    """A mode's screen. `pull` is called by the app's timer while the pane is what the user looks at."""

    NAME: ClassVar[str] = ""
    AUTO_FOCUS = "Rows"
    DEFAULT_CSS = """
    Pane { background: $background; color: $foreground; }
    Pane > #body { height: 1fr; }
    Pane > #empty { display: none; }
    Pane.-empty > #body { display: none; }
    Pane.-empty > #empty { display: block; }
    """

    @property
    def own_app(self) -> ElometerApp:
        """The app, with its type."""
        return cast("ElometerApp", self.app)

    @property
    def session(self) -> Session:
        """What is open."""
        return self.own_app.session

    def compose(self) -> ComposeResult:
        yield PaneBar(PANES, self.NAME)
        yield from self.compose_body()
        yield Hint(id="empty")
        yield StatusBar()
        yield Footer(compact=True, show_command_palette=False)

    def compose_body(self) -> Iterable[Widget]:
        """The pane's own widgets, in one container with the id `body`."""
        return ()

    def on_mount(self) -> None:
        self.look()

    def on_screen_resume(self) -> None:
        self.look()

    def look(self) -> None:
        """Show what is known now: bars first, then the pane's own part."""
        # Not composed yet, or being taken down; the body's own parts come after the body.
        if not self.is_running or not self.query(StatusBar) or not self.query("#body > *"):
            return
        session = self.session
        self.query_one(PaneBar).show(simulated=session.simulated)
        phase, style = phase_text(session.state, session.died) if session.watch else ("", "")
        opened = session.state.opened
        folder = session.folder
        start = folder.name if folder else ""
        if opened:
            start = opened.run_id if self.size.width >= WIDE else opened.experiment_id
        self.query_one(StatusBar).show(start, phase, style, self.own_app.active_profiles)
        self.pull()

    def pull(self) -> None:
        """Bring the pane's own widgets up to date; cheap when nothing changed."""

    def say_empty(self, sentence: str, *keys: tuple[str, str]) -> None:
        """Show the hint instead of the body."""
        self.query_one("#empty", Hint).say(sentence, keys)
        self.set_class(True, "-empty")

    def say_filled(self) -> None:
        """Show the body."""
        self.set_class(False, "-empty")
