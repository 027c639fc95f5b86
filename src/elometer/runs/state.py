"""RunState: everything a view shows of a start, as a pure fold of its events.

`fold(state, event)` returns a new state and touches nothing else, so a screen, a progress line and a test
see the same numbers for the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal

from elometer.core.clock import parse_timestamp
from elometer.runs import events as ev

RATE_WINDOW_S = 5.0

Phase = Literal["idle", "running", "paused", "stopping", "complete", "partial", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    recent: tuple[tuple[float, int], ...] = ()  # (epoch seconds, tokens) within the rate window
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

    def tokens_per_second(self, now: float) -> float:
        """Tokens booked per second over the last few seconds before `now` (epoch seconds)."""
        since = now - RATE_WINDOW_S
        tokens = sum(count for at, count in self.recent if at > since)
        elapsed = now - self.started_at if self.started_at is not None else RATE_WINDOW_S
        return tokens / max(1.0, min(RATE_WINDOW_S, elapsed))


def fold(state: RunState, event: ev.AnyEvent) -> RunState:
    """The state after an event."""
    at = parse_timestamp(event.at).timestamp()
    state = replace(state, last_at=at)
    match event:
        case ev.StartOpened():
            return _opened(event, at)
        case ev.Restored():
            return _restored(state, event)
        case ev.BlockAdmitted():
            return replace(state, blocks_active={**state.blocks_active, event.block: (event.task, event.run)})
        case ev.CallSent():
            return _call(state, event.call_id, InFlight(event.strategy))
        case ev.CallProgress():
            return _call(state, event.call_id, InFlight(event.strategy, event.chunks))
        case ev.CallReceived():
            chunks = state.calls[event.call_id].chunks if event.call_id in state.calls else 0
            return _call(state, event.call_id, InFlight(event.strategy, chunks, "disk"))
        case ev.CallWaiting():
            return _call(state, event.call_id, InFlight(event.strategy, where="waiting"))
        case ev.AttemptEnded():
            return _attempt_ended(state, event, at)
        case ev.CallFailed():
            state = _call(state, event.call_id, None)
            return _lane(
                state, event.strategy, lambda lane: replace(lane, failed_calls=lane.failed_calls + 1)
            )
        case ev.BlockEnded():
            return _block_ended(state, event)
        case ev.GateChanged():
            return replace(state, gate=event)
        case ev.Stranger():
            return replace(state, strangers=(*state.strangers, event))
        case ev.Served():
            return replace(state, served={**state.served, event.model_requested: event.names})
        case ev.Look():
            return replace(state, look=event)
        case ev.Control():
            return replace(state, phase=event.state, limit=event.limit, reason=event.why)
        case ev.StartEnded():
            lanes = {
                name: replace(lane, in_flight=0, waiting=0, streaming=0) for name, lane in state.lanes.items()
            }
            return replace(
                state, phase=event.status, reason=event.reason, message=event.message, calls={}, lanes=lanes
            )


def fold_all(events: Iterable[ev.AnyEvent], state: RunState | None = None) -> RunState:
    """The state after many events."""
    return reduce(fold, events, state or RunState())


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


def _restored(state: RunState, event: ev.Restored) -> RunState:
    if event.strategy is None:
        return replace(
            state, uncharged_tokens=state.uncharged_tokens + event.prompt_tokens + event.completion_tokens
        )
    return _lane(
        state,
        event.strategy,
        lambda lane: replace(
            lane,
            done=lane.done + event.calls,
            failed_attempts=lane.failed_attempts + event.attempts_failed,
            prompt_tokens=lane.prompt_tokens + event.prompt_tokens,
            completion_tokens=lane.completion_tokens + event.completion_tokens,
        ),
    )


def _lane(state: RunState, strategy: str | None, change: Callable[[Lane], Lane]) -> RunState:
    if strategy is None or strategy not in state.lanes:
        return state
    return replace(state, lanes={**state.lanes, strategy: change(state.lanes[strategy])})


def _call(state: RunState, call_id: str, call: InFlight | None) -> RunState:
    """Set or remove a call and keep its lane's counts of calls in flight, waiting and streaming in step."""
    before = state.calls.get(call_id)
    calls = dict(state.calls)
    if call is None:
        calls.pop(call_id, None)
    else:
        calls[call_id] = call
    strategy = call.strategy if call else before.strategy if before else None

    def change(lane: Lane) -> Lane:
        in_flight, waiting, streaming = lane.in_flight, lane.waiting, lane.streaming
        if before:
            in_flight -= before.on_wire
            waiting -= before.waiting
            streaming -= before.chunks
        if call:
            in_flight += call.on_wire
            waiting += call.waiting
            streaming += call.chunks
        return replace(lane, in_flight=in_flight, waiting=waiting, streaming=streaming)

    return _lane(replace(state, calls=calls), strategy, change)


def _attempt_ended(state: RunState, event: ev.AttemptEnded, at: float) -> RunState:
    state = _call(state, event.call_id, None)
    tokens = (event.prompt_tokens or 0) + (event.completion_tokens or 0)
    failed = event.status in ("error", "cancelled")
    unknown = event.prompt_tokens is None or event.completion_tokens is None

    def change(lane: Lane) -> Lane:
        return replace(
            lane,
            done=lane.done + (event.final and not failed),
            failed_attempts=lane.failed_attempts + failed,
            prompt_tokens=lane.prompt_tokens + (event.prompt_tokens or 0),
            completion_tokens=lane.completion_tokens + (event.completion_tokens or 0),
            unknown_usage=lane.unknown_usage + (unknown and not failed),
            estimated_tokens=lane.estimated_tokens + (tokens if event.usage_source == "estimated" else 0),
            rounds=_rounds(lane.rounds, event) if event.final and not failed else lane.rounds,
        )

    state = _lane(state, event.strategy, change)
    classes = dict(state.retry_classes)
    if failed and event.error_class:
        classes[event.error_class] = classes.get(event.error_class, 0) + 1
    models = dict(state.models)
    models[event.model] = models.get(event.model, 0) + tokens
    recent = tuple(item for item in state.recent if item[0] > at - RATE_WINDOW_S)
    if tokens:
        recent = (*recent, (at, tokens))
    uncharged = state.uncharged_tokens + (tokens if event.strategy is None else 0)
    return replace(
        state,
        retry_classes=classes,
        models=models,
        recent=recent,
        uncharged_tokens=uncharged,
        spent_tokens=state.spent_tokens + tokens,
    )


def _rounds(rounds: dict[int, tuple[int, int]], event: ev.AttemptEnded) -> dict[int, tuple[int, int]]:
    if event.round is None or event.prompt_tokens is None:
        return rounds
    answers, tokens = rounds.get(event.round, (0, 0))
    return {**rounds, event.round: (answers + 1, tokens + event.prompt_tokens)}


def _block_ended(state: RunState, event: ev.BlockEnded) -> RunState:
    active = {block: what for block, what in state.blocks_active.items() if block != event.block}
    for strategy, outcome in event.outcomes.items():
        score = event.scores.get(strategy)

        def change(lane: Lane, outcome: str = outcome, score: float | None = score) -> Lane:
            return replace(
                lane,
                outcomes={**lane.outcomes, outcome: lane.outcomes.get(outcome, 0) + 1},
                score_sum=lane.score_sum + (score or 0.0),
                scored=lane.scored + (score is not None),
            )

        state = _lane(state, strategy, change)
    excluded = any(score is None for score in event.scores.values())
    return replace(
        state,
        blocks_active=active,
        blocks_done=state.blocks_done + (not event.restored),
        excluded_blocks=state.excluded_blocks + excluded,
    )
