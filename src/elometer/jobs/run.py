"""A start: from a prepared experiment to its artefacts, in this process or in one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from elometer.boundary.account import KeyAccount
from elometer.boundary.book import AccountBook
from elometer.core.clock import stamp
from elometer.core.errors import AccessError, BudgetStop, ElometerError, Interrupted, PartialRun
from elometer.core.redact import Secret
from elometer.core.text import gettext as _
from elometer.jobs.account import binding_boundary
from elometer.jobs.clearance import Clearance, clear_start
from elometer.jobs.demo import as_planted, demo_gateway
from elometer.jobs.key import account_file, experiment_key, spent_today
from elometer.jobs.places import ledgers
from elometer.jobs.prepare import Prepared
from elometer.jobs.result import Result, conclude
from elometer.profiles.secrets import fingerprint
from elometer.runs import events as ev
from elometer.runs.books import Books
from elometer.runs.calls import StartFacts, all_calls
from elometer.runs.gates import Gates
from elometer.runs.recovery import book_the_dead
from elometer.runs.resume import read_past
from elometer.runs.runner import Runner
from elometer.runs.spec import Experiment
from elometer.wire.classes import ACCESS_CLASSES

if TYPE_CHECKING:
    from elometer.wire.client import GatewayClient
    from elometer.wire.tokenizer_file import TokenizerFile

# Without a cap in the boundary: the founding text advises 4 or 8, never 32.
DEFAULT_CONCURRENCY = 4
SPARE_CONNECTIONS = 4
MOST_CONNECTIONS = 1024  # of a key without a bound, whose cap may be raised while the start runs
# What a view needs of a running stream; four times a second is as often as one looks.
PROGRESS_EVERY_S = 0.25
# Objects between two looks for cycles; Python's 700 are three calls', and cost a twentieth of their CPU.
GARBAGE_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a user may set for one start.

    `max_in_flight` fixes the cap instead of adapting it. `attended`: a view or `elometer control` can answer
    it, so that a stranger pauses it instead of ending it. `force`: begin although a check fails.
    """

    max_in_flight: int | None = None
    attended: bool = False
    force: bool = False
    listeners: tuple[ev.Listener, ...] = ()


@dataclass(slots=True)
class _Signals:
    """How often the user asked to leave."""

    count: int = 0
    name: str = ""
    last: float = field(default=0.0)


def is_finished(prepared: Prepared) -> bool:
    """True where an earlier start brought every block to an end."""
    from elometer.runs.journal import latest_outcomes
    from elometer.runs.opening import SETTLED

    outcomes = latest_outcomes(prepared.folder.outcomes)
    return all(
        (found := outcomes.get((task.id, run, strategy.name))) is not None and found.outcome in SETTLED
        for task in prepared.tasks
        for run in range(1, prepared.experiment.sampling.runs + 1)
        for strategy in prepared.experiment.agent.strategies
    )


def run_here(prepared: Prepared, options: RunOptions) -> Result:
    """Carry an experiment out in this process and return its result; the artefacts are then on disk.

    Raises AccessError (3) before anything is sent where a check fails; after writing what there is:
    AccessError (3), BudgetStop (4), PartialRun (5), Interrupted (130).
    """
    clearance = clear_start(prepared, force=options.force)
    prepared = replace(prepared, experiment=as_planted(prepared.experiment))
    with _gateway(prepared, options) as (url, key, key_fp):
        ended, failure = asyncio.run(_start(prepared, options, url, key, key_fp, clearance))
    result = conclude(prepared, ended)
    error = _error_of(ended, failure, prepared.folder.path)
    if error is not None:
        raise error
    return result


@contextlib.contextmanager
def _gateway(prepared: Prepared, options: RunOptions) -> Iterator[tuple[str, Secret, str]]:
    experiment = prepared.experiment
    if _is_demo(experiment):
        with demo_gateway(experiment) as gateway:
            yield gateway.base_url, gateway.sent_key, fingerprint(gateway.sent_key)
        return
    key, key_fp = experiment_key(experiment, expired_too=options.force)
    yield experiment.gateway.base_url, key, key_fp


