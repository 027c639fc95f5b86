"""Profiles: what the store and the presets hold, grouped by tool, with each tool's effective URL."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Input

from elometer.core.clock import utc_now
from elometer.core.errors import ElometerError
from elometer.core.text import gettext as _
from elometer.tui.profile_rows import COLUMNS, PRESET, STORE, Entry, detail_lines, entries, profile_rows
from elometer.tui.screens.pane import Pane
from elometer.tui.widgets.lines import Lines
from elometer.tui.widgets.rows import Rows

if TYPE_CHECKING:
    from elometer.jobs.account import KeyDay
    from elometer.jobs.profiles import Preview, ProfileRow

TOOLS = ("claude-code", "codex", "openai-compatible")


class ProfilesPane(Pane):
    """Read from the store on entering; never from a client's live file."""

    NAME = "profiles"
    HELP = """
    # Profiles
    A profile stores the gateway's root; the effective URL is what its tool is given: the root for Claude
    Code, the root with `/v1` for Codex and OpenAI clients. A key is shown by label and fingerprint.

    Enter shows what a switch would change in the client's file and asks; `u` takes the newest switch back, to
    the byte. `v` shows what each tool lives by now. `e` edits, `c` copies, `d` deletes, `p` probes,
    `t` shows which credential its client sends where, `o` runs the client in a clean environment.

    `●` marks the active profile of a tool, `!` one that cannot be used as it stands.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "switch", _("Switch"), key_display="⏎", id="profiles.switch"),
        Binding("a", "add", _("Add"), id="profiles.add"),
        Binding("e", "edit", _("Edit"), id="profiles.edit"),
        Binding("c", "copy", _("Copy"), show=False, id="profiles.copy"),
        Binding("t", "test", _("Test"), show=False, id="profiles.test"),
        Binding("o", "launch", _("Launch"), show=False, id="profiles.launch"),
        Binding("D", "diff", _("Diff"), show=False, id="profiles.diff"),
        Binding("u", "undo", _("Undo"), id="profiles.undo"),
        Binding("v", "drift", _("Drift"), show=False, id="profiles.drift"),
        Binding("p", "probe", _("Probe"), id="profiles.probe"),
        Binding("d", "delete", _("Delete"), show=False, id="profiles.delete"),
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
        self._days: Mapping[str, KeyDay] = {}
        self._minute = 0

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
        # Ledgers of a long day take their time: what a key spent follows by itself.
        try:
            self._days = await asyncio.to_thread(verbs.key_days)
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
            return
        self._fill()

    def pull(self) -> None:
        """Move the countdowns on, once a minute."""
        if self._loaded and int(time.time() // 60) != self._minute:
            self._fill()

    def _fill(self) -> None:
        if self._loaded and not self._found:
            self.say_empty(_("The store holds no profile yet."), ("a", _("add a profile")))
            return
        self.say_filled()
        self._minute = int(time.time() // 60)
        words = self.query_one("#filter", Input).value
        found = [entry for entry in self._found if entry.matches(words)]
        rows = self.query_one("#profiles", Rows)
        rows.set_rows(profile_rows(found, TOOLS, self._days, utc_now()))
        if self.focused is None:
            rows.focus()
        self._detail(rows.current)

    def _detail(self, key: str | None) -> None:
        chosen = next((entry for entry in self._found if entry.key == key), None)
        self.query_one("#detail", Lines).set_lines(detail_lines(chosen, self._days, utc_now()))

    def on_rows_moved(self, message: Rows.Moved) -> None:
        self._detail(message.key)

    def _chosen(self, kind: str = STORE) -> Entry | None:
        key = self.query_one("#profiles", Rows).current
        chosen = next((entry for entry in self._found if entry.key == key), None)
        return chosen if chosen is not None and chosen.kind == kind else None

    def on_rows_chosen(self) -> None:
        self.action_switch()

    def action_switch(self) -> None:
        """Switch the tool to this profile, after its difference was shown; a preset is added instead."""
        if preset := self._chosen(PRESET):
            self._form(preset=preset)
        elif entry := self._chosen():
            self._preview(lambda: self.session.verbs.preview_switch(entry.name, entry.tool), ask=True)

    def action_diff(self) -> None:
        """Show what a switch would change."""
        if entry := self._chosen():
            self._preview(lambda: self.session.verbs.preview_switch(entry.name, entry.tool), ask=False)

    def action_undo(self) -> None:
        """Take back the newest switch, after its difference was shown."""
        self._preview(self.session.verbs.preview_undo, ask=True)

    @work(group="switch", exclusive=True)
    async def _preview(self, plan: Callable[[], Preview], *, ask: bool) -> None:
        from elometer.tui.screens.preview import PreviewDialog

        try:
            preview = await asyncio.to_thread(plan)
            if not await self.app.push_screen_wait(PreviewDialog(preview, ask=ask)):
                return
            await asyncio.to_thread(self.session.verbs.apply, preview)
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
            return
        done = _("Taken back.") if preview.plan.action == "undo" else _("Switched.")
        self.notify("\n".join(preview.next_steps) or done, title=done, timeout=10, markup=False)
        self._changed()

    @work(group="drift", exclusive=True)
    async def action_drift(self) -> None:
        """What each tool lives by now, and what overrides it."""
        from elometer.tui.profile_rows import drift_lines
        from elometer.tui.screens.dialogs import TextDialog

        try:
            states = await asyncio.to_thread(self.session.verbs.drift)
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
            return
        await self.app.push_screen(TextDialog(_("What is live"), drift_lines(states)))

    @work(group="probe", exclusive=True)
    async def action_probe(self) -> None:
        """Send one minimal request per protocol to this profile's gateway, after a question."""
        from elometer.tui.profile_rows import probe_lines
        from elometer.tui.screens.dialogs import Question, TextDialog

        entry = self._chosen()
        if entry is None:
            self.notify(_("Choose a profile of the store: its gateway is probed."))
            return
        verbs = self.session.verbs
        question = Question(
            _("Probe the gateway of {name}?").format(name=entry.name),
            _("Up to {tokens} tokens are spent and booked as probe.").format(
                tokens=await asyncio.to_thread(verbs.live_cost)
            ),
            yes=_("probe"),
            no=_("leave it"),
        )
        if not await self.app.push_screen_wait(question):
            return
        self.notify(_("Asking {url} …").format(url=entry.url), timeout=2, markup=False)
        try:
            rows = await asyncio.to_thread(verbs.probe, entry.name, entry.tool)
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
            return
        await self.app.push_screen(TextDialog(entry.url, probe_lines(rows)))

    @work(group="delete", exclusive=True)
    async def action_delete(self) -> None:
        """Take the profile out of the store, after a question."""
        from elometer.tui.screens.dialogs import Question

        entry = self._chosen()
        if entry is None:
            return
        question = Question(
            _("Delete {name} ({tool})?").format(name=entry.name, tool=entry.tool),
            _("Its key stays in the store, and no file of {tool} is changed.").format(tool=entry.tool),
            yes=_("delete"),
            no=_("keep"),
        )
        if not await self.app.push_screen_wait(question):
            return
        try:
            await asyncio.to_thread(self.session.verbs.remove_profile, entry.name, entry.tool)
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
        self._changed()

    def action_add(self) -> None:
        """Add a profile by a short form."""
        self._form()

    def action_edit(self) -> None:
        """Change URL, key and model of the chosen profile; reads the store only, never a client's file."""
        if entry := self._chosen():
            self._form(edited=entry.row)

    @work
    async def _form(self, preset: Entry | None = None, edited: ProfileRow | None = None) -> None:
        from elometer.tui.screens.profile_form import ProfileForm

        if await self.app.push_screen_wait(ProfileForm(self.session.verbs, preset, edited)):
            self._changed()

    def _changed(self) -> None:
        self.reload()
        self.own_app.read_profiles()

    @work(group="copy", exclusive=True)
    async def action_copy(self) -> None:
        """Add a copy of the chosen profile under the next free name."""
        entry = self._chosen()
        if entry is None:
            return
        taken = {other.name for other in self._found if other.kind == STORE}
        number = 2
        while f"{entry.name}-{number}" in taken:
            number += 1
        try:
            await asyncio.to_thread(
                self.session.verbs.duplicate_profile, entry.name, f"{entry.name}-{number}", entry.tool
            )
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
        self._changed()

    @work(group="test", exclusive=True)
    async def action_test(self) -> None:
        """Run the profile's real client against a loopback recorder with a made-up key: where does it go?"""
        from elometer.tui.screens.dialogs import TextDialog

        entry = self._chosen()
        if entry is None:
            return
        self.notify(
            _("Testing {name} with a made-up key on this machine …").format(name=entry.name), markup=False
        )
        try:
            result = await asyncio.to_thread(self.session.verbs.self_test, entry.name, entry.tool)
        except (ElometerError, OSError) as fault:
            self.own_app.say(fault)
            return
        lines = [
            f"{result.status}: {result.reason}",
            *(f"  {sighting.line()}" for sighting in result.sightings),
        ]
        await self.app.push_screen(TextDialog(_("Which credential goes where"), lines))

    @work(group="launch", exclusive=True)
    async def action_launch(self) -> None:
        """Run the tool's client under this profile, in a clean environment, and come back when it ends."""
        entry = self._chosen()
        if entry is None:
            return
        verbs = self.session.verbs
        try:
            prepared = await asyncio.to_thread(verbs.prepare_launch, entry.name, entry.tool)
            with self.app.suspend():
                for note in prepared.notes:
                    print(note)  # noqa: T201 (the app is suspended: this is the user's own screen)
                code = verbs.launch(prepared)
        except (ElometerError, OSError, SuspendNotSupported) as fault:
            self.own_app.say(fault)
            return
        self.notify(_("{name} ended with exit code {code}.").format(name=entry.name, code=code), markup=False)

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
