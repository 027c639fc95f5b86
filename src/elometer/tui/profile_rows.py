"""The Profiles pane as text: the store's profiles grouped by tool, then what the presets offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from elometer.core.limits import Boundary
from elometer.core.text import gettext as _
from elometer.core.text import ngettext
from elometer.tui.figures import UNKNOWN, compact, count, distance
from elometer.tui.widgets.lines import Line, Piece
from elometer.tui.widgets.rows import Column, Row

if TYPE_CHECKING:
    from elometer.jobs.account import KeyDay

COLUMNS = (
    Column("active", "", 2, "left"),
    Column("name", _("profile"), 16, "left", grow=8),
    Column("key", _("key"), 12, "left", drop=3, grow=8),
    Column("fingerprint", _("finger"), 8, "left", drop=4),
    Column("boundary", _("boundary"), 17, "left", drop=5, grow=16),
    Column("today", _("today"), 10, drop=6),
    Column("url", _("effective URL"), 30, "left", grow=200),
    Column("model", _("model"), 14, "left", drop=7),
)
STORE, PRESET = "store", "preset"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row's origin: `kind` is `store` or `preset`; `row` is a ProfileRow or (Preset, Profile)."""

    kind: str
    name: str
    tool: str
    row: Any

    @property
    def key(self) -> str:
        """What the table's row is known by."""
        return f"{self.kind}:{self.tool}:{self.name}"

    def matches(self, words: str) -> bool:
        """True where every word occurs in name, tool or URL."""
        text = f"{self.name} {self.tool} {self.url}".lower()
        return all(word in text for word in words.lower().split())

    @property
    def url(self) -> str:
        """The base URL that the tool is given."""
        return str((self.row if self.kind == STORE else self.row[1]).effective_url)


def entries(profiles: Sequence[Any], presets: Sequence[Any]) -> list[Entry]:
    """All rows: the store first."""
    found = [Entry(STORE, row.name, row.tool, row) for row in profiles]
    for preset in presets:
        found += [Entry(PRESET, profile.name, profile.tool, (preset, profile)) for profile in preset.profiles]
    return found


def profile_rows(
    found: Sequence[Entry], tools: Sequence[str], days: Mapping[str, KeyDay], now: datetime
) -> list[Row]:
    """Rows under a heading for each tool, then the presets. `days` is what each key label spent today."""
    rows: list[Row] = []
    for tool in tools:
        group = [entry for entry in found if entry.kind == STORE and entry.tool == tool]
        if group:
            rows.append(Row(f"heading:{tool}", heading=tool))
            rows += [_store_row(entry, days, now) for entry in group]
    offered = [entry for entry in found if entry.kind == PRESET]
    if offered:
        rows.append(Row("heading:presets", heading=_("sample_profiles (Enter adds one to the store)")))
        rows += [_preset_row(entry) for entry in offered]
    return rows


def _store_row(entry: Entry, days: Mapping[str, KeyDay], now: datetime) -> Row:
    row = entry.row
    expires = row.boundary.expires_at
    failing = any(problem.severity == "fail" for problem in row.problems) or (expires and expires <= now)
    mark = ("●" if row.active else " ") + ("!" if failing else "")
    return Row(
        entry.key,
        {
            "active": mark,
            "name": row.name,
            "key": row.key_label or _("no key"),
            "fingerprint": row.fingerprint or UNKNOWN,
            "boundary": boundary_text(row.boundary, now),
            "today": today_text(days.get(row.key_label or "")),
            "url": row.effective_url,
            "model": row.model or "",
        },
        style="warning" if failing else "strong" if row.active else "",
    )


def _preset_row(entry: Entry) -> Row:
    preset, profile = entry.row
    cells = {
        "name": entry.name,
        "key": preset.key_source or _("no key"),
        "boundary": profile.tool,
        "url": profile.effective_url,
        "model": profile.model or "",
    }
    return Row(entry.key, cells, style="muted")


