"""The Run pane as text: lanes and header, computed from a RunState. No widget, no clock of its own."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from elometer.core.natural import natural_key
from elometer.core.text import gettext as _
from elometer.core.text import ngettext
from elometer.runs.state import Lane, RunState
from elometer.tui.figures import (
    EMPTY,
    FULL,
    UNKNOWN,
    bar,
    compact,
    count,
    count_in,
    decimal,
    duration,
    share,
    with_minus,
)
from elometer.tui.session import LaneRates, remaining_seconds
from elometer.tui.widgets.lines import Line, Piece, fit_cells
from elometer.tui.widgets.rows import Column, Row

if TYPE_CHECKING:
    from elometer.runs.result import Derived

BAR_CELLS = 20
HELD = "▒"
COLUMNS = (
    Column("strategy", _("strategy"), 10, "left", grow=8),
    Column("calls", _("calls"), 9),
    Column("flying", _("fly"), 3),
    Column("waiting", _("wait"), 4, drop=4),
    Column("failed", _("fail"), 4),
    Column("prompt", _("prompt"), 9, drop=6),
    Column("completion", _("complet."), 9, drop=5),
    Column("total", _("total"), 10),
    Column("rate", _("tok/s"), 6, drop=3),
    Column("score", _("score"), 5),
    Column("estimated", _("est."), 6, drop=8),
    Column("bar", "", BAR_CELLS, "left", drop=9),
)

WIDE_WORDS = 60  # cells of the words before a bar, so that bars stand under one another
LONGEST_BAR = 40
NEARLY_SPENT = 0.9

PHASES = {
    "idle": _("idle"),
    "running": _("running"),
    "paused": _("paused"),
    "stopping": _("stopping"),
    "complete": _("complete"),
    "partial": _("partial"),
    "stopped": _("stopped"),
    "failed": _("failed"),
}
PHASE_STYLES = {"paused": "warning", "stopping": "warning", "partial": "warning", "failed": "error"}


def phase_text(state: RunState, died: bool = False) -> tuple[str, str]:
    """The phase in words with its reason, and its style."""
    if died:
        return _("died"), "error"
    word = PHASES[state.phase]
    if state.reason and state.phase not in ("running", "idle"):
        word += f" ({state.reason})"
    return word, PHASE_STYLES.get(state.phase, "")


def lane_rows(state: RunState, rates: LaneRates) -> list[Row]:
    """One row per strategy, in natural order."""
    return [_lane_row(state.lanes[name], rates, state.ended) for name in sorted(state.lanes, key=natural_key)]


def _lane_row(lane: Lane, rates: LaneRates, ended: bool) -> Row:
    about = "~" if lane.streaming else ""
    fraction = lane.done / lane.planned if lane.planned else 0.0
    failed = lane.failed_calls or lane.failed_attempts
    return Row(
        lane.strategy,
        {
            "strategy": lane.strategy,
            "bar": bar(fraction, BAR_CELLS),
            "calls": _calls(lane),
            "flying": str(lane.in_flight),
            "waiting": str(lane.waiting),
            "failed": str(failed),
            "prompt": count_in(lane.prompt_tokens, 9),
            "completion": count_in(lane.completion_tokens + lane.streaming, 9, about),
            "total": count_in(lane.total_tokens + lane.streaming, 10, about),
            "rate": UNKNOWN if ended else compact(rates.rate(lane.strategy)),
            "score": decimal(lane.mean_score, 3),
            "estimated": compact(lane.estimated_tokens) if lane.estimated_tokens else UNKNOWN,
        },
        styles={"failed": "warning"} if failed else {},
    )


def _calls(lane: Lane) -> str:
    """Calls done and planned; a strategy may rest on others' calls alone."""
    if not lane.planned and not lane.done:
        return _("shared")
    return f"{compact(lane.done)}/{compact(lane.planned)}"


def header_lines(state: RunState, now: float, width: int, cap_wanted: int | None = None) -> list[Line]:
    """Progress, budget, concurrency and failures; then gate and strangers, when there is something to say."""
    lines = [_progress(state, now, width), _budget(state, width), _concurrency(state, cap_wanted)]
    if gate := _gate(state, now):
        lines.append(((gate, "warning"),))
    lines += _sampling_plan(state)
    lines += _served(state)
    lines += _strangers(state)
    if state.message:
        lines.append(((" " + state.message, PHASE_STYLES.get(state.phase, "")),))
    return lines


