"""The start itself: blocks in random order, calls interleaved, every attempt on disk before it counts.

A block is admitted when the calls waiting for a place no longer fill the cap, so few blocks are open at
once and a stop leaves few of them half done.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from functools import partial

from elometer.boundary.account import KeyAccount
from elometer.core.attempt import Call
from elometer.core.clock import timestamp, utc_now
from elometer.core.errors import ElometerError, PartialRun
from elometer.core.text import gettext as _
from elometer.runs import events as ev
from elometer.runs.asking import Asking
from elometer.runs.block import Grading
from elometer.runs.books import Books
from elometer.runs.calls import Place, StartFacts, call_at, places
from elometer.runs.canary import canary_call, canary_due
from elometer.runs.course import Course
from elometer.runs.folder import ExperimentFolder
from elometer.runs.gates import Gates
from elometer.runs.graders import extract
from elometer.runs.graders.child import CHILDREN, Children
from elometer.runs.journal import OutcomeName, Sample
from elometer.runs.opening import SETTLED, block_ended, finished, opening
from elometer.runs.plan import Block, block_order
from elometer.runs.resume import Past
from elometer.runs.served import ServedNames, frozen_names
from elometer.runs.sharing import Key, draws
from elometer.runs.spec import Experiment
from elometer.runs.steering import Steering
from elometer.runs.stopping import (
    EXPIRED,
    REASON,
    Looks,
    halfwidth_now,
    narrow_enough,
    spent_enough,
    too_late,
)
from elometer.runs.tasks import Task
from elometer.wire.client import GatewayClient

Made = asyncio.Task[Sample | OutcomeName]


class Runner:
    """One start of an experiment. `run` returns its last event; `stop` drains it.

    `attended`: somebody can answer a question through control.json, so a stranger pauses instead of ending.
    `expires_at`: from then on the key may no longer be used, so nothing more goes out.
    """

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
        *,
        attended: bool = False,
        expires_at: datetime | None = None,
    ) -> None:
        self.experiment = experiment
        self.tasks = {task.id: task for task in tasks}
        self.order = block_order(experiment, tasks)
        self.folder = folder
        self.books = books
        self.gates = gates
        self.past = past
        self.facts = facts
        self.account = account
        self.attended = attended
        self.expires_at = expires_at
        self.course = Course(books, gates)
        self.served = ServedNames(experiment, frozen_names(folder), past.served)
        self.asking = Asking(
            course=self.course,
            folder=folder,
            client=client,
            account=account,
            past=past,
            served=self.served,
            extracted=self._extracted,
            on_stranger=self._on_stranger,
        )
        self._grading = Grading(experiment)
        self._children = Children()
        complete = [block for block in self.order if finished(experiment, past, block)]
        self._block_tokens = past.tokens_of([(block.task, block.run) for block in complete])
        self.course.tokens = sum(one.prompt_tokens + one.completion_tokens for one in past.booked.values())
        self._looks = Looks(experiment.stop.looks, len(self.order), len(complete))
        self._looking = asyncio.Lock()
        self._failed: dict[Block, dict[Key, Made]] = {}
        self._steering = Steering(
            control_file=folder.control,
            cap=account.most_permits,
            gates=gates,
            account=account,
            books=books,
            on_stop=lambda: self.stop("stopped", "control"),
            on_change=self.course.room.set,
            on_resume=self._accept_strangers,
            on_tick=self._keep_the_moments,
        )

    # ── the start ──────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> ev.StartEnded:
        """Carry the experiment out. Cancelling this leaves at once and books what it can.

        Raises ElometerError where a file can no longer be written.
        """
        ended: ev.StartEnded | None = None
        CHILDREN.set(self._children)
        try:
            for event in self._opening():
                self.books.emit(event)
            if self.past.last_rule == "ci_halfwidth_elo":
                # The same rule on the same blocks: what was narrow enough still is, and costs nothing to see.
                await self._look(self._looks.done / len(self.order))
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(self._steering.follow())
                await self._all_blocks()
                watcher.cancel()
            ending = self.course.end()
            ended = ev.StartEnded(
                at=timestamp(),
                status=ending.status,  # type: ignore[arg-type]
                reason=ending.reason,
                message=ending.message,
            )
            return ended
        except asyncio.CancelledError:
            self._children.end_all()
            ended = ev.StartEnded(at=timestamp(), status="stopped", reason="interrupted")
            raise
        except BaseExceptionGroup as group_error:
            known = _first_known(group_error)
            if known is None:
                raise
            ended = ev.StartEnded(
                at=timestamp(), status="failed", reason="disk", message=" ".join(known.lines())
            )
            raise known from None
        finally:
            failed = ev.StartEnded(at=timestamp(), status="failed", reason="internal")
            # The disk that ended the start may refuse its last word too; views then see a start that died.
            with contextlib.suppress(ElometerError):
                self.books.emit(ended or failed)

    def stop(self, status: str, reason: str, message: str = "", error_class: str = "") -> None:
        """Drain: nothing new goes onto the wire; what is there is waited for and booked."""
        self.course.stop(status, reason, message, error_class)

    @property
    def ending_class(self) -> str:
        """The error class that ended the start; empty where none did."""
        return self.course.ending.error_class if self.course.ending else ""

    def _opening(self) -> Iterator[ev.AnyEvent]:
        yield from opening(
            self.experiment, self.order, self.past, self.facts, cap=self.gates.cap, account=self.account
        )
        yield from self.served.known()

    # ── strangers ──────────────────────────────────────────────────────────────────────────────────

    def _on_stranger(self, event: ev.Stranger) -> None:
        """No more is spent on a number that cannot be used: pause where somebody can answer, else end."""
        if self.experiment.stop.on_stranger == "record":
            return
        if self.attended:
            self._steering.pause("stranger")
            return
        words = _("{served} answered where {asked} was asked for.")
        self.stop("partial", "stranger", words.format(served=event.model_served, asked=event.model_requested))

    def _accept_strangers(self) -> None:
        for event in self.served.accept():
            self.books.emit(event)

    # ── stop rules ─────────────────────────────────────────────────────────────────────────────────

    def _keep_the_moments(self) -> None:
        now = utc_now()
        if self.expires_at is not None and now >= self.expires_at:
            self.stop(
                "partial", EXPIRED, _("expires_at: {moment}").format(moment=self.expires_at.isoformat())
            )
        elif why := too_late(self.experiment.stop, now):
            self.stop("partial", REASON, why)

    async def _look(self, share: float) -> None:
        """Look at the precision reached; where it is enough, no further block begins."""
        bound = self.experiment.stop.ci_halfwidth_elo
        if bound is None:
            return
        async with self._looking:
            half = await asyncio.to_thread(halfwidth_now, self.experiment, self.folder)
        why = narrow_enough(self.experiment.stop, half)
        self.books.emit(
            ev.Look(
                at=timestamp(),
                share=share,
                blocks_done=self._looks.done,
                halfwidth_elo=half if math.isfinite(half) else None,
                bound_elo=bound,
                enough=bool(why),
            )
        )
        if why and self._looks.done < len(self.order):
            self.course.close("partial", REASON, why)

    # ── blocks ─────────────────────────────────────────────────────────────────────────────────────

    async def _all_blocks(self) -> None:
        """Every block once; then, once more, those whose calls failed in a way that may pass."""
        async with asyncio.TaskGroup() as group:
            for block in self.order:
                if finished(self.experiment, self.past, block):
                    continue
                if not await self._admitted():
                    break
                if canary_due(self.experiment, block.index):
                    self._begin(group, canary_call(self.experiment, block.index, self.facts))
                await self._open(group, block, again=False)
        async with asyncio.TaskGroup() as group:
            for block in list(self._failed):
                if not await self._admitted():
                    break
                del self._failed[block]
                await self._open(group, block, again=True)
        for block, made in self._failed.items():
            await self._close(block, made)

    async def _open(self, group: asyncio.TaskGroup, block: Block, *, again: bool) -> None:
        self.course.blocks += 1
        self.course.block_tokens[block.index] = 0
        group.create_task(self._block(block, again=again))
        # One turn of the loop, so that the block's calls queue up before the next is thought of.
        await asyncio.sleep(0)

    def _begin(self, group: asyncio.TaskGroup, call: Call) -> None:
        """Ask beside the blocks; what comes of it is in the ledger alone."""
        self.course.tasks[call.call_id] = task = group.create_task(self.asking.answer(call))
        task.add_done_callback(partial(self._forget, call.call_id))

    async def _admitted(self) -> bool:
        """Wait until another block may begin; False where the start is ending."""
        course, rules = self.course, self.experiment.stop
        while course.ending is None and course.closing is None:
            crowded = course.waiting >= self.gates.cap
            expected = self._expected_block()
            spent = spent_enough(rules, course.tokens, course.block_tokens, expected)
            # Without a single answer nobody knows what the open blocks will use of a bounded spending.
            guessing = rules.spend_tokens is not None and not expected and course.blocks > 0
            if not crowded and not spent and not guessing and self.account.fits(expected):
                return True
            if not crowded and not course.blocks:
                self.stop("partial", REASON if spent else "budget", spent)
                return False
            course.room.clear()
            await course.room.wait()
        return False

    def _expected_block(self) -> int:
        """The 90th percentile of tokens of finished blocks; before the first by the mean of calls so far."""
        if not self._block_tokens:
            return self.course.expected(len(draws(self.experiment)))
        ordered = sorted(self._block_tokens)
        return ordered[min(len(ordered) - 1, math.ceil(0.9 * len(ordered)) - 1)]

    async def _block(self, block: Block, *, again: bool) -> None:
        self.books.emit(ev.BlockAdmitted(at=timestamp(), block=block.index, task=block.task, run=block.run))
        made: dict[Key, Made] = {}
        async with asyncio.TaskGroup() as group:
            for place in places(self.experiment, block):
                before = made[place.before] if place.before else None
                task = group.create_task(self._answer(place, before))
                made[place.draw.key] = self.course.tasks[place.call_id] = task
                task.add_done_callback(partial(self._forget, place.call_id))
        if not again and self._may_pass(block, made):
            self._failed[block] = made
        else:
            await self._close(block, made)
        self.course.blocks -= 1
        self.course.block_tokens.pop(block.index, None)
        self.course.room.set()

    def _may_pass(self, block: Block, made: dict[Key, Made]) -> bool:
        """Whether a block lacks calls that are worth another try; its answers are then kept for it."""
        passing = self.course.passing
        if self.course.ending is not None or not passing:
            return False
        if passing.isdisjoint(place.call_id for place in places(self.experiment, block)):
            return False
        for result in map(_result, made.values()):
            if isinstance(result, Sample):
                self.past.answers[result.call_id] = result
        return True

    async def _close(self, block: Block, made: dict[Key, Made]) -> None:
        """Settle a block for this start."""
        complete = await self._settle(block, made)
        self.course.open_ends += not complete
        share = self._looks.block_done() if complete else None
        if share is not None:
            await self._look(share)

    def _forget(self, identity: str, _done: Made) -> None:
        self.course.tasks.pop(identity, None)

    async def _answer(self, place: Place, before: Made | None) -> Sample | OutcomeName:
        """The answer at a place; a later round is asked for when the answer before it is on the disk."""
        if before is None:
            return await self.asking.answer(self._call(place))
        # Not by awaiting the task itself: a cancellation of this one would end that one too.
        await asyncio.wait([before])
        last = _result(before)
        if not isinstance(last, Sample):
            return last
        return await self.asking.answer(self._call(place, last.text))

    async def _settle(self, block: Block, made: dict[Key, Made]) -> bool:
        """Bring the outcomes of a block to the disk; True where no later start has to come back to it."""
        results = {key: _result(one) for key, one in made.items()}
        tokens = sum(one.attempt.total_tokens or 0 for one in results.values() if isinstance(one, Sample))
        outcomes = await self._grading.settle(self.tasks[block.task], block.run, block.index, results)
        for outcome in outcomes:
            outcome.run_id, outcome.timestamp = self.facts.run_id, timestamp()
        if tokens:
            self._block_tokens.append(tokens)
        await self.books.outcome(outcomes)
        self.books.emit(block_ended(block, outcomes))
        return all(outcome.outcome in SETTLED for outcome in outcomes)

    def _call(self, place: Place, last_answer: str | None = None) -> Call:
        return call_at(self.experiment, self.tasks[place.block.task], place, self.facts, last_answer)

    def _extracted(self, call: Call, text: str) -> str | None:
        return extract(self.tasks[call.task], text) if call.task in self.tasks else None


def _result(task: Made) -> Sample | OutcomeName:
    """What a call came to; one that raised ends the start by itself."""
    return "cancelled" if task.cancelled() or task.exception() is not None else task.result()


def _first_known(group: BaseExceptionGroup[BaseException]) -> ElometerError | None:
    """The first error of a group in words for the user; None where one of them is no disk's doing."""
    errors = list(_leaves(group))
    if not all(isinstance(error, ElometerError | OSError | sqlite3.Error) for error in errors):
        return None
    known = next((error for error in errors if isinstance(error, ElometerError)), None)
    return known or PartialRun(
        _("The start cannot write its files any more."),
        evidence=f"{type(errors[0]).__name__}: {errors[0]}",
        fix=_("Make space (or restore the disk), then start again: it goes on where it stopped."),
    )


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error
