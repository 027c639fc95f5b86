"""A few minimal requests that tell how a gateway is reached: path, header, protocol, served name, usage.

Cheapest first. Another path is tried only after an answer that speaks of a path, so that at most one answer
is paid for over each protocol and header.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

import msgspec

from elometer.core.attempt import Attempt, Call, Message, text_sha
from elometer.core.clock import utc_now
from elometer.core.redact import Secret, redact
from elometer.core.urls import has_version, url_fault, versioned
from elometer.wire.attempts import ReplyMemory, Sent, TokenRatio, build_attempt
from elometer.wire.classes import ACCESS_CLASSES
from elometer.wire.exchange import Exchange, Outcome, Timeouts
from elometer.wire.failures import Failure, classify
from elometer.wire.protocols import protocol
from elometer.wire.transport import Headers, Transport

Header = Literal["bearer", "x-api-key"]
ProtocolName = Literal["chat", "responses", "messages"]
Kind = Literal["models", "chat", "responses", "messages"]
PROTOCOLS: tuple[ProtocolName, ...] = ("chat", "messages", "responses")
# Gateways that relay to the Responses API refuse less than 16.
ANSWER_TOKENS = 16
PROMPT = "Reply with the word ok."
# What one paid answer may come to, prompt and template of the server included.
TOKENS_A_PROTOCOL = 60
TIMEOUTS = Timeouts(connect_s=5.0, read_s=30.0, total_s=40.0)

PATH_CLASSES = frozenset({"wrong_path", "html_wrong_path", "bad_body"})
UNSENDABLE = ("empty", "space", "quotes", "no_scheme", "no_host", "credentials", "query")
KEY_CLASSES = frozenset({"bad_key", "key_scope", "key_format"})
# What a key is refused for whatever is asked with it.
KEY_REFUSALS = (KEY_CLASSES | ACCESS_CLASSES) - {"model_not_allowed"}
# Models are free to list, and clients send messages with either header, depending on their variable.
BOTH_HEADERS = ("models", "messages")
_FIRST_HEADER: dict[str, Header] = {"chat": "bearer", "responses": "bearer", "messages": "x-api-key"}
_LIMIT_HEADERS = ("ratelimit", "rate-limit", "rate_limit", "retry-after", "reset_at", "x-litellm-key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A gateway, a key and a model. `model` None takes the only one that the gateway lists."""

    root: str
    key: Secret | None
    model: str | None = None
    protocols: tuple[ProtocolName, ...] = PROTOCOLS
    experiment_id: str = "probe"
    key_fp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One request and what came of it; `failure` is None where it was answered as it should be."""

    kind: Kind
    base: str
    url: str
    header: Header | None
    http_status: int | None
    failure: Failure | None
    attempt: Attempt | None = None
    models: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True where the gateway answered in the protocol."""
        return self.failure is None

    @property
    def path(self) -> str:
        """The path that was asked."""
        return urlsplit(self.url).path


@dataclass(slots=True)
class Report:
    """All tries, in order."""

    target: Target
    tries: list[Try] = field(default_factory=list)
    model: str | None = None
    complete: bool = False

    def of(self, kind: str) -> list[Try]:
        """The tries of one kind."""
        return [one for one in self.tries if one.kind == kind]

    def working(self, kind: str) -> Try | None:
        """The try of a kind that was answered."""
        return next((one for one in self.of(kind) if one.ok), None)

    @property
    def listed(self) -> tuple[str, ...]:
        """Models that the gateway lists for this key."""
        found = self.working("models")
        return found.models if found is not None else ()

    @property
    def attempts(self) -> list[Attempt]:
        """What the ledger gets: every request for an answer."""
        return [one.attempt for one in self.tries if one.attempt is not None]

    @property
    def settled(self) -> bool:
        """True where list and first protocol were refused for one reason of the key: more tells no more."""
        refused = {(one.kind, one.failure.error_class) for one in self.tries if one.failure is not None}
        common = [{name for kind, name in refused if kind == wanted} for wanted in ("models", PROTOCOLS[0])]
        return bool(common[0] & common[1] & KEY_REFUSALS) and not any(one.ok for one in self.tries)

    @property
    def tokens(self) -> int:
        """Tokens that the tries used, as far as the gateway says."""
        return sum(attempt.total_tokens or 0 for attempt in self.attempts)