def boundary_text(boundary: Boundary, now: datetime) -> str:
    """`in 12 d 3 h 4∥ 200k/d 2 models`, only what is set, the countdown first."""
    parts = []
    if boundary.expires_at:
        parts.append(expiry_text(boundary.expires_at, now))
    if boundary.max_concurrency:
        parts.append(f"{boundary.max_concurrency}∥")
    if boundary.daily_budget_tokens:
        parts.append(f"{compact(boundary.daily_budget_tokens)}/d")
    if boundary.allowed_models:
        n = len(boundary.allowed_models)
        parts.append(ngettext("{n} model", "{n} models", n).format(n=n))
    return " ".join(parts) or UNKNOWN


def expiry_text(expires: datetime, now: datetime) -> str:
    """`in 3 d 4 h`; `expired 12 d 0 h ago` from the moment itself on."""
    left = (expires - now).total_seconds()
    if left > 0:
        return _("in {time}").format(time=distance(left))
    return _("expired {time} ago").format(time=distance(-left))


def today_text(day: KeyDay | None) -> str:
    """`12.3k/200k`: what the key spent today, of what it may."""
    if day is None:
        return UNKNOWN
    return compact(day.spent) + (f"/{compact(day.budget)}" if day.budget else "")


def detail_lines(entry: Entry | None, days: Mapping[str, KeyDay], now: datetime) -> list[Line]:
    """What is known of the chosen row, in words."""
    if entry is None:
        return []
    if entry.kind == PRESET:
        preset, profile = entry.row
        return [
            ((preset.title, "heading"),),
            ((_("gateway root {url}, for {tool}").format(url=profile.base_url, tool=profile.tool), ""),),
        ]  # fmt: skip
    row = entry.row
    boundary = row.boundary
    lines: list[Line] = [
        ((row.name, "heading"), (f"  {row.tool}", "muted")),
        ((_("gateway root {url}").format(url=row.base_url), ""),),
        ((_("models {models}; {calls} calls at once; {tokens} tokens a day; expires {date}").format(
            models=", ".join(boundary.allowed_models) or _("any"),
            calls=count(boundary.max_concurrency),
            tokens=count(boundary.daily_budget_tokens),
            date=f"{boundary.expires_at:%Y-%m-%d %H:%M %Z}" if boundary.expires_at else UNKNOWN), ""),),
    ]  # fmt: skip
    pieces: list[Piece] = []
    if boundary.expires_at:
        style = "error" if boundary.expires_at <= now else ""
        pieces.append(
            (_("boundary {countdown}").format(countdown=expiry_text(boundary.expires_at, now)) + "  ", style)
        )
    if day := days.get(row.key_label or ""):
        words = _("today ({day} {zone}) {spent} tokens booked").format(
            day=day.day, zone=boundary.timezone, spent=count(day.spent)
        )
        pieces.append((words, ""))
    if pieces:
        lines.append(tuple(pieces))
    for problem in row.problems:
        style = "error" if problem.severity == "fail" else "warning"
        lines.append(((f"! {problem.message}", style), (f"  {problem.fix}" if problem.fix else "", "muted")))
    return lines


def drift_lines(states: Sequence[Any]) -> list[str]:
    """What each tool lives by, in words; keys by fingerprint."""
    lines: list[str] = []
    for state in states:
        labels = f" ({', '.join(state.key_labels)})" if state.key_labels else ""
        lines += [
            f"{state.tool}: {state.profile or _('no profile of the store')}",
            f"  {_('file')} {state.path or UNKNOWN}",
            f"  {_('URL')} {state.base_url or UNKNOWN}  {_('model')} {state.model or UNKNOWN}",
            f"  {_('key')} {state.fingerprint or UNKNOWN}{labels}",
        ]
        lines += [f"  ! {line}" for line in (*state.drift, *state.overrides)]
        lines.append("")
    return lines


def probe_lines(rows: Sequence[Any]) -> list[str]:
    """What a probe found: sign, question, evidence, cause and fix."""
    from elometer.tui.check_rows import STATUS

    lines: list[str] = []
    for row in rows:
        sign, word, _style = STATUS[row.status]
        lines.append(f"{sign} {word}: {_(row.check.question)}")
        lines += [f"    {line}" for line in row.result.evidence]
        lines += [f"    → {line}" for line in (row.result.cause, row.result.fix) if line]
    return lines
