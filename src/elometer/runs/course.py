"""The course of a start: what is under way, whether there is room for more, and whether it is ending."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from elometer.core.clock import timestamp
from elometer.runs import events as ev
from elometer.runs.books import Books
from elometer.runs.gates import Gates
from elometer.runs.journal import OutcomeName, Sample
from elometer.wire.classes import ACCESS_CLASSES, RETRYABLE

# No further call can go better: key, address or model must change first.
FATAL = ACCESS_CLASSES | {
    "url_format",
    "net_tls_verify",
    "net_tls_protocol",
    "html_wrong_path",
    "html_edge_block",
    "model_unknown",
    "wrong_path",
    "upstream_key",
}
# Calls given up one after another without an answer between them: the gateway is gone, or serves nobody.
UNREACHABLE_AFTER = 3
FAILING_AFTER = 12


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a start ends before its blocks do."""

    status: str = "complete"
    reason: str = ""
    message: str = ""
    error_class: str = ""


@dataclass(slots=True)
class Course:
    """What the parts of a start share.

    `tasks` holds the calls that are not back yet, `on_wire` those with an attempt in flight, `waiting` how
    many wait for a place. `room` is set where another block may be thought of.
    """

    books: Books
    gates: Gates
    tasks: dict[str, asyncio.Task[Sample | OutcomeName]] = field(default_factory=dict)
    on_wire: set[str] = field(default_factory=set)
    waiting: int = 0
    blocks: int = 0
    block_tokens: dict[int, int] = field(default_factory=dict)  # of open blocks
    tokens: int = 0  # booked in the whole experiment
    ending: Ending | None = None
    closing: Ending | None = None
    passing: set[str] = field(default_factory=set)  # calls given up for a reason that may pass
    lasting: set[str] = field(default_factory=set)  # … and for one that will not
    open_ends: int = 0  # blocks that a later start has to come back to
    last_failure: str = ""
    room: asyncio.Event = field(default_factory=asyncio.Event)
    _given_up: int = 0
    _calls: int = 0  # of this start, with the tokens they used
    _call_tokens: int = 0

    def stop(self, status: str, reason: str, message: str = "", error_class: str = "") -> None:
        """Drain: nothing new goes onto the wire; what is there is waited for and booked."""
        if self.ending is not None:
            return
        self.ending = Ending(status, reason, message, error_class)
        for identity, task in self.tasks.items():
            if identity not in self.on_wire:
                task.cancel()
        self.room.set()
        self.books.emit(ev.Control(at=timestamp(), state="stopping", limit=self.gates.cap, why=reason))

    def close(self, status: str, reason: str, message: str) -> None:
        """Admit no further block; the open ones are finished."""
        if self.ending is not None or self.closing is not None:
            return
        self.closing = Ending(status, reason, message)
        self.room.set()
        self.books.emit(ev.Control(at=timestamp(), state="stopping", limit=self.gates.cap, why=reason))

    def end(self) -> Ending:
        """How the start ended: complete, unless it was stopped or blocks lack calls that were given up."""
        if self.ending or self.closing:
            return self.ending or self.closing or Ending()
        return Ending("partial", "incomplete", self.last_failure) if self.open_ends else Ending()

    def book(self, block: int | None, tokens: int) -> None:
        """Count what an attempt used."""
        self.tokens += tokens
        self._calls += tokens > 0
        self._call_tokens += tokens
        if block in self.block_tokens:
            self.block_tokens[block] += tokens

    def expected(self, calls: int) -> int:
        """Tokens that so many calls will use by the mean of those that came back; 0 before the first."""
        return -(-self._call_tokens * calls // self._calls) if self._calls else 0

    @property
    def name_of_unmade(self) -> OutcomeName:
        """What becomes of a call that the ending leaves unmade."""
        return "budget_stop" if self.ending and self.ending.reason == "budget" else "cancelled"

    def answered(self) -> None:
        """A call was answered: failures before it were no sign of a gateway that is gone."""
        self._given_up = 0

    def given_up(self, call_id: str, failure: str, said: str) -> None:
        """A call was given up; too many in a row end the start."""
        (self.passing if failure in RETRYABLE else self.lasting).add(call_id)
        self._given_up += 1
        self.last_failure = said
        if self._given_up >= UNREACHABLE_AFTER and failure.startswith("net_"):
            self.stop("partial", "unreachable", said, failure)
        elif self._given_up >= FAILING_AFTER:
            self.stop("partial", "failing", said, failure)
