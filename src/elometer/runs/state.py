"""RunState: everything a view shows of a start, as a pure fold of its events.

`fold_all(events, state)` returns a new state and touches nothing else, so a screen, a progress line and a
test see the same numbers for the same file. Inside, one copy is made and changed in place: a start of
thousands of calls has tens of thousands of events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from elometer.core.clock import parse_timestamp
from elometer.runs import events as ev

RATE_WINDOW_S = 5.0

Phase = Literal["idle", "running", "paused", "stopping", "complete", "partial", "stopped", "failed"]


@dataclass(slots=True)
class Lane:
    """One strategy's counters.

    Tokens are those of ledger lines that are on disk; `streaming` is the approximate number of completion
    tokens of calls in flight. `planned` is calls in the whole experiment.
    """

    strategy: str
    planned: int = 0
    in_flight: int = 0
    done: int = 0
    failed_calls: int = 0
    failed_attempts: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unknown_usage: int = 0
    estimated_tokens: int = 0
    streaming: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    rounds: dict[int, tuple[int, int]] = field(default_factory=dict)  # round: answers, their prompt tokens
    score_sum: float = 0.0
    scored: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens of all ledger lines of this strategy."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def prompt_growth(self) -> dict[int, float]:
        """Mean prompt tokens of an answer by round, in this start; one entry where there are no rounds."""
        return {number: tokens / answers for number, (answers, tokens) in sorted(self.rounds.items())}

    @property
    def mean_score(self) -> float | None:
        """Mean score over the scored blocks; None before the first."""
        return self.score_sum / self.scored if self.scored else None


@dataclass(frozen=True, slots=True)
class InFlight:
    """A call on the wire, being written to disk, or waiting to be tried again."""

    strategy: str | None
    chunks: int = 0
    where: Literal["wire", "disk", "waiting"] = "wire"

    @property
    def on_wire(self) -> bool:
        """True while the gateway is at work on it."""
        return self.where == "wire"

    @property
    def waiting(self) -> bool:
        """True while it waits to be tried again."""
        return self.where == "waiting"


@dataclass(slots=True)
class RunState:
    """A start as its events tell it; `opened` is None before the first event."""

    opened: ev.StartOpened | None = None
    phase: Phase = "idle"
    reason: str = ""
    message: str = ""
    lanes: dict[str, Lane] = field(default_factory=dict)
    uncharged_tokens: int = 0
    calls: dict[str, InFlight] = field(default_factory=dict)
    blocks_done: int = 0
    blocks_active: dict[int, tuple[str, int]] = field(default_factory=dict)
    limit: int = 0
    gate: ev.GateChanged | None = None
    strangers: tuple[ev.Stranger, ...] = ()
    served: dict[str, tuple[str, ...]] = field(default_factory=dict)
    look: ev.Look | None = None
    retry_classes: dict[str, int] = field(default_factory=dict)
    models: dict[str, int] = field(default_factory=dict)
    spent_tokens: int = 0
    recent: deque[tuple[float, int]] = field(default_factory=deque)  # (epoch s, tokens) of the rate window
    started_at: float | None = None
    last_at: float | None = None
    excluded_blocks: int = 0

    @property
    def blocks(self) -> int:
        """Blocks in the whole experiment."""
        return self.opened.blocks if self.opened else 0

    @property
    def in_flight(self) -> int:
        """Attempts on the wire now."""
        return sum(call.on_wire for call in self.calls.values())

    @property
    def ended(self) -> bool:
        """True after the start's last line."""
        return self.phase in ("complete", "partial", "stopped", "failed")

    @property
    def total_tokens(self) -> int:
        """All tokens booked in the experiment, charged to a strategy or not."""
        return sum(lane.total_tokens for lane in self.lanes.values()) + self.uncharged_tokens

    @property
    def budget_share(self) -> float | None:
        """Share of the daily token budget that is spent; None without a budget."""
        if not self.opened or not self.opened.budget_tokens:
            return None
        return (self.opened.spent_today + self.spent_tokens) / self.opened.budget_tokens

    @property
    def gate_closed_until(self) -> float | None:
        """Seconds since 1970 at which the gate admits again, as of its last event; None where it was open."""
        if self.gate is None or not self.gate.closed_for_s:
            return None
        return parse_timestamp(self.gate.at).timestamp() + self.gate.closed_for_s

    def tokens_per_second(self, now: float) -> float:
        """Tokens booked per second over the last few seconds before `now` (epoch seconds)."""
        since = now - RATE_WINDOW_S
        tokens = sum(count for at, count in self.recent if at > since)
        elapsed = now - self.started_at if self.started_at is not None else RATE_WINDOW_S
        return tokens / max(1.0, min(RATE_WINDOW_S, elapsed))


def fold(state: RunState, event: ev.AnyEvent) -> RunState:
    """The state after an event."""
    return fold_all((event,), state)


def fold_all(events: Iterable[ev.AnyEvent], state: RunState | None = None) -> RunState:
    """The state after many events; the one given stays as it is."""
    draft = _copy(state) if state is not None else RunState()
    for event in events:
        at = parse_timestamp(event.at).timestamp()
        if isinstance(event, ev.StartOpened):
            draft = _opened(event, at)
        else:
            draft.last_at = at
            _apply(draft, event, at)
    return draft


def _copy(state: RunState) -> RunState:
    return replace(
        state,
        lanes={
            name: replace(lane, outcomes=dict(lane.outcomes), rounds=dict(lane.rounds))
            for name, lane in state.lanes.items()
        },
        calls=dict(state.calls),
        blocks_active=dict(state.blocks_active),
        served=dict(state.served),
        retry_classes=dict(state.retry_classes),
        models=dict(state.models),
        recent=deque(state.recent),
    )


