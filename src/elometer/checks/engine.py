"""Checks as rows: a question, what asking costs, and how the answer is found; and the engine that asks them.

A check never raises and never hangs the caller: one that breaks or takes too long answers `unknown`. Every
line that leaves the engine has passed redaction by value.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from elometer.core.errors import UsageError
from elometer.core.redact import redact
from elometer.core.text import gettext as _

if TYPE_CHECKING:
    from elometer.checks.context import Context

Status = Literal["pass", "warn", "fail", "unknown"]
Family = Literal["key", "url", "environment", "auth", "models", "limits", "reconcile", "files", "terminal"]
FAMILIES: tuple[Family, ...] = (
    "key",
    "url",
    "environment",
    "auth",
    "models",
    "limits",
    "reconcile",
    "files",
    "terminal",
)
STATIC_TIME_LIMIT_S = 10.0
LIVE_TIME_LIMIT_S = 60.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Result:
    """An answer: how it stands, the lines that show it, and for `warn` and `fail` the cause and what to do.

    `tokens` is what a live check spent. Raises ValueError for a warning without cause or fix.
    """

    status: Status
    evidence: tuple[str, ...] = ()
    cause: str = ""
    fix: str = ""
    tokens: int = 0

    def __post_init__(self) -> None:
        if self.status in ("warn", "fail") and not (self.cause and self.fix):
            raise ValueError(f"a {self.status} needs a cause and a fix: {self.evidence}")

    def redacted(self) -> Result:
        """The same without any registered secret."""
        return replace(
            self,
            evidence=tuple(redact(line) for line in self.evidence),
            cause=redact(self.cause),
            fix=redact(self.fix),
        )


Run = Callable[["Context"], Result | Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class Check:
    """One question. `cost_tokens` is the most that asking it alone may spend; 0 for those that send nothing.

    `after` names checks whose failure makes this question meaningless.
    """

    id: str
    family: Family
    question: str
    cost_tokens: int
    run: Run = field(repr=False)
    after: tuple[str, ...] = ()

    @property
    def live(self) -> bool:
        """True where asking sends something to a gateway; such checks are coroutines."""
        return inspect.iscoroutinefunction(self.run)


@dataclass(frozen=True, slots=True)
class Row:
    """A check and its answer, as tables and JSON show it."""

    check: Check
    result: Result

    @property
    def status(self) -> Status:
        """The answer's status."""
        return self.result.status

    def as_json(self) -> dict[str, Any]:
        """The fields that scripts rely on."""
        return {
            "id": self.check.id,
            "family": self.check.family,
            "status": self.result.status,
            "question": _(self.check.question),
            "evidence": list(self.result.evidence),
            "cause": self.result.cause,
            "fix": self.result.fix,
            "tokens": self.result.tokens,
        }


def passed(*evidence: str) -> Result:
    """Nothing stands in the way."""
    return Result("pass", evidence)


def unknown(*evidence: str) -> Result:
    """The question cannot be answered here, or there is nothing to ask it of."""
    return Result("unknown", evidence)


def ordered(checks: Iterable[Check]) -> list[Check]:
    """Each check behind those it comes after, otherwise in the order given.

    An `after` that is not among them is ignored, so that one check can be asked again alone. Raises
    ValueError for two checks of one id and for a circle.
    """
    given = list(checks)
    waiting = {check.id: check for check in given}
    if len(waiting) != len(given):
        raise ValueError("two checks have the same id")
    result: list[Check] = []
    while waiting:
        ready = [check for check in waiting.values() if not any(name in waiting for name in check.after)]
        if not ready:
            raise ValueError(f"these checks wait for one another: {sorted(waiting)}")
        # One at a time keeps the given order as far as the dependencies allow.
        first = ready[0]
        result.append(waiting.pop(first.id))
    return result


def ask_all(
    checks: Iterable[Check],
    context: Context,
    *,
    cancelled: threading.Event | None = None,
    known: Mapping[str, Status] | None = None,
    time_limit_s: float | None = None,
) -> Iterator[Row]:
    """The rows, one as soon as it is answered. After `cancelled` is set, no further one comes.

    `known` are answers of an earlier round, for checks that are asked again without those they depend on.
    """
    # Check → the failed one that stands before it, itself included.
    blocked = {name: name for name, status in (known or {}).items() if status == "fail"}
    for check in ordered(checks):
        if cancelled is not None and cancelled.is_set():
            return
        blocker = next((blocked.get(name) for name in check.after if name in blocked), None)
        if blocker is not None:
            blocked[check.id] = blocker  # what comes after this one has no ground either
            result: Result | None = unknown(_("not asked: {check} failed").format(check=blocker))
        else:
            result = _ask(check, context, cancelled, time_limit_s)
        if result is None:
            return
        if result.status == "fail":
            blocked[check.id] = check.id
        yield Row(check, result.redacted())


def _ask(
    check: Check, context: Context, cancelled: threading.Event | None, time_limit_s: float | None
) -> Result | None:
    """The answer of one check, asked in a thread of its own; None where the user cancelled.

    The thread is a daemon: a file on a dead network mount must not keep the program alive.
    """
    limit = time_limit_s or (LIVE_TIME_LIMIT_S if check.live else STATIC_TIME_LIMIT_S)
    asking = _Asking(check, context)
    worker = threading.Thread(target=asking.run, name=check.id, daemon=True)
    worker.start()
    end = time.monotonic() + limit
    while worker.is_alive() and time.monotonic() < end:
        if cancelled is not None and cancelled.is_set():
            asking.cancel()
            return None
        worker.join(_POLL_S)
    if asking.result is None:
        asking.cancel()
        return unknown(_("no answer within {seconds:g} s").format(seconds=limit))
    return asking.result


class _Asking:
    """One check at work in its thread; requests that are under way end when it is cancelled."""

    def __init__(self, check: Check, context: Context) -> None:
        self._check = check
        self._context = context
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self.result: Result | None = None

    def run(self) -> None:
        """Find the answer; what breaks is an answer too."""
        try:
            answer = self._check.run(self._context)
            self.result = asyncio.run(self._awaited(answer)) if inspect.isawaitable(answer) else answer
        except asyncio.CancelledError:
            return
        except UsageError as error:  # a file that cannot be read leaves the question open
            self.result = unknown(error.message)
        except Exception as error:  # a check that breaks must not take the others with it
            self.result = unknown(
                _("the check itself broke: {name}: {message}").format(
                    name=type(error).__name__, message=error
                )
            )

    async def _awaited(self, answer: Awaitable[Result]) -> Result:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        return await answer

    def cancel(self) -> None:
        """End a request that is under way; a static check ends by itself."""
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._task.cancel)
