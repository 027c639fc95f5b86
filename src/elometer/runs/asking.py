"""Asking the gateway: one call from its place in the queue to its lines on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from elometer.boundary.account import KeyAccount
from elometer.core.attempt import Answer, Attempt, Call
from elometer.core.clock import timestamp
from elometer.core.errors import BudgetStop
from elometer.core.limits import GateClosed
from elometer.runs import events as ev
from elometer.runs.calls import book_charge, worst_case
from elometer.runs.course import FATAL, Course
from elometer.runs.folder import ExperimentFolder
from elometer.runs.journal import OutcomeName, Sample
from elometer.runs.resume import Past
from elometer.runs.served import STRANGER_FLAG, ServedNames
from elometer.wire.client import GatewayClient


@dataclass(slots=True)
class Asking:
    """Makes calls. `extracted` finds the answer in a text, `on_stranger` hears of a foreign name at once."""

    course: Course
    folder: ExperimentFolder
    client: GatewayClient
    account: KeyAccount
    past: Past
    served: ServedNames
    extracted: Callable[[Call, str], str | None]
    on_stranger: Callable[[ev.Stranger], None]
    _freezing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def answer(self, call: Call) -> Sample | OutcomeName:
        """The answer of a call, from disk or from the gateway; the name of an outcome where there is none."""
        known = self.past.answers.get(call.call_id)
        if known is not None:
            return known
        course = self.course
        if course.ending is not None:
            return course.name_of_unmade
        if call.call_id in course.lasting:
            return "infra_error"  # the same request would fail again
        course.waiting += 1
        waiting = True

        def on_sent(sent: Call, attempt: int) -> None:
            nonlocal waiting
            if waiting:
                waiting = False
                course.waiting -= 1
                course.room.set()
            course.on_wire.add(sent.call_id)
            course.books.emit(
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
                course.waiting -= 1
                course.room.set()
            course.on_wire.discard(call.call_id)

    async def _asked_for(self, call: Call, on_sent: Callable[[Call, int], None]) -> Sample | OutcomeName:
        """Make a call; each attempt reserves its worst case with the permit in hand, and settles."""
        course, worst = self.course, worst_case(call)
        made: list[Sample] = []

        async def before_send(_call: Call) -> None:
            await course.gates.going()
            await self.account.reserve(worst)

        async def on_attempt(attempt: Attempt, text: str) -> None:
            course.on_wire.discard(call.call_id)
            if attempt.error_class in FATAL:
                # Before the disk is waited for, so that no further call meets the same refusal.
                course.stop("failed", "gateway", said(attempt), attempt.error_class)
            self._who_answered(call, attempt)
            self.account.settle(worst, book_charge(attempt, worst))
            course.books.emit(ev.CallReceived(at=timestamp(), call_id=call.call_id, strategy=call.strategy))
            sample = self._sample(call, attempt, text) if attempt.final else None
            # Before the disk is waited for, so that a rule on spending sees it in time.
            course.book(call.block, attempt.total_tokens or 0)
            await course.books.book(attempt, sample, alone=lambda: not course.on_wire)
            if sample:
                made.append(sample)
            self.past.attempts[call.call_id] = attempt.attempt
            course.books.emit(_attempt_ended(call, attempt))
            await self.freeze_names()
            course.room.set()

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
            course.stop("partial", "budget", " ".join(stop.lines()))
            return "budget_stop"
        except GateClosed as shut:
            course.stop("partial", "closed", " ".join(shut.lines()))
            return "cancelled"
        if answer.answered and made:
            course.answered()
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
            extracted=self.extracted(call, text),
            attempt=attempt,
        )

    def _who_answered(self, call: Call, attempt: Attempt) -> None:
        """Learn the name of a first answer; flag a foreign one, and say so before anything else is done."""
        if not attempt.final or attempt.status in ("error", "cancelled"):
            return
        learnt = self.served.look(call.model, attempt.model)
        if learnt is not None:
            self.course.books.emit(learnt)
        if self.served.stranger(call.model, attempt.model):
            attempt.usage_flags = [*attempt.usage_flags, STRANGER_FLAG]
            event = ev.Stranger(
                at=timestamp(),
                call_id=call.call_id,
                strategy=call.strategy,
                model_requested=call.model,
                model_served=attempt.model,
            )
            self.course.books.emit(event)
            self.on_stranger(event)

    async def freeze_names(self) -> None:
        """Bring names that were learnt or accepted to the disk."""
        if self.served.unsaved:
            async with self._freezing:
                await asyncio.to_thread(self.served.freeze, self.folder)

    def _give_up(self, call: Call, answer: Answer) -> OutcomeName:
        attempt = answer.attempt
        failure, words = attempt.error_class or "unknown", said(attempt)
        self.course.books.emit(
            ev.CallFailed(
                at=timestamp(),
                call_id=call.call_id,
                strategy=call.strategy,
                error_class=failure,
                message=words,
            )
        )
        if attempt.status == "cancelled":
            return "cancelled"
        self.course.given_up(call.call_id, failure, words)
        return "infra_error"

    def _on_chunk(self, call: Call, chunks: int) -> None:
        self.course.books.emit(
            ev.CallProgress(at=timestamp(), call_id=call.call_id, strategy=call.strategy, chunks=chunks)
        )

    def _on_wait(self, call: Call, seconds: float, why: str) -> None:
        self.course.on_wire.discard(call.call_id)
        self.course.books.emit(
            ev.CallWaiting(
                at=timestamp(), call_id=call.call_id, strategy=call.strategy, seconds=seconds, why=why
            )
        )


def said(attempt: Attempt) -> str:
    """The server's own words on a failure, with its status."""
    status = f"HTTP {attempt.http_status}: " if attempt.http_status else ""
    return status + (attempt.error_message or attempt.error_class or "")


def _attempt_ended(call: Call, attempt: Attempt) -> ev.AttemptEnded:
    return ev.AttemptEnded(
        at=timestamp(),
        call_id=call.call_id,
        strategy=call.strategy,
        attempt=attempt.attempt,
        final=attempt.final,
        status=attempt.status,
        model=attempt.model,
        phase=attempt.phase,
        round=attempt.round,
        prompt_tokens=attempt.prompt_tokens,
        completion_tokens=attempt.completion_tokens,
        error_class=attempt.error_class,
        http_status=attempt.http_status,
        latency_ms=attempt.latency_ms,
        usage_source=attempt.usage_source,
        used_by=attempt.used_by,
    )