def bases(root: str) -> list[str]:
    """The base that follows from the root as it is written, then others that may have been meant.

    `https://g/api` → `https://g/api/v1`, `https://g/api`, `https://g/v1`, `https://g/api/anthropic/v1`.
    """
    fault = url_fault(root)
    meant = fault.proposal if fault is not None and fault.proposal else root.strip()
    parts = urlsplit(meant.rstrip("/"))
    bare = parts.path.rpartition("/")[0] if has_version(meant) else parts.path
    paths = [parts.path, f"{bare}/v1", "/v1", "/api/v1", f"{bare}/anthropic/v1"]
    others = [urlunsplit((parts.scheme, parts.netloc, path, "", "")) for path in paths]
    # A root without scheme or host cannot be asked as it stands.
    written = [] if fault is not None and fault.reason in UNSENDABLE else [versioned(root.strip())]
    return list(dict.fromkeys([*written, versioned(meant), *others]))


async def probe(report: Report) -> None:
    """Ask the report's target and fill it in; never raises for what network or gateway do."""
    target = report.target
    transport = Transport(target.root, connections=2, timeout=TIMEOUTS)
    await transport.open()
    try:
        prober = _Prober(target, transport, report)
        await prober.models()
        report.model = target.model or (report.listed[0] if len(report.listed) == 1 else None)
        if report.model is not None and not prober.unreachable:
            for name in target.protocols:
                if report.settled:
                    break
                await prober.answer(name)
            await prober.repeat()
        report.complete = True
    finally:
        await transport.close()


async def ramp(report: Report, levels: Iterable[int]) -> list[Level]:
    """Ask the protocol that answered with more and more calls at once, until one is refused.

    One key and one connection pool; what it costs is in the report's attempts. [] where nothing answered.
    """
    good = next((one for name in PROTOCOLS if (one := report.working(name)) is not None), None)
    if good is None:
        return []
    found: list[Level] = []
    wanted = sorted(levels)
    transport = Transport(report.target.root, connections=wanted[-1], timeout=TIMEOUTS)
    await transport.open()
    try:
        prober = _Prober(report.target, transport, report)
        for level in wanted:
            tries = await asyncio.gather(
                *(prober.ask(good.kind, good.base, good.header or "bearer") for _ in range(level))
            )
            found.append(Level(level, next((one for one in tries if not one.ok), None)))
            if found[-1].refused is not None:
                break
    finally:
        await transport.close()
    return found


@dataclass(frozen=True, slots=True)
class Level:
    """So many calls at once, and the first that was not answered."""

    calls: int
    refused: Try | None


