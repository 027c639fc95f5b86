"""The start itself: blocks in random order, calls interleaved, every attempt on disk before it counts.

A block is admitted when the calls waiting for a place no longer fill the cap, so few blocks are open at
once and a stop leaves few of them half done.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from elometer.boundary.account import KeyAccount
from elometer.core.attempt import Answer, Attempt, Call
from elometer.core.clock import timestamp
from elometer.core.errors import BudgetStop
from elometer.core.limits import GateClosed
from elometer.runs import events as ev
from elometer.runs.block import settle
from elometer.runs.books import Books
from elometer.runs.calls import StartFacts, budget_charge, lost_attempt, sample_call, worst_case
from elometer.runs.folder import ExperimentFolder
from elometer.runs.gates import Gates
from elometer.runs.graders import extract
from elometer.runs.journal import OutcomeName, Sample
from elometer.runs.opening import SETTLED, block_ended, finished, opening
from elometer.runs.plan import Block, block_order, call_order
from elometer.runs.resume import Past
from elometer.runs.spec import Experiment
from elometer.runs.steering import Steering
from elometer.runs.strategies import Strategy, call_id
from elometer.runs.tasks import Task
from elometer.wire.classes import ACCESS_CLASSES
from elometer.wire.client import GatewayClient

PROGRESS_EVERY_S = 0.25
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


@dataclass(slots=True)
class _Ending:
    """Why a start ends before its blocks do."""

    status: str = "complete"
    reason: str = ""
    message: str = ""
    error_class: str = ""


@dataclass(slots=True)
class _Open:
    """What is under way: calls whose attempt is on the wire, calls that wait for a place."""

    tasks: dict[str, asyncio.Task[Sample | OutcomeName]] = field(default_factory=dict)
    on_wire: set[str] = field(default_factory=set)
    waiting: int = 0
    blocks: int = 0


class Runner:
    """One start of an experiment. `run` returns its last event; `stop` drains it."""

    def __init__(
        self,
        experiment: Experiment,
        tasks: list[Task],
        folder: ExperimentFolder,
        books: Books,
        client: GatewayClient,
        gates: Gates,
        account: KeyAccount,
        past: Past,
        facts: StartFacts,
    ) -> None:
        self.experiment = experiment
        self.tasks = {task.id: task for task in tasks}
        self.order = block_order(experiment, tasks)
        self.folder = folder
        self.books = books
        self.client = client
        self.gates = gates
        self.past = past
        self.facts = facts
        self.account = account
        self._open = _Open()
        self._ending: _Ending | None = None
        self._room = asyncio.Event()
        self._given_up = 0
        self._open_ends = 0
        self._last_failure = ""
        self._block_tokens: list[int] = []
        self._served: dict[str, set[str]] = _served_names(experiment, past)
        self._progress: dict[str, float] = {}
        self._steering = Steering(
            control_file=folder.control,
            cap=experiment.gateway.boundary.max_concurrency,
            gates=gates,
            account=account,
            books=books,
            on_wire=lambda: len(self._open.on_wire),
            on_stop=lambda: self.stop("stopped", "control"),
            on_change=self._room.set,
        )

    # ── the start ──────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> ev.StartEnded:
        """Carry the experiment out. Cancelling this leaves at once and books what it can."""
        ended: ev.StartEnded | None = None
        try:
            await self._book_the_past()
            for event in opening(
                self.experiment, self.order, self.past, self.facts, cap=self.gates.cap, account=self.account
            ):
                self.books.emit(event)
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(self._steering.follow())
                await self._all_blocks()
                watcher.cancel()
            ending = self._ending or self._unforced_ending()
            ended = ev.StartEnded(
                at=timestamp(),
                status=ending.status,  # type: ignore[arg-type]
                reason=ending.reason,
                message=ending.message,
            )
            return ended
        except asyncio.CancelledError:
            ended = ev.StartEnded(at=timestamp(), status="stopped", reason="interrupted")
            raise
        finally:
            failed = ev.StartEnded(at=timestamp(), status="failed", reason="internal")
            self.books.emit(ended or failed)

    def _unforced_ending(self) -> _Ending:
        """Complete, unless calls of some block were given up: starting again makes those once more."""
        if not self._open_ends:
            return _Ending()
        return _Ending("partial", "incomplete", self._last_failure)

    def stop(self, status: str, reason: str, message: str = "", error_class: str = "") -> None:
        """Drain: nothing new goes onto the wire; what is there is waited for and booked."""
        if self._ending is not None:
            return
        self._ending = _Ending(status, reason, message, error_class)
        for identity, task in self._open.tasks.items():
            if identity not in self._open.on_wire:
                task.cancel()
        self._room.set()
        self.books.emit(ev.Control(at=timestamp(), state="stopping", limit=self.gates.cap, why=reason))

    @property
    def ending_class(self) -> str:
        """The error class that ended the start; empty where none did."""
        return self._ending.error_class if self._ending else ""

    async def _book_the_past(self) -> None:
        """Book what earlier starts paid for and had no time to book, and the calls that died with them."""
        for sample in self.past.unbooked:
            await self.books.book(sample.attempt, None)
        if not self.past.in_flight:
            return
        places = {
            call_id(self.experiment.experiment_id, block.task, block.run, strategy.name, 1, number): (
                block,
                strategy,
                number,
                position,
            )
            for block in self.order
            for position, (strategy, number) in enumerate(call_order(self.experiment, block))
        }
        for event in self.past.in_flight:
            if event.call_id not in places:
                continue
            call = self._call_of(*places[event.call_id])
            await self.books.book(lost_attempt(call, event), None)
            self.past.attempts[event.call_id] = max(self.past.attempts.get(event.call_id, 0), event.attempt)

    # ── blocks ─────────────────────────────────────────────────────────────────────────────────────

    async def _all_blocks(self) -> None:
        async with asyncio.TaskGroup() as group:
            for block in self.order:
                if finished(self.experiment, self.past, block):
                    continue
                if not await self._admitted():
                    return
                self._open.blocks += 1
                group.create_task(self._block(block))
                # One turn of the loop, so that the block's calls queue up before the next is thought of.
                await asyncio.sleep(0)

    async def _admitted(self) -> bool:
        """Wait until another block may begin; False where the start is ending."""
        while self._ending is None:
            crowded = self._open.waiting >= self.gates.cap
            expected = self._expected_block()
            if not crowded and self.account.fits(expected):
                return True
            if not crowded and not self._open.blocks:
                self.stop("partial", "budget")
                return False
            self._room.clear()
            await self._room.wait()
        return False

    def _expected_block(self) -> int:
        """The 90th percentile of tokens of finished blocks; 0 before the first."""
        if not self._block_tokens:
            return 0
        ordered = sorted(self._block_tokens)
        return ordered[min(len(ordered) - 1, math.ceil(0.9 * len(ordered)) - 1)]

    async def _block(self, block: Block) -> None:
        self.books.emit(ev.BlockAdmitted(at=timestamp(), block=block.index, task=block.task, run=block.run))
        tasks: dict[tuple[str, int], asyncio.Task[Sample | OutcomeName]] = {}
        async with asyncio.TaskGroup() as group:
            for position, (strategy, number) in enumerate(call_order(self.experiment, block)):
                call = self._call_of(block, strategy, number, position)
                task = group.create_task(self._answer(call))
                tasks[strategy.name, number] = task
                self._open.tasks[call.call_id] = task
                task.add_done_callback(partial(self._forget, call.call_id))
        await self._settle(block, tasks)
        self._open.blocks -= 1
        self._room.set()

    def _forget(self, identity: str, _done: asyncio.Task[Sample | OutcomeName]) -> None:
        self._open.tasks.pop(identity, None)

    async def _settle(
        self, block: Block, tasks: dict[tuple[str, int], asyncio.Task[Sample | OutcomeName]]
    ) -> None:
        outcomes = []
        task = self.tasks[block.task]
        tokens = 0
        for strategy in self.experiment.agent.strategies:
            samples: dict[int, Sample] = {}
            missing: OutcomeName | None = None
            for number in range(1, strategy.samples + 1):
                made = tasks[strategy.name, number]
                result: Sample | OutcomeName = "cancelled" if made.cancelled() else made.result()
                if isinstance(result, Sample):
                    samples[number] = result
                    tokens += result.attempt.total_tokens or 0
                else:
                    missing = result
            outcome = settle(
                self.experiment, task, block.run, block.index, strategy, samples, missing=missing
            )
            outcome.run_id, outcome.timestamp = self.facts.run_id, timestamp()
            outcomes.append(outcome)
        self._open_ends += any(item.outcome not in SETTLED for item in outcomes)
        if tokens:
            self._block_tokens.append(tokens)
        await self.books.outcome(outcomes)
        self.books.emit(block_ended(block, outcomes))

    # ── calls ──────────────────────────────────────────────────────────────────────────────────────

    def _call_of(self, block: Block, strategy: Strategy, number: int, position: int) -> Call:
        return sample_call(
            self.experiment, self.tasks[block.task], block, strategy, number, position, self.facts
        )

    async def _answer(self, call: Call) -> Sample | OutcomeName:
        """The answer of a call, from disk or from the gateway; the name of an outcome where there is none."""
        known = self.past.answers.get(call.call_id)
        if known is not None:
            return known
        if self._ending is not None:
            return "cancelled" if self._ending.reason != "budget" else "budget_stop"
        self._open.waiting += 1
        waiting = True

        def on_sent(sent: Call, attempt: int) -> None:
            nonlocal waiting
            if waiting:
                waiting = False
                self._open.waiting -= 1
                self._room.set()
            self._open.on_wire.add(sent.call_id)
            self.books.emit(
                ev.CallSent(
                    at=timestamp(),
                    call_id=sent.call_id,
                    strategy=sent.strategy,
                    block=sent.block,
                    attempt=attempt,
                )
            )

        try:
            return await self._asked_for(call, on_sent)
        finally:
            if waiting:
                self._open.waiting -= 1
                self._room.set()
            self._open.on_wire.discard(call.call_id)
            self._progress.pop(call.call_id, None)

    async def _asked_for(self, call: Call, on_sent: Callable[[Call, int], None]) -> Sample | OutcomeName:
        """Make a call; each attempt reserves its worst case with the permit in hand, and settles."""
        worst = worst_case(call)
        made: list[Sample] = []

        async def before_send(_call: Call) -> None:
            await self.account.reserve(worst)

        async def on_attempt(attempt: Attempt, text: str) -> None:
            self._open.on_wire.discard(call.call_id)
            if attempt.error_class in FATAL:
                # Before the disk is waited for, so that no further call meets the same refusal.
                self.stop("failed", "gateway", _said(attempt), attempt.error_class)
            self.account.settle(worst, budget_charge(attempt, worst))
            self.books.emit(ev.CallReceived(at=timestamp(), call_id=call.call_id, strategy=call.strategy))
            sample = self._sample(call, attempt, text) if attempt.final else None
            await self.books.book(attempt, sample)
            if sample:
                made.append(sample)
            self._after_attempt(call, attempt)
            self._room.set()

        try:
            answer = await self.client.send(
                call,
                on_attempt=on_attempt,
                before_send=before_send,
                on_sent=on_sent,
                on_chunk=self._on_chunk,
                on_wait=self._on_wait,
                first_attempt=self.past.attempts.get(call.call_id, 0) + 1,
            )
        except BudgetStop as stop:
            self.stop("partial", "budget", " ".join(stop.lines()))
            return "budget_stop"
        except GateClosed as shut:
            self.stop("partial", "closed", " ".join(shut.lines()))
            return "cancelled"
        if answer.answered and made:
            self._given_up = 0
            return made[-1]
        return self._give_up(call, answer)

    def _sample(self, call: Call, attempt: Attempt, text: str) -> Sample:
        return Sample(
            call_id=call.call_id,
            strategy=call.strategy,
            task=call.task,
            run=call.run,
            sample=call.sample,
            text=text,
            extracted=extract(self.tasks[call.task], text),
            attempt=attempt,
        )

    def _after_attempt(self, call: Call, attempt: Attempt) -> None:
        self.books.emit(
            ev.AttemptEnded(
                at=timestamp(),
                call_id=call.call_id,
                strategy=call.strategy,
                attempt=attempt.attempt,
                final=attempt.final,
                status=attempt.status,
                model=attempt.model,
                phase=attempt.phase,
                prompt_tokens=attempt.prompt_tokens,
                completion_tokens=attempt.completion_tokens,
                error_class=attempt.error_class,
                http_status=attempt.http_status,
                latency_ms=attempt.latency_ms,
                usage_source=attempt.usage_source,
            )
        )
        if attempt.final:
            served = self._served.setdefault(call.model, {attempt.model})
            if attempt.model not in served:
                self.books.emit(
                    ev.Stranger(
                        at=timestamp(),
                        call_id=call.call_id,
                        strategy=call.strategy,
                        model_requested=call.model,
                        model_served=attempt.model,
                    )
                )

    def _give_up(self, call: Call, answer: Answer) -> OutcomeName:
        attempt = answer.attempt
        failure, said = attempt.error_class or "unknown", _said(attempt)
        self._last_failure = said
        self.books.emit(
            ev.CallFailed(
                at=timestamp(),
                call_id=call.call_id,
                strategy=call.strategy,
                error_class=failure,
                message=said,
            )
        )
        if attempt.status == "cancelled":
            return "cancelled"
        self._given_up += 1
        if self._given_up >= UNREACHABLE_AFTER and failure.startswith("net_"):
            self.stop("partial", "unreachable", said, failure)
        elif self._given_up >= FAILING_AFTER:
            self.stop("partial", "failing", said, failure)
        return "infra_error"

    def _on_chunk(self, call: Call, chunks: int) -> None:
        now = time.monotonic()
        if now - self._progress.get(call.call_id, 0.0) < PROGRESS_EVERY_S:
            return
        self._progress[call.call_id] = now
        self.books.emit(
            ev.CallProgress(at=timestamp(), call_id=call.call_id, strategy=call.strategy, chunks=chunks)
        )

    def _on_wait(self, call: Call, seconds: float, why: str) -> None:
        self._open.on_wire.discard(call.call_id)
        self.books.emit(
            ev.CallWaiting(
                at=timestamp(), call_id=call.call_id, strategy=call.strategy, seconds=seconds, why=why
            )
        )


def _said(attempt: Attempt) -> str:
    """The server's own words on a failure, with its status."""
    status = f"HTTP {attempt.http_status}: " if attempt.http_status else ""
    return status + (attempt.error_message or attempt.error_class or "")


def _served_names(experiment: Experiment, past: Past) -> dict[str, set[str]]:
    """Names that may answer for each requested model: as the experiment says, else as answered first."""
    names = {model: set(served) for model, served in experiment.gateway.served_as.items()}
    for model, seen in past.served.items():
        names.setdefault(model, {seen.most_common(1)[0][0]})
    return names
