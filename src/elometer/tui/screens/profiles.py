"""Profiles: what the store and the presets hold, grouped by tool, with each tool's effective URL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Input

from elometer.core.errors import ElometerError
from elometer.core.text import gettext as _
from elometer.tui.profile_rows import COLUMNS, PRESET, Entry, detail_lines, entries, profile_rows
from elometer.tui.screens.pane import Pane
from elometer.tui.widgets.lines import Lines
from elometer.tui.widgets.rows import Rows

TOOLS = ("claude-code", "codex", "openai-compatible")


class ProfilesPane(Pane):
    """Read from the store on entering; never from a client's live file."""

    NAME = "profiles"
    HELP = """
    # Profiles
    A profile stores the gateway's root; the effective URL is what its tool is given: the root for Claude
    Code, the root with `/v1` for Codex and OpenAI clients. A key is shown by label and fingerprint.

    `●` marks the active profile of a tool, `!` one that cannot be used as it stands.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "add", _("Add"), id="profiles.add"),
        Binding("slash", "filter", _("Filter"), key_display="/", id="profiles.filter"),
        Binding("escape", "unfilter", _("All"), show=False, id="profiles.unfilter"),
    ]
    DEFAULT_CSS = """
    ProfilesPane {
        #body { layout: vertical; padding: 0 1; }
        #filter { display: none; height: 1; }
        &.-filtering #filter { display: block; }
        #profiles { height: 1fr; }
        #detail { margin: 1 0 0 0; max-height: 7; }
        &.-short #detail { display: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._found: list[Entry] = []
        self._loaded = False

    def compose_body(self) -> Iterable[Widget]:
        words = Input(placeholder=_("name, tool or URL"), id="filter", compact=True)
        words.cursor_blink = False
        yield Container(words, Rows(COLUMNS, cursor=True, id="profiles"), Lines(id="detail"), id="body")

    def on_mount(self) -> None:
        super().on_mount()
        self.reload()

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self.reload()

    @work(group="profiles-pane", exclusive=True)
    async def reload(self) -> None:
        """Read the store again."""
        verbs = self.session.verbs
        try:
            profiles = await asyncio.to_thread(verbs.profiles)
            presets = await asyncio.to_thread(verbs.presets)
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
            return
        self._found = entries(profiles, presets)
        self._loaded = True
        self._fill()

    def _fill(self) -> None:
        if self._loaded and not self._found:
            self.say_empty(_("The store holds no profile yet."), ("a", _("add a profile")))
            return
        self.say_filled()
        words = self.query_one("#filter", Input).value
        found = [entry for entry in self._found if entry.matches(words)]
        rows = self.query_one("#profiles", Rows)
        rows.set_rows(profile_rows(found, TOOLS))
        if self.focused is None:
            rows.focus()
        self._detail(rows.current)

    def _detail(self, key: str | None) -> None:
        chosen = next((entry for entry in self._found if entry.key == key), None)
        self.query_one("#detail", Lines).set_lines(detail_lines(chosen))

    def on_rows_moved(self, message: Rows.Moved) -> None:
        self._detail(message.key)

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        chosen = next((entry for entry in self._found if entry.key == message.key), None)
        if chosen is not None and chosen.kind == PRESET:
            self._add(chosen)

    def action_add(self) -> None:
        """Add a profile by a short form."""
        self._add(None)

    @work
    async def _add(self, preset: Entry | None) -> None:
        from elometer.tui.screens.profile_form import ProfileForm

        if await self.app.push_screen_wait(ProfileForm(self.session.verbs, preset)):
            self.reload()
            self.own_app.read_profiles()

    def action_filter(self) -> None:
        """Type words that name, tool or URL must hold."""
        self.set_class(True, "-filtering")
        self.query_one("#filter", Input).focus()

    def action_unfilter(self) -> None:
        """Show all again."""
        words = self.query_one("#filter", Input)
        words.value = ""
        self.set_class(False, "-filtering")
        self.query_one("#profiles", Rows).focus()

    def on_input_changed(self) -> None:
        self._fill()

    def on_input_submitted(self) -> None:
        self.query_one("#profiles", Rows).focus()
