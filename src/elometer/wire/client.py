"""The one HTTP client of a gateway and the one retry loop of our own calls."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Literal, NamedTuple, Self

import msgspec

from elometer.core.attempt import Answer, Attempt, Call, text_sha
from elometer.core.clock import utc_now
from elometer.core.errors import AccessError, UsageError
from elometer.core.limits import Gate, GateClosed, Permit
from elometer.core.redact import Secret
from elometer.core.text import gettext as _
from elometer.core.urls import endpoint, url_fault, without_userinfo
from elometer.wire.attempts import ReplyMemory, Sent, TokenRatio, build_attempt
from elometer.wire.classes import ERROR_CLASSES
from elometer.wire.exchange import Exchange, Outcome, Timeouts
from elometer.wire.failures import Failure
from elometer.wire.protocols import protocol
from elometer.wire.retry import RetryPolicy, decide
from elometer.wire.server_tokens import ServerTokens
from elometer.wire.tokenizer_file import TokenizerFile
from elometer.wire.transport import Headers, Transport
from elometer.wire.uncounted import Counting

Auth = Literal["bearer", "x-api-key"]
OnAttempt = Callable[[Attempt, str], Awaitable[None]]
BeforeSend = Callable[[Call], Awaitable[None]]
OnSent = Callable[[Call, int], None]
OnChunk = Callable[[Call, int], None]
OnWait = Callable[[Call, float, str], None]

DEFAULT_AUTH: dict[str, Auth] = {"chat": "bearer", "responses": "bearer", "messages": "x-api-key"}
SEED_HEADER = "x-elometer-seed"
UNSENDABLE = ("empty", "space", "quotes", "no_scheme", "no_host", "credentials")  # faults of a root
_encode = msgspec.json.Encoder().encode


class _Hooks(NamedTuple):
    """What the caller of `send` wants to hear, or to do, at each try."""

    on_attempt: OnAttempt
    before_send: BeforeSend | None
    on_sent: OnSent | None
    on_chunk: OnChunk | None


class _Prepared:
    """A call made ready for its tries: everything that does not change from one to the next."""

    __slots__ = ("content", "headers", "prompt_bytes", "prompt_sha", "protocol", "seed_sent", "url")

    def __init__(self, call: Call, url: str, headers: Headers, seed_header: bool) -> None:
        self.protocol = protocol(call.protocol)
        self.url = url
        self.content = _encode(self.protocol.body(call))
        self.headers = headers
        prompt = _encode([call.system, *((message.role, message.content) for message in call.messages)])
        self.prompt_sha = text_sha(prompt)
        self.prompt_bytes = len(prompt)
        in_header = seed_header and call.seed is not None
        if in_header:
            self.headers = [*headers, (SEED_HEADER, str(call.seed))]
        self.seed_sent = in_header or (call.seed is not None and self.protocol.sends_seed)


class GatewayClient:
    """Sends calls to one gateway with one key; an async context manager, entered once.

    `gate_for(model)` gives the gate through which attempts of that model pass. `auth` None: a Bearer header
    over chat and responses, `x-api-key` alone over messages. `seed_header` sends the seed as
    `x-elometer-seed` too, which only the demo gateway reads. `count_missing`: attempts without usage are
    counted by `tokenizer`, else by the server's own endpoints where it has some; else they are estimates.

    Raises AccessError for a key that cannot be sent, UsageError for a root that is no URL.
    """

    def __init__(
        self,
        root_url: str,
        key: Secret | None,
        *,
        gate_for: Callable[[str], Gate],
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008  # frozen
        connections: int = 100,
        timeout: Timeouts = Timeouts(),  # noqa: B008  # frozen
        seed_header: bool = False,
        chunk_every_s: float = 0.0,
        auth: Auth | None = None,
        extra_headers: Mapping[str, str] | None = None,
        count_missing: bool = False,
        tokenizer: TokenizerFile | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        _require_url(root_url)
        _require_key(key)
        self.root_url = root_url.rstrip("/")
        self._key = key
        self._gate_for = gate_for
        self._retry = retry
        self._timeout = timeout
        self._seed_header = seed_header
        self._chunk_every_s = chunk_every_s
        self._auth = auth
        self._extra_headers = dict(extra_headers or {})
        self._clock = clock
        self._sleep = sleep
        self._draw = draw
        self._transport = Transport(self.root_url, connections=connections, timeout=timeout)
        self._ratios: dict[str, TokenRatio] = {}
        self._counting: Counting | None = None
        if count_missing:
            server = ServerTokens(self._transport, self.root_url, self._headers)
            self._counting = Counting(server, tokenizer)
        self._memory = ReplyMemory()
        self._routes: dict[str, tuple[str, Headers]] = {}

    async def __aenter__(self) -> Self:
        await self._transport.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._transport.close()

    async def send(
        self,
        call: Call,
        *,
        on_attempt: OnAttempt,
        before_send: BeforeSend | None = None,
        on_sent: OnSent | None = None,
        on_chunk: OnChunk | None = None,
        on_wait: OnWait | None = None,
        first_attempt: int = 1,
    ) -> Answer:
        """Make a call until it is answered or given up; every HTTP try is one Attempt, given to `on_attempt`.

        `on_attempt(attempt, text)` is awaited after the permit is released, also for a try that a
        cancellation ended, and is not interrupted by one. `before_send(call)` is awaited with the permit in
        hand; what it raises ends the call untried. `on_sent(call, number)` when a try goes out,
        `on_chunk(call, chunks so far)` at chunks of text, at most once in `chunk_every_s`,
        `on_wait(call, seconds, error class)` before a wait. `first_attempt` numbers the first try of a
        resumed call. Raises GateClosed where the gate is shut and nothing was tried.
        """
        hooks = _Hooks(on_attempt, before_send, on_sent, on_chunk)
        ready = self._prepare(call)
        gate = self._gate_for(call.model)
        number, infra_used, began = first_attempt, 0, 0.0
        answer: Answer | None = None
        while True:
            try:
                outcome, answer = await self._attempt(
                    call, ready, gate, number, hooks, retry=answer is not None
                )
            except GateClosed:
                if answer is None:
                    raise
                return answer  # the last try says why the server wants nobody now
            failure = outcome.failure
            if failure is None:
                return answer
            now = self._clock()
            began = began or now - outcome.latency_s
            step = decide(
                self._retry, failure, infra_used=infra_used, elapsed_s=now - began, draw=self._draw()
            )
            if not step.again:
                return answer
            infra_used += failure.wait == "backoff"
            if on_wait is not None:
                on_wait(call, step.wait_s or self._gate_wait(gate, failure), failure.error_class)
            if step.wait_s:
                await self._sleep(step.wait_s)
            number += 1

    async def _attempt(
        self, call: Call, ready: _Prepared, gate: Gate, number: int, hooks: _Hooks, *, retry: bool
    ) -> tuple[Outcome, Answer]:
        """One try: wait for the permit, send, read, give the permit back, report."""
        queued = self._clock()
        report: asyncio.Future[Answer] | None = None
        try:
            async with gate.permit(retry=retry) as permit:
                if hooks.before_send is not None:
                    await hooks.before_send(call)
                queue_s = self._clock() - queued
                sent = Sent(number, utc_now(), queue_s, ready.prompt_bytes, ready.prompt_sha, ready.seed_sent)
                if hooks.on_sent is not None:
                    hooks.on_sent(call, number)
                outcome = await self._try(call, ready, hooks.on_chunk)
                _tell(permit, outcome)
                # Begun before the place goes to the next call: the caller may hear that none must follow.
                report = asyncio.ensure_future(self._report(call, sent, outcome, hooks.on_attempt))
                if outcome.cancelled:
                    raise asyncio.CancelledError
        except asyncio.CancelledError:
            if report is not None:
                await _uninterrupted(report)
            raise
        return outcome, await _uninterrupted(report)

    def _gate_wait(self, gate: Gate, failure: Failure) -> float:
        """Seconds that the gate will hold the call back, as far as it says so."""
        if failure.retry_after_s is not None and failure.wait == "gate":
            return failure.retry_after_s
        until = gate.status().closed_until
        return 0.0 if until is None else max(0.0, until - self._clock())

    def _prepare(self, call: Call) -> _Prepared:
        route = self._routes.get(call.protocol)
        if route is None:
            url = endpoint(self.root_url, protocol(call.protocol).path)
            route = self._routes[call.protocol] = (url, self._headers(call.protocol))
        return _Prepared(call, *route, self._seed_header)

    def _headers(self, name: str) -> Headers:
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            # Raw bytes are split as they come; a compressed stream would also arrive in lumps.
            "accept-encoding": "identity",
            "user-agent": "elometer",
            **protocol(name).headers,
        }
        if self._key is not None:
            if (self._auth or DEFAULT_AUTH[name]) == "bearer":
                headers["authorization"] = f"Bearer {self._key.reveal()}"
            else:
                headers["x-api-key"] = self._key.reveal()
        headers.update({header.lower(): value for header, value in self._extra_headers.items()})
        return list(headers.items())

    async def _try(self, call: Call, ready: _Prepared, on_chunk: OnChunk | None) -> Outcome:
        progress = None if on_chunk is None else partial(on_chunk, call)
        exchange = Exchange(ready.protocol, self._clock, progress, self._chunk_every_s)
        reply = self._transport.send("POST", ready.url, ready.headers, ready.content)
        return await exchange.run(reply, self._timeout.total_s, self._transport.errors)

    async def settle(self, call: Call, attempt: Attempt) -> None:
        """Put what the server still tells of an attempt nobody heard the end of in place of its estimate."""
        if self._counting is not None:
            await self._counting.settle(call, attempt)

    async def _report(self, call: Call, sent: Sent, outcome: Outcome, on_attempt: OnAttempt) -> Answer:
        ratio = self._ratios.setdefault(call.model, TokenRatio())
        attempt, text = build_attempt(call, sent, outcome, ratio, self._memory)
        if self._counting is not None and attempt.usage_source == "estimated":
            await self._counting.recount(call, outcome, attempt)
        await on_attempt(attempt, text)
        return Answer(text=text, attempt=attempt)


def _tell(permit: Permit, outcome: Outcome) -> None:
    """Tell the gate what the server did: refused for load, failed, or worked."""
    failure = outcome.failure
    if failure is None:
        return
    kind = ERROR_CLASSES[failure.error_class].retry
    if kind == "gate":
        wait = failure.retry_after_s
        # 0 means a missing place to the gate; "come back at once" is a moment of time.
        permit.refused(None if wait is None else max(wait, 0.001), why=failure.error_class)
    elif kind == "slot":
        # LiteLLM sends retry-after 60 for a missing slot that came free after 3 s.
        permit.refused(0.0, why=failure.error_class)
    elif kind == "backoff":
        permit.overloaded()


async def _uninterrupted(task: asyncio.Future[Answer]) -> Answer:
    """Await to the end whatever happens to this task; a cancellation is raised afterwards.

    What was paid must reach the ledger even if the start is being stopped.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        # As asyncio.shield, with half of its turns of the loop: this is on the way of every call.
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task.add_done_callback(partial(_wake, done))
        try:
            await done
        except asyncio.CancelledError as error:
            cancelled = error
    answer = task.result()
    if cancelled is not None:
        raise cancelled
    return answer


def _wake(waiter: asyncio.Future[None], _done: object) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _require_url(root_url: str) -> None:
    fault = url_fault(root_url)
    if fault is not None and fault.reason in UNSENDABLE:
        raise UsageError(
            _("{url!r} is no base URL").format(url=without_userinfo(root_url)),
            evidence=fault.reason,
            fix=_("meant was probably {url}").format(url=fault.proposal) if fault.proposal else "",
        )


def _require_key(key: Secret | None) -> None:
    """A key that no header can hold is never sent: the libraries would show it in their error."""
    if key is None:
        return
    value = key.reveal()
    if not value.isascii() or not value.isprintable() or value != value.strip() or not value:
        raise AccessError(
            _("the key cannot be sent: it is empty or holds spaces, line ends or characters outside ASCII"),
            fix=_("set it again without surrounding spaces or quotes"),
        )


__all__ = ["Auth", "GatewayClient", "RetryPolicy", "Timeouts"]