def _progress(state: RunState, now: float, width: int) -> Line:
    fraction = state.blocks_done / state.blocks if state.blocks else 0.0
    words = [
        _("blocks {done}/{planned}").format(done=count(state.blocks_done), planned=count(state.blocks)),
        share(fraction),
    ]
    if state.ended:
        words.append(_("took {time}").format(time=duration(_elapsed(state, now))))
    else:
        # While nothing is sent, the time to go only says how long the pause was.
        left = None if state.phase == "paused" else remaining_seconds(state, now)
        words.append(_("ETA {time}").format(time=duration(left)))
        words.append(_("{rate} tok/s").format(rate=compact(state.tokens_per_second(now))))
    if width >= 76:
        words.append(_("{tokens} tokens").format(tokens=count(state.total_tokens)))
    return _with_bar("  ".join(words), fraction, width, "bar")


def _elapsed(state: RunState, now: float) -> float | None:
    if state.started_at is None:
        return None
    return (state.last_at or now if state.ended else now) - state.started_at


def _with_bar(words: str, fraction: float, width: int, style: str) -> Line:
    """Words, then a bar: at the right, because it changes least and a line is sent from its left."""
    cells = min(WIDE_WORDS, width - 12)
    return (
        (" " + fit_cells(words, cells) + "  ", ""),
        (bar(fraction, min(LONGEST_BAR, width - cells - 4)), style),
    )


def _budget(state: RunState, width: int) -> Line:
    """What is spent of the key's day, and what calls in flight hold back of it."""
    opened, budget = state.opened, state.opened.budget_tokens if state.opened else None
    if opened is None:
        return ()
    spent = spent_today(state)
    reserved = state.gate.reserved_tokens if state.gate and not state.ended else 0
    if not budget:
        return ((" " + _money(spent, 0, reserved, count), "muted"),)
    cells = min(WIDE_WORDS, width - 12)
    words = _money(spent, budget, reserved, count)
    if len(words) > cells:
        words = _money(spent, budget, reserved, compact)
    done, booked = gauge(spent / budget, reserved / budget, min(LONGEST_BAR, width - cells - 4))
    style = "warning" if (spent + reserved) / budget >= NEARLY_SPENT else "bar"
    return ((" " + fit_cells(words, cells) + "  ", ""), (done, style), (booked, "muted"))


def _money(spent: int, budget: int, reserved: int, show: Callable[[float | None], str]) -> str:
    text = _("budget not set, spent {spent} today").format(spent=show(spent))
    if budget:
        text = _("budget {share} of {budget} today: spent {spent}").format(
            share=share(spent / budget), budget=show(budget), spent=show(spent)
        )
    return text + (_(", reserved {n}").format(n=compact(reserved)) if reserved else "")


def spent_today(state: RunState) -> int:
    """Tokens of the key's day: what the account last told, or more where this start has booked more since."""
    opened, told = state.opened, state.gate.spent_today if state.gate else None
    if opened is None:
        return 0
    own = opened.spent_today + state.spent_tokens
    if told is None:
        return own
    # Less than at the beginning: a new day has begun for the key since.
    return told if told < opened.spent_today else max(told, own)


def gauge(spent: float, reserved: float, width: int) -> tuple[str, str]:
    """A bar of `width` cells: the part that is spent, then what is reserved (`▒`) and what is left."""
    full = round(max(0.0, min(1.0, spent)) * width)
    held = min(width - full, round(max(0.0, reserved) * width) or (1 if reserved > 0 else 0))
    return FULL * full, HELD * held + EMPTY * (width - full - held)


def _concurrency(state: RunState, cap_wanted: int | None) -> Line:
    cap = state.limit or (state.opened.max_concurrency if state.opened else 0)
    text = " " + _("in flight {now}/{cap}").format(now=state.in_flight, cap=cap)
    bound = state.opened.key_concurrency if state.opened else None
    if cap_wanted is not None and cap_wanted != cap:
        text += " " + _("(asked for {cap})").format(cap=cap_wanted)
    elif bound is not None and bound != cap and not state.ended:
        text += " " + _("(the key allows {n})").format(n=bound)
    pieces: list[Piece] = [(text, "")]
    gate = state.gate
    if gate and gate.others and gate.permits is not None and not state.ended:
        words = ngettext("{n} other process leaves {m}", "{n} other processes leave {m}", gate.others)
        pieces.append(("  " + words.format(n=gate.others, m=gate.permits), "warning"))
    queued = state.gate.waiting if state.gate and not state.ended else 0
    if queued:
        pieces.append(("  " + _("queued {n}").format(n=queued), ""))
    waiting = sum(call.waiting for call in state.calls.values())
    if waiting:
        pieces.append(("  " + _("to be retried {n}").format(n=waiting), ""))
    if state.retry_classes:
        total = sum(state.retry_classes.values())
        classes = ", ".join(f"{name} {n}" for name, n in Counter(state.retry_classes).most_common(4))
        words = ngettext("{n} failed attempt", "{n} failed attempts", total).format(n=total)
        pieces.append((f"  {words}: {classes}", "warning"))
    else:
        pieces.append(("  " + _("no failed attempts"), "muted"))
    if state.excluded_blocks:
        n = state.excluded_blocks
        pieces.append(
            ("  " + ngettext("{n} excluded block", "{n} excluded blocks", n).format(n=n), "warning")
        )
    return tuple(pieces)


