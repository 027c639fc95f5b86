"""The four append-only files of a start, and the order in which a call reaches them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType

from elometer.core.attempt import Attempt
from elometer.ledger.writer import JsonlWriter, WriteRefused
from elometer.runs import events as ev
from elometer.runs.folder import ExperimentFolder
from elometer.runs.journal import Outcome, Sample

# Events that say how a call goes on. A start that dies loses the last of them and nothing that rests on them;
# written by themselves they would be half of its writes.
MAY_WAIT = (ev.CallProgress, ev.CallReceived, ev.AttemptEnded)
WAIT_S = 0.05


async def _synced(writer: JsonlWriter, now: bool) -> None:
    if now:
        writer.hurry()
    await writer.synced()


class Books:
    """Writers of ledger, samples, outcomes and events.

    The ledger's writer holds a lock for its life, so two starts of one experiment cannot run at once.
    """

    def __init__(self, folder: ExperimentFolder) -> None:
        self._ledger = JsonlWriter(folder.ledger)
        opened = [self._ledger]
        try:
            self._samples = JsonlWriter(folder.samples)
            opened.append(self._samples)
            self._outcomes = JsonlWriter(folder.outcomes)
            opened.append(self._outcomes)
            self._events = JsonlWriter(folder.events, durable=False)
        except BaseException:
            for writer in opened:
                writer.close()
            raise
        self.listeners: list[ev.Listener] = []
        self._waiting: list[ev.AnyEvent] = []
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Books:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Bring everything to the disk and give the lock back."""
        if self._timer is not None:
            self._timer.cancel()
        with contextlib.suppress(WriteRefused):  # said already where it could be heard
            self._write_events()
        with contextlib.ExitStack() as closing:  # samples first; one that fails keeps no other one open
            for writer in (self._events, self._outcomes, self._ledger, self._samples):
                closing.callback(writer.close)

    def emit(self, event: ev.AnyEvent) -> None:
        """Write an event, at the latest in WAIT_S; hand it to those who listen in this process at once."""
        self._waiting.append(event)
        if not isinstance(event, MAY_WAIT):
            self._write_events()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WAIT_S, self._write_late_events)
        for listener in self.listeners:
            listener(event)

    def _write_events(self) -> None:
        if self._waiting:
            self._events.append_all(self._waiting)
            self._waiting.clear()

    def _write_late_events(self) -> None:
        self._timer = None
        with contextlib.suppress(WriteRefused):  # the next event that must not wait says it
            self._write_events()

    async def book(
        self, attempt: Attempt, sample: Sample | None, *, alone: Callable[[], bool] = lambda: False
    ) -> None:
        """Bring an attempt to the disk: its text first, then its ledger line.

        Returns when both are synced, so what is counted as done survives a power cut. `alone` tells that no
        other attempt is under way, whose sync this one could share: then the disk is not kept waiting.
        """
        if sample is not None:
            self._samples.append(sample)
            await _synced(self._samples, alone())
        self._ledger.append(attempt)
        await _synced(self._ledger, alone())

    async def outcome(self, outcomes: list[Outcome]) -> None:
        """Bring the outcomes of a block to the disk."""
        for item in outcomes:
            self._outcomes.append(item)
        self._outcomes.hurry()
        await self._outcomes.synced()