async def _start(
    prepared: Prepared,
    options: RunOptions,
    url: str,
    key: Secret,
    key_fp: str,
    clearance: Clearance,
) -> tuple[ev.StartEnded, str]:
    experiment, folder = prepared.experiment, prepared.folder
    boundary = binding_boundary(experiment)
    limit = min(
        options.max_in_flight or boundary.max_concurrency or DEFAULT_CONCURRENCY,
        boundary.max_concurrency or sys.maxsize,
    )
    with Books(folder) as books, contextlib.closing(AccountBook(account_file())) as book:
        books.listeners.extend(options.listeners)
        past = read_past(folder)
        gates = Gates(limit, fixed=options.max_in_flight is not None)
        account = KeyAccount(
            book,
            key_fp,
            budget=boundary.daily_budget_tokens,
            permits=boundary.max_concurrency,
            zone=experiment.gateway.timezone,
            owner=str(folder.path),
        )
        account.wants = limit
        run_id = past.new_run_id(f"{experiment.experiment_id}-{stamp()}")
        facts = _facts(experiment, run_id, url, key_fp, clearance)
        connections = (boundary.max_concurrency or max(limit, MOST_CONNECTIONS)) + SPARE_CONNECTIONS
        client = _client(experiment, url, key, gates, connections, clearance.tokenizer)
        async with contextlib.AsyncExitStack() as held:
            await held.enter_async_context(client)
            calls = all_calls(experiment, prepared.tasks, facts)
            if await book_the_dead(past, calls, books, client.settle):
                past = read_past(folder)
            spent = spent_today(ledgers(None), key_fp, experiment.gateway.timezone)
            await held.enter_async_context(_leased(account, spent))
            runner = Runner(
                experiment,
                prepared.tasks,
                folder,
                books,
                client,
                gates,
                account,
                past,
                facts,
                attended=options.attended,
                expires_at=None if _is_demo(experiment) or options.force else boundary.expires_at,
            )
            # What was imported stays, and calls leave few cycles: the collector need not walk so often.
            gc.freeze()
            gc.set_threshold(GARBAGE_AT_ONCE, *gc.get_threshold()[1:])
            ended = await _until_signalled(runner)
            return ended, runner.ending_class


def _is_demo(experiment: Experiment) -> bool:
    return experiment.agent.kind == "demo"


def _facts(experiment: Experiment, run_id: str, url: str, key_fp: str, clearance: Clearance) -> StartFacts:
    return StartFacts(
        run_id=run_id,
        origin="demo" if _is_demo(experiment) else "live",
        pid=os.getpid(),
        host=os.uname().nodename,
        gateway=url,
        key_label=experiment.gateway.key_label or "",
        key_fp=key_fp,
        profile=experiment.agent.profile,
        forced=clearance.overruled,
        warned=clearance.warnings,
    )


def _client(
    experiment: Experiment,
    url: str,
    key: Secret,
    gates: Gates,
    connections: int,
    tokenizer: TokenizerFile | None,
) -> GatewayClient:
    from elometer.wire.client import GatewayClient, RetryPolicy, Timeouts

    seconds = experiment.agent.limits.seconds
    return GatewayClient(
        url,
        key,
        gate_for=gates,
        retry=RetryPolicy(infra=experiment.retry.infra, backoff=experiment.retry.backoff),
        connections=connections,
        timeout=Timeouts() if seconds is None else Timeouts(total_s=seconds),
        seed_header=_is_demo(experiment),
        chunk_every_s=PROGRESS_EVERY_S,
        count_missing=True,
        tokenizer=tokenizer,
    )


