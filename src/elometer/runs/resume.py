"""What earlier starts of an experiment left behind, so that no answered call is made again.

Read from ledger and samples; events only tell which attempts were on the wire when a start died.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from elometer.core.attempt import Attempt
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.ledger.reader import read_attempts
from elometer.runs import events as ev
from elometer.runs.folder import ExperimentFolder
from elometer.runs.journal import Outcome, Sample, latest_outcomes, read_lines
from elometer.runs.served import STRANGER_FLAG
from elometer.runs.stopping import REASON


@dataclass(frozen=True, slots=True)
class Booked:
    """Sums of ledger lines of one strategy: calls answered, attempts that failed, tokens."""

    calls: int = 0
    failed_attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(slots=True)
class Past:
    """What is on disk. `answers` by call_id; `attempts` is the highest attempt number by call_id.

    `last_rule` is the stop rule that ended the last start, empty where none did.
    """

    answers: dict[str, Sample] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    outcomes: dict[tuple[str, int, str], Outcome] = field(default_factory=dict)
    unbooked: list[Sample] = field(default_factory=list)
    in_flight: list[ev.CallSent] = field(default_factory=list)
    booked: dict[str | None, Booked] = field(default_factory=dict)
    served: dict[str, Counter[str]] = field(default_factory=dict)
    starts: int = 0
    run_ids: set[str] = field(default_factory=set)
    last_rule: str = ""

    def new_run_id(self, wanted: str) -> str:
        """The run_id as wanted, or with a number behind it: two starts may begin within one second."""
        number, found = 1, wanted
        while found in self.run_ids:
            number += 1
            found = f"{wanted}-{number}"
        return found

    def tokens_of(self, blocks: Sequence[tuple[str, int]]) -> list[int]:
        """What the answers of each block (task, run) cost; blocks without a count are left out."""
        used: dict[tuple[str, int], int] = {}
        for sample in self.answers.values():
            if sample.strategy is not None:
                place = (sample.task, sample.run)
                used[place] = used.get(place, 0) + (sample.attempt.total_tokens or 0)
        return [used[block] for block in blocks if used.get(block)]

    @property
    def empty(self) -> bool:
        """True where no start has been made."""
        return not (self.starts or self.attempts or self.outcomes)


def read_past(folder: ExperimentFolder) -> Past:
    """Everything that a start has to know of earlier ones.

    Raises UsageError where the ledger says that a call was answered and its text is gone: asking again would
    pay for it twice.
    """
    past = Past(outcomes=latest_outcomes(folder.outcomes))
    samples = {item.call_id: item for item in read_lines(folder.samples, Sample)}
    booked: set[tuple[str, int]] = set()
    lost: list[str] = []
    for attempt in read_attempts(folder.ledger) if folder.ledger.exists() else ():
        _count(past, attempt)
        if attempt.call_id is None:
            continue
        booked.add((attempt.call_id, attempt.attempt))
        past.attempts[attempt.call_id] = max(past.attempts.get(attempt.call_id, 0), attempt.attempt)
        if attempt.final and attempt.status != "error" and attempt.call_id not in samples:
            lost.append(attempt.call_id)
    if lost:
        raise UsageError(
            _("{count} answered calls of this experiment have lost their text.").format(count=len(lost)),
            evidence=_("{path} lacks call_id {call_id}, which the ledger has as final.").format(
                path=folder.samples, call_id=lost[0]
            ),
            fix=_("Restore samples.jsonl from the archive, or start under a new experiment_id."),
        )
    for sample in samples.values():
        past.answers[sample.call_id] = sample
        if (sample.call_id, sample.attempt.attempt) not in booked:
            past.unbooked.append(sample)
            past.attempts[sample.call_id] = max(past.attempts.get(sample.call_id, 0), sample.attempt.attempt)
    _read_events(folder.events, past, booked)
    return past


def _count(past: Past, attempt: Attempt) -> None:
    before = past.booked.get(attempt.strategy, Booked())
    answered = attempt.final and attempt.status not in ("error", "cancelled")
    past.booked[attempt.strategy] = Booked(
        calls=before.calls + answered,
        failed_attempts=before.failed_attempts + (not answered),
        prompt_tokens=before.prompt_tokens + (attempt.prompt_tokens or 0),
        completion_tokens=before.completion_tokens + (attempt.completion_tokens or 0),
    )
    if answered and attempt.model_requested and STRANGER_FLAG not in attempt.usage_flags:
        past.served.setdefault(attempt.model_requested, Counter())[attempt.model] += 1


def _read_events(path: Path, past: Past, booked: set[tuple[str, int]]) -> None:
    """Count starts, and find attempts that were sent and never came back."""
    sent: dict[tuple[str, int], ev.CallSent] = {}
    for event in _events(path):
        if isinstance(event, ev.StartOpened):
            past.starts += 1
            past.run_ids.add(event.run_id)
            past.last_rule = ""
        elif isinstance(event, ev.StartEnded) and event.reason == REASON:
            past.last_rule = event.message.partition(":")[0]
        elif isinstance(event, ev.CallSent):
            sent[event.call_id, event.attempt] = event
    answered = {(sample.call_id, sample.attempt.attempt) for sample in past.answers.values()}
    past.in_flight = [event for key, event in sent.items() if key not in booked and key not in answered]


def _events(path: Path) -> Iterator[ev.AnyEvent]:
    if not path.exists():
        return
    with path.open("rb") as lines:
        for line in lines:
            try:
                yield ev.decode(line)
            except msgspec.DecodeError:
                continue
