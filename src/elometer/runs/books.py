"""The four append-only files of a start, and the order in which a call reaches them."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from elometer.core.attempt import Attempt
from elometer.ledger.writer import JsonlWriter
from elometer.runs import events as ev
from elometer.runs.folder import ExperimentFolder
from elometer.runs.journal import Outcome, Sample


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

    def __enter__(self) -> Books:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Bring everything to the disk and give the lock back."""
        for writer in (self._samples, self._ledger, self._outcomes, self._events):
            writer.close()

    def emit(self, event: ev.AnyEvent) -> None:
        """Write an event and hand it to those who listen in this process."""
        self._events.append(event)
        for listener in self.listeners:
            listener(event)

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
