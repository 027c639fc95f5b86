"""The short form for a profile. A key's value is never typed here, only its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Label, Select

from elometer.core.errors import ElometerError
from elometer.core.text import gettext as _
from elometer.tui.profile_rows import Entry
from elometer.tui.verbs import Verbs
from elometer.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from elometer.jobs.profiles import ProfileRow
    from elometer.profiles.model import Problem

TOOLS = ("claude-code", "codex", "openai-compatible")


class Field(NamedTuple):
    """A line of the form."""

    name: str
    label: str
    example: str


FIELDS = (
    Field("name", _("name"), "gateway-cc"),
    Field("base_url", _("gateway root"), "https://gateway.example"),
    Field("key", _("key label"), "eval"),
    Field("key_source", _("key source"), "env:NAME · file:PATH · cmd:ARGV · keyring:SERVICE/USER"),
    Field("model", _("model"), ""),
)


class ProfileForm(ModalScreen[bool]):
    """True where a profile was saved."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "save", _("Save"), id="form.save"),
        Binding("escape,f10", "back", _("Back"), key_display="Esc/F10", id="form.back"),
    ]
    DEFAULT_CSS = """
    ProfileForm { align: center middle; background: $background; }
    ProfileForm > VerticalScroll {
        width: 76; max-width: 100%; height: auto; max-height: 95%; border: round $border; padding: 0 1;
        background: $background;
    }
    ProfileForm Horizontal { height: 1; }
    ProfileForm Label { width: 14; }
    ProfileForm Input, ProfileForm Select { width: 1fr; }
    ProfileForm #effective { margin: 1 0 0 0; }
    """

    def __init__(self, verbs: Verbs, preset: Entry | None, edited: ProfileRow | None) -> None:
        super().__init__()
        self.verbs, self.preset, self.edited = verbs, preset, edited

    def compose(self) -> ComposeResult:
        tool, values = self._begin()
        with VerticalScroll(can_focus=False) as box:
            box.border_title = _("Edit a profile") if self.edited else _("Add a profile")
            with Horizontal():
                yield Label(_("tool"))
                yield Select(
                    [(name, name) for name in TOOLS], value=tool, allow_blank=False, id="tool", compact=True
                )
            for field in FIELDS:
                with Horizontal():
                    yield Label(field.label)
                    entry = Input(
                        values.get(field.name, ""), placeholder=field.example, id=field.name, compact=True
                    )
                    entry.cursor_blink = False
                    yield entry
            yield Lines([()], id="effective")
            yield Lines([()], id="problems")
        yield Footer(compact=True, show_command_palette=False)

    def _begin(self) -> tuple[str, dict[str, str]]:
        """Tool and texts to begin with: those of the edited profile, of a preset, or none."""
        if self.edited is not None:
            row = self.edited
            values = {
                "name": row.name,
                "base_url": row.base_url,
                "key": row.key_label or "",
                "model": row.model or "",
            }
            return row.tool, values
        if self.preset is None:
            return TOOLS[0], {}
        preset, profile = self.preset.row
        return profile.tool, {
            "name": profile.name,
            "base_url": profile.base_url,
            "key": profile.key or preset.name,
            "key_source": preset.key_source or "",
            "model": profile.model or "",
        }

    def on_mount(self) -> None:
        if self.edited is not None:
            # What names a profile stays; a copy may have another name. A source belongs to its key.
            for name in ("#tool", "#name", "#key_source"):
                self.query_one(name).disabled = True
        self.query_one("#base_url" if self.edited else "#name", Input).focus()
        self._effective()

    @on(Input.Changed, "#base_url")
    @on(Select.Changed)
    def _effective(self) -> None:
        from elometer.core.urls import effective_url

        root = self.query_one("#base_url", Input).value.strip()
        tool = str(self.query_one("#tool", Select).value)
        shown = effective_url(root, tool) if root else ""
        self.query_one("#effective", Lines).set_lines(
            [((_("{tool} is given  ").format(tool=tool), "muted"), (shown, "strong"))]
        )

    @on(Input.Submitted)
    def _next(self) -> None:
        if self.focused is self.query_one("#model"):
            self.action_save()
        else:
            self.focus_next()

    def action_save(self) -> None:
        """Put the profile into the store; what keeps it out is shown and nothing is lost."""
        values = {
            field.name: self.query_one(f"#{field.name}", Input).value.strip() or None for field in FIELDS
        }
        try:
            problems = self._write(str(self.query_one("#tool", Select).value), values)
        except (ElometerError, OSError) as fault:
            lines = fault.lines() if isinstance(fault, ElometerError) else [str(fault)]
            self.query_one("#problems", Lines).set_lines([((line, "error"),) for line in lines])
            return
        for problem in problems:
            self.notify(problem.message, title=problem.fix, severity="warning", markup=False)
        self.dismiss(True)

    def _write(self, tool: str, values: dict[str, str | None]) -> Sequence[Problem]:
        if self.edited is None:
            return self.verbs.add_profile(tool=tool, **values)
        name = self.edited.name
        self.verbs.edit_profile(
            name, tool, base_url=values["base_url"] or "", key=values["key"], model=values["model"]
        )
        return ()

    def action_back(self) -> None:
        """Close without saving."""
        self.dismiss(False)
