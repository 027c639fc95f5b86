"""The Profiles pane as text: the store's profiles grouped by tool, then what the presets offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from elometer.core.limits import Boundary
from elometer.core.text import gettext as _
from elometer.core.text import ngettext
from elometer.tui.figures import UNKNOWN, compact, count
from elometer.tui.widgets.lines import Line
from elometer.tui.widgets.rows import Column, Row

COLUMNS = (
    Column("active", "", 2, "left"),
    Column("name", _("profile"), 16, "left"),
    Column("key", _("key"), 14, "left", drop=3, grow=10),
    Column("fingerprint", _("finger"), 8, "left", drop=4),
    Column("boundary", _("boundary"), 16, "left", drop=5),
    Column("url", _("effective URL"), 24, "left", grow=200),
    Column("model", _("model"), 18, "left", drop=6),
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


def profile_rows(found: Sequence[Entry], tools: Sequence[str]) -> list[Row]:
    """Rows under a heading for each tool, then the presets."""
    rows: list[Row] = []
    for tool in tools:
        group = [entry for entry in found if entry.kind == STORE and entry.tool == tool]
        if group:
            rows.append(Row(f"heading:{tool}", heading=tool))
            rows += [_store_row(entry) for entry in group]
    offered = [entry for entry in found if entry.kind == PRESET]
    if offered:
        rows.append(Row("heading:presets", heading=_("sample_profiles (Enter adds one to the store)")))
        rows += [_preset_row(entry) for entry in offered]
    return rows


def _store_row(entry: Entry) -> Row:
    row = entry.row
    failing = any(problem.severity == "fail" for problem in row.problems)
    mark = ("●" if row.active else " ") + ("!" if failing else "")
    return Row(
        entry.key,
        {
            "active": mark,
            "name": row.name,
            "key": row.key_label or _("no key"),
            "fingerprint": row.fingerprint or UNKNOWN,
            "boundary": boundary_text(row.boundary),
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


def boundary_text(boundary: Boundary, now: datetime | None = None) -> str:
    """`2 models 4∥ 200k/d 12 d`, only what is set."""
    parts = []
    if boundary.allowed_models:
        n = len(boundary.allowed_models)
        parts.append(ngettext("{n} model", "{n} models", n).format(n=n))
    if boundary.max_concurrency:
        parts.append(f"{boundary.max_concurrency}∥")
    if boundary.daily_budget_tokens:
        parts.append(f"{compact(boundary.daily_budget_tokens)}/d")
    if boundary.expires_at:
        days = (boundary.expires_at - (now or datetime.now(UTC))).days
        parts.append(_("expired") if days < 0 else _("{n} d left").format(n=days))
    return " ".join(parts) or UNKNOWN


def detail_lines(entry: Entry | None) -> list[Line]:
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
