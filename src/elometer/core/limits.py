"""What a key may do, and the gate through which its calls pass."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from elometer.core.errors import ElometerError


@dataclass(frozen=True, slots=True)
class Boundary:
    """The limits of one key. None means that the limit is not set.

    `daily_budget_tokens` counts spent tokens per day of `timezone`; `expires_at` is the first moment at
    which the key may no longer be used (a bare date means the end of that day in `timezone`).
    """

    allowed_models: tuple[str, ...] = ()
    daily_budget_tokens: int | None = None
    max_concurrency: int | None = None
    expires_at: datetime | None = None
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class GateStatus:
    """What a gate is doing now: why calls wait is never a guess."""

    in_flight: int
    limit: int
    waiting: int
    closed_until: float | None = None  # seconds of the gate's clock
    why: str = ""


class GateClosed(ElometerError):
    """The server asked to stay away longer than anybody waits; `until`: seconds of the gate's clock."""

    exit_code = 5

    def __init__(self, message: str, *, until: float, evidence: str = "", fix: str = "") -> None:
        super().__init__(message, evidence=evidence, fix=fix)
        self.until = until


class Permit(Protocol):
    """The right to have one attempt on the wire."""

    def refused(self, wait_seconds: float | None, *, why: str) -> None:
        """The server refused this attempt for load; `wait_seconds` is its own word on when to come back.

        0 means that a place is missing rather than time: the next attempt goes when one of ours ends.
        """

    def overloaded(self) -> None:
        """The server failed for a reason that is not a refusal (5xx): growth pauses."""


class Gate(Protocol):
    """Admits attempts of one (key, model). A permit is held only while an attempt is on the wire."""

    def permit(self, *, retry: bool = False) -> AbstractAsyncContextManager[Permit]:
        """Wait for a place; a retry goes before those that have not been tried yet.

        A permit that ends without a word and without an exception was a success. Raises GateClosed.
        """

    def status(self) -> GateStatus:
        """A snapshot for the screen."""
