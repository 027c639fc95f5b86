"""What a start says while it runs: one JSON object a line in events.jsonl, tagged by `event`.

Events are for watching. Nothing is re-derived from them: resume, pairs and fit read ledger, samples and
outcomes. So they are written without waiting for the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    """`at` is UTC with `Z`."""

    at: str


class StartOpened(Event, frozen=True, kw_only=True, tag="start_opened"):
    """A start began, or went on after a stop (`resumed`); totals are of the whole experiment."""

    run_id: str
    experiment_id: str
    origin: str
    pid: int
    host: str
    gateway: str
    protocol: str
    model: str
    strategies: tuple[str, ...]
    tasks: int
    runs: int
    blocks: int
    calls_per_block: dict[str, int]
    max_concurrency: int
    budget_tokens: int | None = None
    spent_today: int = 0
    key_label: str = ""
    key_fp: str = ""
    seed: int = 0
    resumed: bool = False
    blocks_done: int = 0
    # How strategies share calls; `calls_per_block` counts each call at its owner.
    sampling_plan: str = "independent"
    # Failed checks that --force overruled; None where the start was not forced.
    forced: tuple[str, ...] | None = None
    # Checks that warned before the start.
    warned: tuple[str, ...] = ()
    # Calls in flight that the key's boundary allows: no cap goes above it.
    key_concurrency: int | None = None


class Restored(Event, frozen=True, kw_only=True, tag="restored"):
    """What earlier starts already booked for a strategy (null: not charged to one); follows StartOpened."""

    strategy: str | None
    calls: int
    attempts_failed: int
    prompt_tokens: int
    completion_tokens: int


class BlockAdmitted(Event, frozen=True, kw_only=True, tag="block_admitted"):
    """A block began."""

    block: int
    task: str
    run: int


class CallSent(Event, frozen=True, kw_only=True, tag="call_sent"):
    """An attempt went onto the wire."""

    call_id: str
    strategy: str | None
    block: int | None
    attempt: int


class CallProgress(Event, frozen=True, kw_only=True, tag="call_progress"):
    """Chunks of a running stream so far: an approximate token count that usage will replace."""

    call_id: str
    strategy: str | None
    chunks: int


class CallReceived(Event, frozen=True, kw_only=True, tag="call_received"):
    """An attempt left the wire; its ledger line is on the way to the disk."""

    call_id: str
    strategy: str | None


class CallWaiting(Event, frozen=True, kw_only=True, tag="call_waiting"):
    """An attempt failed and the call will be tried again in `seconds`."""

    call_id: str
    strategy: str | None
    seconds: float
    why: str


class AttemptEnded(Event, frozen=True, kw_only=True, tag="attempt_ended"):
    """An attempt's ledger line is on disk."""

    call_id: str
    strategy: str | None
    attempt: int
    final: bool
    status: str
    model: str
    phase: str = "sample"
    round: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error_class: str | None = None
    http_status: int | None = None
    latency_ms: float | None = None
    usage_source: str = "server"
    used_by: tuple[str, ...] | None = None


class CallFailed(Event, frozen=True, kw_only=True, tag="call_failed"):
    """A call was given up: its block has no answer for it."""

    call_id: str
    strategy: str | None
    error_class: str
    message: str


class BlockEnded(Event, frozen=True, kw_only=True, tag="block_ended"):
    """A block's outcomes are on disk: score by strategy, and the strategies excluded from pairs."""

    block: int
    task: str
    run: int
    outcomes: dict[str, str]
    scores: dict[str, float | None]
    restored: bool = False  # from an earlier start; already in StartOpened.blocks_done


NO_PLACE = "key_in_use"  # why a gate waits whose key's places are all held by other processes


class GateChanged(Event, frozen=True, kw_only=True, tag="gate_changed"):
    """Calls wait, or no longer wait, and why. `closed_for_s` is 0 when open.

    Of the key's account: tokens that this start has reserved for calls without a bill, tokens spent today by
    all starts, calls in flight that other processes (`others` of them) leave to this one.
    """

    in_flight: int
    limit: int
    waiting: int
    closed_for_s: float = 0.0
    why: str = ""
    reserved_tokens: int = 0
    spent_today: int | None = None
    permits: int | None = None
    others: int = 0


class Stranger(Event, frozen=True, kw_only=True, tag="stranger"):
    """A model outside the boundary was asked for, or a name outside `served_as` answered."""

    call_id: str
    strategy: str | None
    model_requested: str
    model_served: str


class Served(Event, frozen=True, kw_only=True, tag="served"):
    """The names under which a requested model may answer, and how they are known; others are strangers."""

    model_requested: str
    names: tuple[str, ...]
    how: Literal["given", "frozen", "learnt", "accepted"]


class Look(Event, frozen=True, kw_only=True, tag="look"):
    """A fixed look at the precision reached: half-width in Elo of the widest ΔElo, null where one is open."""

    share: float
    blocks_done: int
    halfwidth_elo: float | None
    bound_elo: float
    enough: bool


class Control(Event, frozen=True, kw_only=True, tag="control"):
    """A desired state was taken over: running, paused, stopping; `limit` is the concurrency cap."""

    state: Literal["running", "paused", "stopping"]
    limit: int
    why: str = ""


class StartEnded(Event, frozen=True, kw_only=True, tag="start_ended"):
    """The last line of a start. `reason` is empty for `complete`."""

    status: Literal["complete", "partial", "stopped", "failed"]
    reason: str = ""
    message: str = ""


AnyEvent = (
    StartOpened
    | Restored
    | BlockAdmitted
    | CallSent
    | CallProgress
    | CallReceived
    | CallWaiting
    | AttemptEnded
    | CallFailed
    | BlockEnded
    | GateChanged
    | Stranger
    | Served
    | Look
    | Control
    | StartEnded
)

Listener = Callable[[AnyEvent], None]

encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(AnyEvent)


def decode(line: bytes) -> AnyEvent:
    """The event of one line. Raises msgspec.DecodeError (or its ValidationError) for anything else."""
    return _decoder.decode(line)