def _gate(state: RunState, now: float) -> str:
    """Why calls wait, and until when: a start whose calls all wait must not look like one that hangs."""
    gate = state.gate
    if state.ended or gate is None or not (gate.why or gate.closed_for_s):
        return ""
    text = _("gate limit {limit}, {n} waiting").format(limit=gate.limit, n=gate.waiting)
    until = state.gate_closed_until
    if until is not None and gate.closed_for_s >= 1 and until > now:
        text += ", " + _("closed until {clock} ({time})").format(
            clock=datetime.fromtimestamp(until).strftime("%H:%M:%S"), time=duration(until - now)
        )
    return " " + text + (f": {gate.why}" if gate.why else "")


def _sampling_plan(state: RunState) -> list[Line]:
    """That lanes count a shared call once, where there are such calls."""
    if state.opened is None or state.opened.sampling_plan == "independent":
        return []
    words = _("plan {plan}: a shared call counts once, at its owner; Elo by charged tokens")
    return [((" " + words.format(plan=state.opened.sampling_plan), "muted"),)]


def _served(state: RunState) -> list[Line]:
    """Names that may answer for a model where they are not its own: learnt, so they want a look."""
    return [
        ((" " + _("{asked} is answered by {names}").format(asked=asked, names=", ".join(names)), "muted"),)
        for asked, names in state.served.items()
        if names != (asked,)
    ]


def waiting_strangers(state: RunState) -> Counter[tuple[str, str]]:
    """(asked, served) of the names that nobody has accepted, with the calls they answered."""
    seen = Counter((stranger.model_requested, stranger.model_served) for stranger in state.strangers)
    return Counter(
        {
            (asked, served): n
            for (asked, served), n in seen.items()
            if served not in state.served.get(asked, ())
        }
    )


def _strangers(state: RunState) -> list[Line]:
    lines: list[Line] = []
    for (asked, served), n in waiting_strangers(state).most_common(2):
        calls = ngettext("{n} call", "{n} calls", n).format(n=n)
        words = _("STRANGER: {served} answered for {asked} ({calls})")
        lines.append(((" " + words.format(served=served, asked=asked, calls=calls), "error"),))
    if lines and held_by_stranger(state):
        lines.append(((" " + _("Paused: A takes the name for right and goes on, x stops."), "error"),))
    return lines


def held_by_stranger(state: RunState) -> bool:
    """True while a start waits for a word on a name that nobody asked for."""
    return state.phase == "paused" and state.reason == "stranger" and bool(waiting_strangers(state))


def growth_lines(state: RunState) -> list[Line]:
    """Mean prompt tokens of an answer, round by round, of the strategies that have rounds."""
    lines: list[Line] = []
    for name in sorted(state.lanes, key=natural_key):
        growth = state.lanes[name].prompt_growth
        if len(growth) > 1:
            rounds = "  ".join(f"{number}: {compact(tokens)}" for number, tokens in growth.items())
            words = _("{name}: prompt tokens by round  {rounds}").format(name=name, rounds=rounds)
            lines.append(((words, "muted"),))
    return lines


def exclusion_lines(beside: Derived | None, width: int) -> list[Line]:
    """What is left out of the pairs, and what it could at most have moved."""
    if beside is None or beside.fit is None or beside.remarks is None:
        return []
    elo = {row.strategy: row.elo for row in beside.fit.strategies}
    style = "warning" if beside.remarks.exclusions.differ else "muted"
    return [
        ((part, style),)
        for text in beside.remarks.exclusions.lines(elo)
        for part in textwrap.wrap(with_minus(text), max(20, width), subsequent_indent="  ")
    ]