def _opened(event: ev.StartOpened, at: float) -> RunState:
    lanes = {
        name: Lane(name, planned=event.calls_per_block.get(name, 0) * event.blocks)
        for name in event.strategies
    }
    return RunState(
        opened=event,
        phase="running",
        lanes=lanes,
        blocks_done=event.blocks_done,
        limit=event.max_concurrency,
        started_at=at,
        last_at=at,
    )


def _apply(state: RunState, event: ev.AnyEvent, at: float) -> None:
    """Change the draft as an event says."""
    match event:
        case ev.CallSent():
            _place(state, event.call_id, InFlight(event.strategy))
        case ev.CallProgress():
            _place(state, event.call_id, InFlight(event.strategy, event.chunks))
        case ev.CallReceived():
            chunks = state.calls[event.call_id].chunks if event.call_id in state.calls else 0
            _place(state, event.call_id, InFlight(event.strategy, chunks, "disk"))
        case ev.CallWaiting():
            _place(state, event.call_id, InFlight(event.strategy, where="waiting"))
        case ev.AttemptEnded():
            _attempt_ended(state, event, at)
        case ev.CallFailed():
            _place(state, event.call_id, None)
            if lane := state.lanes.get(event.strategy or ""):
                lane.failed_calls += 1
        case ev.BlockAdmitted():
            state.blocks_active[event.block] = (event.task, event.run)
        case ev.BlockEnded():
            _block_ended(state, event)
        case ev.Restored():
            _restored(state, event)
        case ev.GateChanged():
            state.gate = event
        case ev.Stranger():
            state.strangers = (*state.strangers, event)
        case ev.Served():
            state.served[event.model_requested] = event.names
        case ev.Look():
            state.look = event
        case ev.Control():
            state.phase, state.limit, state.reason = event.state, event.limit, event.why
        case ev.StartEnded():
            _ended(state, event)


def _ended(state: RunState, event: ev.StartEnded) -> None:
    state.phase, state.reason, state.message = event.status, event.reason, event.message
    state.calls = {}
    for lane in state.lanes.values():
        lane.in_flight = lane.waiting = lane.streaming = 0


def _restored(state: RunState, event: ev.Restored) -> None:
    if event.strategy is None:
        state.uncharged_tokens += event.prompt_tokens + event.completion_tokens
    elif lane := state.lanes.get(event.strategy):
        lane.done += event.calls
        lane.failed_attempts += event.attempts_failed
        lane.prompt_tokens += event.prompt_tokens
        lane.completion_tokens += event.completion_tokens


def _place(state: RunState, call_id: str, call: InFlight | None) -> None:
    """Set or remove a call and keep its lane's counts of calls in flight, waiting and streaming in step."""
    before = state.calls.pop(call_id, None)
    if call is not None:
        state.calls[call_id] = call
    strategy = call.strategy if call else before.strategy if before else None
    lane = state.lanes.get(strategy or "")
    if lane is None:
        return
    for held, sign in ((before, -1), (call, 1)):
        if held is not None:
            lane.in_flight += sign * held.on_wire
            lane.waiting += sign * held.waiting
            lane.streaming += sign * held.chunks


def _attempt_ended(state: RunState, event: ev.AttemptEnded, at: float) -> None:
    _place(state, event.call_id, None)
    tokens = (event.prompt_tokens or 0) + (event.completion_tokens or 0)
    failed = event.status in ("error", "cancelled")
    if lane := state.lanes.get(event.strategy or ""):
        _count(lane, event, tokens, failed)
    if event.final and not failed:
        _count_round(state, event)
    if failed and event.error_class:
        state.retry_classes[event.error_class] = state.retry_classes.get(event.error_class, 0) + 1
    state.models[event.model] = state.models.get(event.model, 0) + tokens
    while state.recent and state.recent[0][0] <= at - RATE_WINDOW_S:
        state.recent.popleft()
    if tokens:
        state.recent.append((at, tokens))
    if event.strategy is None:
        state.uncharged_tokens += tokens
    state.spent_tokens += tokens


def _count_round(state: RunState, event: ev.AttemptEnded) -> None:
    """Enter an answer's prompt into the rounds of every strategy that rests on it."""
    if event.round is None or event.prompt_tokens is None:
        return
    for name in event.used_by or (event.strategy,):
        if lane := state.lanes.get(name or ""):
            answers, prompts = lane.rounds.get(event.round, (0, 0))
            lane.rounds[event.round] = (answers + 1, prompts + event.prompt_tokens)


def _count(lane: Lane, event: ev.AttemptEnded, tokens: int, failed: bool) -> None:
    answered = event.final and not failed
    lane.done += answered
    lane.failed_attempts += failed
    lane.prompt_tokens += event.prompt_tokens or 0
    lane.completion_tokens += event.completion_tokens or 0
    lane.unknown_usage += not failed and (event.prompt_tokens is None or event.completion_tokens is None)
    lane.estimated_tokens += tokens if event.usage_source in ("estimated", "local-tokenizer") else 0


def _block_ended(state: RunState, event: ev.BlockEnded) -> None:
    state.blocks_active.pop(event.block, None)
    for strategy, outcome in event.outcomes.items():
        lane = state.lanes.get(strategy)
        if lane is None:
            continue
        score = event.scores.get(strategy)
        lane.outcomes[outcome] = lane.outcomes.get(outcome, 0) + 1
        lane.score_sum += score or 0.0
        lane.scored += score is not None
    state.blocks_done += not event.restored
    state.excluded_blocks += any(score is None for score in event.scores.values())