class _Prober:
    """The state of one probe: what was found to work is tried first for the next protocol."""

    def __init__(self, target: Target, transport: Transport, report: Report) -> None:
        self._target = target
        self._transport = transport
        self._report = report
        self._good_base: str | None = None
        self._good_header: Header | None = None
        self._memory = ReplyMemory()
        self._asked = 0
        self.unreachable = False

    def _bases(self) -> list[str]:
        found = bases(self._target.root)
        if self._good_base is not None:
            found = [self._good_base, *(base for base in found if base != self._good_base)]
        return found

    def _headers(self, kind: str) -> tuple[Header, Header]:
        first = _FIRST_HEADER.get(kind, self._good_header or "bearer")
        return (first, "x-api-key" if first == "bearer" else "bearer")

    async def models(self) -> None:
        """Ask for the list of models: free, and it tells path from key."""
        await self._search("models")

    async def answer(self, name: ProtocolName) -> None:
        """Ask for a short answer over one protocol."""
        await self._search(name)

    async def repeat(self) -> None:
        """Ask the first protocol that answered once more: a cache shows itself by an equal reply."""
        good = next((one for name in PROTOCOLS if (one := self._report.working(name)) is not None), None)
        if good is not None:
            await self.ask(good.kind, good.base, good.header or "bearer")

    async def _search(self, kind: Kind) -> None:
        for base in self._bases():
            first, *others = self._headers(kind)
            one = await self.ask(kind, base, first)
            if one.failure is not None and one.failure.error_class in PATH_CLASSES:
                continue
            if one.failure is not None and one.http_status is None:
                self.unreachable = True
            refused = one.failure is not None and one.failure.error_class in KEY_CLASSES
            # Where both headers are in use, each is asked by itself, whatever the other one gave.
            if self._target.key is not None and (refused or (one.ok and kind in BOTH_HEADERS)):
                for header in others:
                    await self.ask(kind, base, header)
            return

    async def ask(self, kind: Kind, base: str, header: Header) -> Try:
        """One request; its try goes into the report."""
        one = await (self._models(base, header) if kind == "models" else self._post(kind, base, header))
        self._report.tries.append(one)
        if one.ok and self._good_base is None:
            self._good_base, self._good_header = base, header
        return one

    async def _models(self, base: str, header: Header) -> Try:
        url = f"{base}/models"
        outcome, body = await self._get(
            url, self._wire_headers("messages" if header == "x-api-key" else "chat", header)
        )
        names = _names(body) if outcome.http_status == 200 else None
        failure = outcome.failure
        if names is None and failure is None:
            failure = classify(outcome.http_status, outcome.headers, body)
        return Try(
            kind="models",
            base=base,
            url=url,
            header=header if self._target.key else None,
            http_status=outcome.http_status,
            failure=failure,
            models=names or (),
            limits=_limits(outcome),
        )

    async def _get(self, url: str, headers: Headers) -> tuple[Outcome, bytes]:
        outcome = Outcome()
        try:
            async with asyncio.timeout(TIMEOUTS.total_s):
                response = await self._transport.send("GET", url, headers, b"")
                try:
                    outcome.http_status = response.status_code
                    outcome.headers = {name.lower(): value for name, value in response.headers.items()}
                    return outcome, await response.aread()
                finally:
                    await response.aclose()
        except self._transport.errors as error:
            outcome.failure = classify(None, {}, b"", error)
            return outcome, b""

    async def _post(self, kind: ProtocolName, base: str, header: Header) -> Try:
        module = protocol(kind)
        url = f"{base}/{module.path}"
        call = self._call(kind)
        content = msgspec.json.encode(module.body(call))
        sent = Sent(1, utc_now(), 0.0, len(content), text_sha(content), False)
        reply = self._transport.send("POST", url, self._wire_headers(kind, header), content)
        exchange = Exchange(module, time.monotonic, None)
        outcome = await exchange.run(reply, TIMEOUTS.total_s, self._transport.errors)
        attempt, _answer = build_attempt(call, sent, outcome, TokenRatio(), self._memory)
        return Try(
            kind=call.protocol,
            base=base,
            url=url,
            header=header if self._target.key else None,
            http_status=outcome.http_status,
            failure=outcome.failure,
            attempt=attempt,
            limits=_limits(outcome),
        )

    def _call(self, kind: ProtocolName) -> Call:
        model = self._report.model
        assert model is not None
        self._asked += 1
        return Call(
            call_id=f"probe-{utc_now().strftime('%Y%m%dT%H%M%S%f')}-{self._asked}",
            experiment_id=self._target.experiment_id,
            run_id="probe",
            strategy=None,
            task="probe",
            run=1,
            phase="probe",
            model=model,
            messages=(Message("user", PROMPT),),
            protocol=kind,
            params={"max_tokens": ANSWER_TOKENS},
            stream=False,
            key_fp=self._target.key_fp,
        )

    def _wire_headers(self, kind: str, header: Header) -> Headers:
        headers = {
            "content-type": "application/json",
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "elometer",
            **protocol(kind).headers,
        }
        if self._target.key is not None:
            value = self._target.key.reveal()
            headers["authorization" if header == "bearer" else "x-api-key"] = (
                f"Bearer {value}" if header == "bearer" else value
            )
        return list(headers.items())


def _names(body: bytes) -> tuple[str, ...] | None:
    """The ids of a model list; None where the body is none."""
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    rows = document.get("data", document.get("models")) if isinstance(document, dict) else document
    if not isinstance(rows, list):
        return None
    found = (row.get("id") or row.get("name") for row in rows if isinstance(row, dict))
    return tuple(name for name in found if isinstance(name, str))


def _limits(outcome: Outcome) -> tuple[str, ...]:
    """The headers in which the gateway states limits, in its own words."""
    return tuple(_limit_lines(outcome.headers.items()))


def _limit_lines(headers: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, value in headers:
        if any(word in name for word in _LIMIT_HEADERS):
            yield redact(f"{name}: {value[:80]}")
