"""A streamed answer, paced like a model's, that ends when the client leaves."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping

from starlette.types import Receive, Scope, Send

from elometer.gateway.demo.protocols import Format
from elometer.gateway.demo.protocols.conversation import Reply

# Real servers send a chunk every 10 to 30 ms; finer ones would cost the machine more than they show.
CHUNK_SECONDS = 0.012
FEWEST_CHUNKS = 4
# The share of a call's time before its first token.
PREFILL_SHARE = 0.3

Settle = Callable[[int, bool], None]


class EventStream:
    """An ASGI response. `settle(completion_tokens, cut)` is called once, before the last byte goes out."""

    def __init__(
        self, form: Format, reply: Reply, *, seconds: float, headers: Mapping[str, str], settle: Settle
    ) -> None:
        self._form, self._reply, self._seconds = form, reply, seconds
        self._headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
        ]
        self._headers += [(name.encode(), value.encode()) for name, value in headers.items()]
        self._settle = settle
        self._made = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Speak until the end or until the client is gone; either way what was made is booked."""
        gone = asyncio.ensure_future(_disconnected(receive))
        complete = False
        try:
            complete = await self._speak(send, gone)
        finally:
            gone.cancel()
            if not complete:
                self._settle(self._made, True)

    async def _speak(self, send: Send, gone: asyncio.Future[None]) -> bool:
        tokens = self._reply.pieces
        chunks = min(len(tokens), max(FEWEST_CHUNKS, math.ceil(self._seconds / CHUNK_SECONDS)))
        if await _wait(gone, self._seconds * PREFILL_SHARE):
            return False
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await send(_body(self._form.opening(self._reply)))
        pause = self._seconds * (1 - PREFILL_SHARE) / max(chunks, 1)
        for position in range(chunks):
            if await _wait(gone, pause):
                return False
            end = len(tokens) * (position + 1) // chunks
            text = "".join(tokens[self._made : end])
            self._made = end
            await send(_body(self._form.delta(self._reply, text, position)))
        if gone.done():
            return False
        self._settle(self._made, False)
        await send(_body(self._form.closing(self._reply, chunks), more=False))
        return True


def _body(data: bytes, *, more: bool = True) -> dict[str, object]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _wait(gone: asyncio.Future[None], seconds: float) -> bool:
    """Let time pass; True at once when the client is gone."""
    if seconds > 0:
        await asyncio.wait((gone,), timeout=seconds)
    return gone.done()
