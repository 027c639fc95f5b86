"""The demo gateway as a process: one JSON line when ready, then serve until stopped."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvicorn

from elometer.core.errors import UsageError
from elometer.core.limits import Boundary
from elometer.core.redact import Secret
from elometer.core.text import gettext as _
from elometer.gateway.demo.faults import KEY_VARIABLE, MODEL, fault, planted
from elometer.gateway.demo.server import create_app, listen, root_url, uvicorn_server

PARENT_POLL_SECONDS = 0.5
DEFAULT_BOUNDARY = Boundary(allowed_models=(MODEL,), max_concurrency=8)


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """What a gateway process is started with; latencies in seconds."""

    host: str
    port: int
    seed: int
    latency: tuple[float, float]
    rate_429: float
    prefix: str
    boundary: Boundary = DEFAULT_BOUNDARY
    faults: Collection[str] = ()
    parent: int | None = None


def serve_until_stopped(options: GatewayOptions) -> None:
    """Serve until SIGTERM or SIGINT, or until the parent named in the options is gone.

    Writes one JSON line to stdout when calls are accepted. Raises UsageError where the
    address is not on loopback or cannot be had.
    """
    secret, key_file = _key()
    try:
        asyncio.run(_serve(options, secret, key_file))
    finally:
        if key_file is not None:
            key_file.unlink(missing_ok=True)


async def _serve(options: GatewayOptions, secret: Secret, key_file: Path | None) -> None:
    app = create_app(
        options.seed,
        keys={secret.reveal(): options.boundary},
        latency=options.latency,
        rate_429=options.rate_429,
        prefix=options.prefix,
        faults=options.faults,
    )
    server = uvicorn_server(app)
    with contextlib.closing(_listen(options)) as bound:
        # uvicorn takes these over while it runs, and raises what it caught again once it has stopped:
        # an ending that was asked for is a success.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_arguments: _stop(server))
        watch = None if options.parent is None else asyncio.create_task(_end_with(options.parent, server))
        _announce(options, root_url(bound, app.state.prefix), key_file)
        await server.serve(sockets=[bound])
        if watch is not None:
            watch.cancel()


def _stop(server: uvicorn.Server) -> None:
    server.should_exit = True


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(options: GatewayOptions) -> socket.socket:
    if not _loopback(options.host):
        raise UsageError(
            _("The demo gateway serves this machine alone."),
            evidence=_("{host} is not a loopback address.").format(host=options.host),
            fix=_("Leave --host out, or forward the port: ssh -L 8484:127.0.0.1:8484 HOST."),
        )
    try:
        return listen(options.host, options.port)
    except OSError as error:
        raise UsageError(
            _("The gateway cannot listen on {host}:{port}.").format(host=options.host, port=options.port),
            evidence=_("The system answered: {reason}.").format(reason=error.strerror or error),
            fix=_("Take --port 0 for a free port."),
        ) from None


def _key() -> tuple[Secret, Path | None]:
    """The make-believe key: from the environment, else a new one in a file that only the user can read."""
    given = os.environ.get(KEY_VARIABLE, "").strip()
    if given:
        return Secret(given), None
    secret = Secret(f"elometer-demo-{secrets.token_hex(16)}")
    descriptor, name = tempfile.mkstemp(prefix="elometer-demo-", suffix=".key")
    with os.fdopen(descriptor, "w") as file:
        file.write(secret.reveal() + "\n")
    return secret, Path(name)


def _announce(options: GatewayOptions, url: str, key_file: Path | None) -> None:
    line: dict[str, object] = {
        "url": url,
        "pid": os.getpid(),
        "models": list(options.boundary.allowed_models),
        "simulation": True,
        "key_env": KEY_VARIABLE,
        "seed": options.seed,
    }
    if key_file is not None:
        line["key_file"] = str(key_file)
    if options.faults:
        line["planted"] = [planted(fault(name), url) for name in options.faults]
    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    sys.stdout.flush()


async def _end_with(parent: int, server: uvicorn.Server) -> None:
    """Stop the server once a process has ended."""
    child = os.getppid() == parent
    while _lives(parent, child=child):  # noqa: ASYNC110 - another process sets no event
        await asyncio.sleep(PARENT_POLL_SECONDS)
    _stop(server)


def _lives(parent: int, *, child: bool) -> bool:
    """Whether a process lives; one's own parent by getppid, since a dead one may linger as a zombie."""
    if child:
        return os.getppid() == parent
    try:
        os.kill(parent, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
