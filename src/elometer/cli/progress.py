"""A start as lines: for a pipe, a log, a screen reader."""

from __future__ import annotations

import sys
import time
from datetime import datetime

from elometer.cli.outlet import Outlet
from elometer.core.text import gettext as _
from elometer.runs import events as ev
from elometer.runs.state import RunState, fold_all

EVERY_S = 2.0
# Events that say something of their own; the others are only counted.
SPEAKING = (ev.StartOpened, ev.GateChanged, ev.Stranger, ev.Served, ev.Look, ev.Control, ev.StartEnded)


class PlainProgress:
    """A listener that prints one line on stderr every two seconds, and at once what must not wait."""

    def __init__(self) -> None:
        self._outlet = Outlet(sys.stderr)
        self.close = self._outlet.close
        self._state = RunState()
        self._unfolded: list[ev.AnyEvent] = []
        self._next = 0.0
        self._closed_until = 0.0
        self._crowded_out = False

    @property
    def state(self) -> RunState:
        """The state after all events so far; folded when somebody looks, not at each of them."""
        self._state, self._unfolded = fold_all(self._unfolded, self._state), []
        return self._state

    def __call__(self, event: ev.AnyEvent) -> None:
        self._unfolded.append(event)
        if not isinstance(event, SPEAKING):
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + EVERY_S
                self._line()
            return
        match event:
            case ev.StartOpened():
                self._opened(event)
            case ev.Stranger():
                self._say(
                    _("STRANGER: asked for {asked}, answered by {served}").format(
                        asked=event.model_requested, served=event.model_served
                    )
                )
            case ev.Served() if event.names != (event.model_requested,):
                self._say(
                    _("{asked} is served as {names} ({how})").format(
                        asked=event.model_requested, names=", ".join(event.names), how=event.how
                    )
                )
            case ev.Look():
                half = "–" if event.halfwidth_elo is None else f"{event.halfwidth_elo:.1f}"
                self._say(
                    _("look at {share:.0%}: widest ΔElo ± {half}, asked for ± {bound:g}").format(
                        share=event.share, half=half, bound=event.bound_elo
                    )
                )
            case ev.Control() if event.why:
                self._say(_("{state}: {why}").format(state=event.state, why=event.why))
            case ev.GateChanged() if (event.why == ev.NO_PLACE) != self._crowded_out:
                self._crowded_out = not self._crowded_out
                if self._crowded_out:
                    words = _("other processes ({n}) hold all places of the key; calls wait for one")
                    self._say(words.format(n=event.others))
            case ev.GateChanged() if event.closed_for_s >= EVERY_S:
                self._closed(event)
            case ev.StartEnded():
                self._line()
                self._say(
                    _("ended: {status} {reason}").format(status=event.status, reason=event.reason).strip()
                )
                if event.reason == "stop_rule":  # no error tells it
                    self._say(event.message)

    def _opened(self, event: ev.StartOpened) -> None:
        if event.origin == "demo":
            self._say(_("SIMULATION: a make-believe gateway answers; no model is called."))
        template = _(
            "{run_id}: {blocks} blocks ({tasks} tasks × {runs} runs), {model} over {protocol}, cap {cap}"
        )
        self._say(
            template.format(
                run_id=event.run_id,
                blocks=event.blocks,
                tasks=event.tasks,
                runs=event.runs,
                model=event.model,
                protocol=event.protocol,
                cap=event.max_concurrency,
            )
        )
        if event.sampling_plan != "independent":
            words = _("plan {plan}: calls are shared; tokens here are spent, those of the table are charged")
            self._say(words.format(plan=event.sampling_plan))
        if event.warned:
            self._say(
                _("checks warn: {names}; 'elometer check --experiment {name}' says why").format(
                    names=", ".join(event.warned), name=event.experiment_id
                )
            )
        if event.resumed:
            self._say(_("going on: {done} of {blocks} blocks are done").format(
                done=event.blocks_done, blocks=event.blocks
            ))  # fmt: skip

    def _closed(self, event: ev.GateChanged) -> None:
        """Say that nothing goes out for a while, and why: silence would look like a start that hangs."""
        until = self.state.gate_closed_until
        if until is None or until <= self._closed_until + 1:
            return
        self._closed_until = until
        words = _("gate closed until {clock}, {n} waiting: {why}")
        clock = datetime.fromtimestamp(until).strftime("%H:%M:%S")
        self._say(words.format(clock=clock, n=event.waiting, why=event.why))

    def _line(self) -> None:
        state = self.state
        parts = [
            _("{done}/{all} blocks").format(done=state.blocks_done, all=state.blocks),
            _("{n} in flight").format(n=state.in_flight),
            _("{n:,} tokens").format(n=state.total_tokens),
            _("{n:,.0f} tok/s").format(n=state.tokens_per_second(time.time())),
        ]
        if state.budget_share is not None:
            parts.append(_("{share:.0%} of budget").format(share=state.budget_share))
        parts += [f"{name} ×{count}" for name, count in sorted(state.retry_classes.items())]
        self._say(" · ".join(parts))

    def _say(self, text: str) -> None:
        self._outlet.line(text)


class JsonEvents:
    """A listener that prints each event as a JSON line on stdout, as events.jsonl has it."""

    def __init__(self) -> None:
        self._outlet = Outlet(sys.stdout)
        self.close = self._outlet.close

    def __call__(self, event: ev.AnyEvent) -> None:
        self._outlet.line(ev.encode(event).decode())
