"""The demo gateway behind a layer that breaks a share of the calls, each in one of the ways of real gateways.

A broken call never reaches the gateway that answers: what that one counts is what was answered whole. Streams
that are cut come from a second one, so that what they cost is known too.

    python -m tests.e2e.faulty_gateway --seed 7 --share 0.05

The key comes from FAULTY_GATEWAY_KEY. Prints one JSON line with its URL; `GET /faults` tells what was done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elometer.core.limits import Boundary
from elometer.gateway.demo.server import create_app, listen, root_url, uvicorn_server

KEY_VARIABLE = "FAULTY_GATEWAY_KEY"
MODEL = "demo-agent"
LATENCY = (0.004, 0.02)
SOON = {"retry-after": "1", "retry-after-ms": "60"}


@dataclass(frozen=True)
class Fault:
    """A way to fail, and the class that a client should give it.

    `cut`: chunks of the stream that go out. `silent`: never answered.
    """

    name: str
    error_class: str
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    cut: int | None = None
    clean: bool = False
    silent: bool = False


def _json(message: str, kind: str) -> str:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}})


JSON = ("content-type", "application/json")
PAGE = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
FAULTS = (
    Fault("rate", "rate_limit", 429, (JSON, *SOON.items()), _json("Slow down.", "rate_limit_error")),
    Fault("error", "server_error", 500, (JSON,), _json("The server had an error.", "server_error")),
    Fault("unavailable", "overloaded", 503, (JSON, *SOON.items()), _json("Try later.", "server_error")),
    Fault("overloaded", "overloaded", 529, (JSON, *SOON.items()), _json("Overloaded", "overloaded_error")),
    Fault("page", "html_upstream", 502, (("content-type", "text/html"),), PAGE),
    Fault("empty", "bad_body", 200, (JSON,)),
    Fault("ended early", "stream_truncated", cut=3, clean=True),
    Fault("cut", "net_reset", cut=3),
    Fault("silent", "net_timeout_read", silent=True),
)

Handler = Callable[[Scope, Receive, Send], Awaitable[None]]


class FaultyGateway:
    """An ASGI application over two demo gateways: one that answers, one whose streams are cut."""

    def __init__(self, seed: int, key: str, *, share: float, places: int) -> None:
        keys = {key: Boundary(allowed_models=(MODEL,), max_concurrency=places)}
        self.answering = create_app(seed, keys=keys, latency=LATENCY, rate_429=0.0)
        self.cutting = create_app(seed, keys=keys, latency=LATENCY, rate_429=0.0)
        self.done: Counter[str] = Counter()
        self._share = share
        self._chance = random.Random(seed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == "/faults":
            await _send_whole(send, 200, (JSON,), json.dumps(self.done))
        elif scope["path"] == "/cut/counters":
            await self.cutting({**scope, "path": "/demo/counters"}, receive, send)
        elif scope["path"].endswith("/chat/completions") and self._chance.random() < self._share:
            await self._break(self._chance.choice(FAULTS), scope, receive, send)
        else:
            await self.answering(scope, receive, send)

    async def _break(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        self.done[fault.name] += 1
        if fault.silent:
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        if fault.cut is None:
            while (await receive()).get("more_body"):
                pass
            await _send_whole(send, fault.status, fault.headers, fault.body)
            return
        await _cut(self.cutting, fault.cut, fault.clean, scope, receive, send)


async def _cut(app: ASGIApp, chunks: int, clean: bool, scope: Scope, receive: Receive, send: Send) -> None:
    """Let so many pieces of a stream through, then end it: as if it were whole, or in the middle."""
    sent = 0

    async def some(message: Message) -> None:
        nonlocal sent
        if message["type"] == "http.response.body":
            sent += 1
            if sent > chunks:
                raise ConnectionAbortedError
        await send(message)

    try:
        await app(scope, receive, some)
    except ConnectionAbortedError:
        if clean:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        # Otherwise the server finds the reply unfinished and closes the connection.


async def _send_whole(send: Send, status: int, headers: tuple[tuple[str, str], ...], body: str) -> None:
    data = body.encode()
    named = [(name.encode(), value.encode()) for name, value in headers]
    named.append((b"content-length", str(len(data)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": named})
    await send({"type": "http.response.body", "body": data, "more_body": False})


async def _serve(seed: int, share: float, places: int) -> None:
    app = Starlette()
    app.mount("/", FaultyGateway(seed, os.environ[KEY_VARIABLE], share=share, places=places))
    server = uvicorn_server(app)
    bound = listen()
    print(json.dumps({"url": root_url(bound), "pid": os.getpid()}), flush=True)
    parent = os.getppid()
    serving = asyncio.ensure_future(server.serve(sockets=[bound]))
    while os.getppid() == parent and not serving.done():  # noqa: ASYNC110 - another process sets no event
        await asyncio.sleep(0.5)
    server.should_exit = True
    await serving


def main() -> None:
    """Read the arguments and serve until stopped, or until the parent is gone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--share", type=float, required=True)
    parser.add_argument("--places", type=int, default=16)
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.seed, arguments.share, arguments.places))


if __name__ == "__main__":
    main()