@contextlib.asynccontextmanager
async def _leased(account: KeyAccount, spent: int) -> AsyncIterator[None]:
    """The account's lease for as long as the start runs."""
    await account.open(spent_by_ledgers=spent)
    try:
        yield
    except ElometerError:
        # A full disk takes no last entry either: the lease ends with its process, and the ledger has the sum.
        with contextlib.suppress(sqlite3.Error):
            await account.close()
        raise
    except BaseException:
        await account.close()
        raise
    await account.close()


async def _until_signalled(runner: Runner) -> ev.StartEnded:
    """Run; a first signal drains, a second within the drain leaves at once."""
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(runner.run())
    signals = _Signals()

    def on_signal(name: str) -> None:
        signals.count += 1
        if signals.count == 1:
            runner.stop("stopped", name)
        else:
            work.cancel()

    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in handled:
        loop.add_signal_handler(number, on_signal, number.name)
    try:
        return await work
    except asyncio.CancelledError:
        if signals.count < 2:
            raise
        return ev.StartEnded(at="", status="stopped", reason="SIGINT")
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _error_of(ended: ev.StartEnded, failure: str, folder: Path) -> ElometerError | None:
    """The error that says why a start ended before its blocks did; None where it did not."""
    go_on = _("'elometer run {path}' goes on where it stopped; what was paid is in the ledger.").format(
        path=folder
    )
    match ended.status, ended.reason:
        case "complete", _reason:
            return None
        case "partial", "stop_rule":
            # What a rule of experiment.yaml ends was asked for: the manifest tells it from a complete start.
            return None
        case "partial", "expired":
            return AccessError(
                _("Stopped: the key's boundary has expired."),
                evidence=ended.message,
                fix=_("Make a new key with a new boundary; what was paid is in the ledger."),
            )
        case "partial", "budget":
            return BudgetStop(
                _("Stopped: the daily token budget of this key is used up."),
                evidence=ended.message or _("The next block would not fit."),
                fix=go_on,
            )
        case "failed", "gateway":
            kind = AccessError if failure in ACCESS_CLASSES else PartialRun
            return kind(
                _("The gateway refused the calls: {name}.").format(name=failure),
                evidence=ended.message,
                fix=go_on,
            )
        case "partial", "incomplete":
            return PartialRun(_("Some calls got no answer."), evidence=ended.message, fix=go_on)
        case "partial", "stranger":
            return PartialRun(
                _("Stopped: a model that was not asked for answered."),
                evidence=ended.message,
                fix=_(
                    "If that name is right, add it to taotoken.served_as; then 'elometer run {path}'."
                ).format(path=folder),
            )
        case "partial", "closed":
            return PartialRun(_("The gateway asks to stay away."), evidence=ended.message, fix=go_on)
        case "partial", "failing":
            many = _("The gateway fails too often: {name}.").format(name=failure)
            return PartialRun(many, evidence=ended.message, fix=go_on)
        case "partial", "unreachable":
            return PartialRun(_("The gateway cannot be reached."), evidence=ended.message, fix=go_on)
        case "stopped", "control":
            return PartialRun(_("Stopped on request."), fix=go_on)
        case "stopped", reason:
            return Interrupted(_("Interrupted ({reason}).").format(reason=reason), fix=go_on)
    return PartialRun(_("The start ended early."), evidence=ended.message, fix=go_on)


def spawn(prepared: Prepared, options: RunOptions) -> int:
    """Begin a start as a process of its own, in a session of its own; returns its process id.

    What it prints goes to start.log in the experiment's folder. Raises AccessError where a check fails: the
    user learns it here and not from a log.
    """
    clear_start(prepared, force=options.force)
    command = [sys.executable, "-m", "elometer", "run", str(prepared.folder.path), "--plain", "--attended"]
    if options.max_in_flight is not None:
        command += ["--max-in-flight", str(options.max_in_flight)]
    if options.force:
        command.append("--force")
    descriptor = os.open(prepared.folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            close_fds=True,
        )
    finally:
        os.close(descriptor)
    return process.pid
