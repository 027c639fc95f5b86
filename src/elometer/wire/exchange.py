"""One HTTP try: send, read, take apart. Never raises for what the network or the server did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from elometer.core.errors import ElometerError
from elometer.wire.failures import Failure, classify
from elometer.wire.protocols.reply import BadBody, Parsed, StreamReader
from elometer.wire.sse import Event, EventSplitter
from elometer.wire.transport import raw_pieces

if TYPE_CHECKING:
    import httpx

LARGEST_BODY = 32 * 1024 * 1024
LARGEST_ERROR_BODY = 64 * 1024
# After the end marker the connection's own end usually lies in the same packet; waiting for it keeps the
# connection.
DRAIN_S = 0.25

Pieces = AsyncGenerator[bytes, None]

_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to connect (a place in the pool included), between two reads, for the whole attempt.

    Reasoning models are silent for minutes before their first token, hence the long `read_s`.
    """

    connect_s: float = 15.0
    read_s: float = 600.0
    total_s: float = 900.0


@dataclass(slots=True)
class Outcome:
    """What one try came to. Times in seconds from the moment of sending.

    `whole`: the reply came to its good end, whatever happened to the task or the connection afterwards.
    """

    http_status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    parsed: Parsed | None = None
    failure: Failure | None = None
    cancelled: bool = False
    whole: bool = False
    flags: list[str] = field(default_factory=list)
    ttft_s: float | None = None
    latency_s: float = 0.0


class BodyTooLarge(ElometerError):
    """A reply that does not end."""


class Exchange:
    """One try of one call over one client."""

    __slots__ = (
        "_chunk_every_s",
        "_clock",
        "_next_chunk",
        "_on_chunk",
        "_outcome",
        "_protocol",
        "_reader",
        "_started",
    )

    def __init__(
        self,
        protocol: ModuleType,
        clock: Callable[[], float],
        on_chunk: Callable[[int], None] | None,
        chunk_every_s: float = 0.0,
    ) -> None:
        self._protocol = protocol
        self._clock = clock
        self._on_chunk = on_chunk
        self._chunk_every_s = chunk_every_s
        self._next_chunk = 0.0
        self._outcome = Outcome()
        self._reader: StreamReader | None = None
        self._started = 0.0

    async def run(
        self, reply: Awaitable[httpx.Response], total_s: float, wire_errors: tuple[type[BaseException], ...]
    ) -> Outcome:
        """Send (by awaiting `reply`) and read; a cancellation is noted in the outcome, not raised."""
        outcome = self._outcome
        self._started = self._clock()
        try:
            async with asyncio.timeout(total_s):
                response = await reply
                try:
                    outcome.http_status = response.status_code
                    outcome.headers = {
                        name.decode("latin-1").lower(): value.decode("latin-1")
                        for name, value in response.headers.raw
                    }
                    await self._read(response)
                finally:
                    await response.aclose()
        except asyncio.CancelledError:
            outcome.cancelled = True
        except wire_errors as error:
            if not outcome.whole and outcome.failure is None:
                outcome.failure = classify(outcome.http_status, outcome.headers, b"", error)
        if not outcome.whole:
            outcome.latency_s = self._clock() - self._started
        if self._reader is not None and outcome.parsed is None:
            outcome.parsed = self._reader.parsed()
        return outcome

    async def _read(self, response: httpx.Response) -> None:
        pieces = _pieces(response, self._outcome.headers)
        try:
            first = await _first_piece(pieces)
            if response.status_code >= 300 or not self._is_stream(first):
                limit = LARGEST_ERROR_BODY if response.status_code >= 300 else LARGEST_BODY
                self._take_body(await _rest(first, pieces, limit))
            else:
                await self._take_stream(first, pieces)
        finally:
            await pieces.aclose()

    def _is_stream(self, first: bytes) -> bool:
        """Told by the first bytes; the content type decides where they do not."""
        start = first.lstrip()
        if start[:1] in (b"{", b"[", b"<"):
            return False
        if start.startswith(_STREAM_STARTS):
            return True
        return "text/event-stream" in self._outcome.headers.get("content-type", "")

    async def _take_stream(self, first: bytes, pieces: Pieces) -> None:
        outcome = self._outcome
        splitter = EventSplitter()
        reader = self._reader = self._protocol.Stream()
        self._feed(reader, splitter.feed(first))
        if not (reader.ended or reader.error is not None):
            async for piece in pieces:
                self._feed(reader, splitter.feed(piece))
                if reader.ended or reader.error is not None:
                    break
            else:
                self._feed(reader, splitter.end())
        parsed = outcome.parsed = reader.parsed()
        if reader.error is not None:
            outcome.failure = classify(outcome.http_status, outcome.headers, b"", error=reader.error)
        elif parsed.finish_class == "error":
            error = {"message": f"finish reason {parsed.finish_reason}"}
            outcome.failure = classify(outcome.http_status, outcome.headers, b"", error=error)
        elif not parsed.complete:
            outcome.failure = classify(outcome.http_status, outcome.headers, b"", truncated=True)
        else:
            self._end_well()
            await _drain(pieces)

    def _end_well(self) -> None:
        self._outcome.whole = True
        self._outcome.latency_s = self._clock() - self._started

    def _feed(self, reader: StreamReader, events: list[Event]) -> None:
        outcome, on_chunk = self._outcome, self._on_chunk
        for name, data in events:
            if reader.feed(name, data):
                if outcome.ttft_s is None:
                    outcome.ttft_s = self._clock() - self._started
                if on_chunk is not None and (now := self._clock()) >= self._next_chunk:
                    self._next_chunk = now + self._chunk_every_s
                    on_chunk(reader.chunks)
            elif reader.error is not None:
                return

    def _take_body(self, body: bytes) -> None:
        outcome = self._outcome
        status = outcome.http_status or 0
        if status >= 300:
            outcome.failure = classify(status, outcome.headers, body)
            return
        try:
            parsed = self._protocol.parse(body)
        except BadBody:
            outcome.failure = classify(status, outcome.headers, body)
            return
        outcome.parsed = parsed
        if parsed.error is not None:
            outcome.failure = classify(status, outcome.headers, body, error=parsed.error)
        elif parsed.finish_class == "error":
            outcome.failure = classify(
                status, outcome.headers, body, error={"message": str(parsed.finish_reason)}
            )
        else:
            self._end_well()


def _pieces(response: httpx.Response, headers: dict[str, str]) -> Pieces:
    """Raw bytes as they come; decoded only where a server compresses although we ask it not to."""
    found: Any = response.aiter_bytes() if "content-encoding" in headers else raw_pieces(response)
    return found  # type: ignore[no-any-return]


async def _first_piece(pieces: Pieces) -> bytes:
    """The first bytes that say what follows; keep-alive blanks before a body are dropped."""
    async for piece in pieces:
        if piece.strip():
            return piece
    return b""


async def _rest(first: bytes, pieces: Pieces, limit: int) -> bytes:
    """The whole body; of an error body only the start is kept."""
    parts = [first]
    size = len(first)
    async for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > limit:
            if limit == LARGEST_BODY:
                raise BodyTooLarge("the reply does not end")
            break
    return b"".join(parts)


async def _drain(pieces: Pieces) -> None:
    try:
        async with asyncio.timeout(DRAIN_S):
            async for _piece in pieces:
                pass
    except TimeoutError:
        return
