"""The demo gateway: a make-believe provider on loopback that speaks three protocols and knows the truth."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from elometer.core.clock import utc_now
from elometer.core.limits import Boundary
from elometer.gateway.demo.admission import Admission, Clock
from elometer.gateway.demo.counters import Counters
from elometer.gateway.demo.faults import behaviour_of
from elometer.gateway.demo.model import DemoModel, UnnamedSeeds
from elometer.gateway.demo.protocols import FORMATS, Format
from elometer.gateway.demo.protocols.conversation import Conversation, Refusal, bad_request
from elometer.gateway.demo.protocols.messages import message_turns
from elometer.gateway.demo.stream import EventStream
from elometer.gateway.demo.tokenizer import prompt_tokens

LOOPBACK = "127.0.0.1"
LATENCY = (0.04, 0.16)
RATE_429 = 0.01
SEED_HEADER = "x-elometer-seed"
MESSAGES = "/v1/messages"
SIMULATION = "elometer demo gateway: a simulation; no model answers here"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class DemoGateway:
    """The endpoints over admission, model and counters."""

    def __init__(self, admission: Admission, model: DemoModel, counters: Counters) -> None:
        self._admission, self._model, self._counters = admission, model, counters
        self._unnamed = UnnamedSeeds()

    async def converse(self, request: Request, path: str) -> ASGIApp:
        """One of the three protocols, streamed or not."""
        form = FORMATS[path]
        mark = f"req_{secrets.token_hex(10)}"
        try:
            answer = await self._answer(request, path, form, mark)
        except Refusal as refusal:
            self._counters.statuses[refusal.status] += 1
            return _refuse(form, refusal, mark)
        self._counters.statuses[200] += 1
        return answer

    async def _answer(self, request: Request, path: str, form: Format, mark: str) -> ASGIApp:
        account = self._admission.account(request.headers, anthropic=path == MESSAGES)
        raw = await request.body()
        conversation = form.read(_json(raw))
        self._admission.check_model(account, conversation.model)
        named_seed = _named_seed(conversation, request.headers)
        sample_seed = self._unnamed.seed(raw) if named_seed is None else named_seed
        reply = self._model.reply(conversation, sample_seed)
        flight = self._admission.take_off(account, sample_seed)
        if named_seed is None and conversation.temperature != 0:
            self._unnamed.served(raw)

        def settle(completion: int, cut: bool) -> None:
            flight.land()
            self._admission.spend(account, conversation.model, reply.prompt_tokens, completion, cut=cut)

        seconds = self._model.latency(sample_seed)
        if conversation.stream:
            return EventStream(form, reply, seconds=seconds, headers=_marks(mark), settle=settle)
        try:
            if seconds > 0:
                await asyncio.sleep(seconds)
        except BaseException:
            settle(0, True)
            raise
        settle(reply.completion_tokens, False)
        return _json_response(form.whole(reply), headers=_marks(mark))

    async def models(self, request: Request) -> Response:
        """The models that the key may use, and the word that this is a simulation."""
        form = FORMATS["/v1/chat/completions"]
        try:
            account = self._admission.account(request.headers, anthropic=False)
        except Refusal as refusal:
            return _refuse(form, refusal, f"req_{secrets.token_hex(10)}")
        rows = [_model_row(name) for name in self._admission.models(account)]
        return _json_response({"object": "list", "data": rows, "simulation": True, "note": SIMULATION})

    async def count_tokens(self, request: Request) -> Response:
        """Tokens of a prompt on the messages protocol."""
        form = FORMATS[MESSAGES]
        try:
            self._admission.account(request.headers, anthropic=True)
            turns = message_turns(_json(await request.body()))
        except Refusal as refusal:
            return _refuse(form, refusal, f"req_{secrets.token_hex(10)}")
        return _json_response({"input_tokens": prompt_tokens(text for _role, text in turns)})

    async def health(self, _request: Request) -> Response:
        """Whether the gateway is up."""
        return _json_response({"status": "ok", "simulation": True})

    async def counters(self, _request: Request) -> Response:
        """The gateway's own sums."""
        return _json_response(self._counters.snapshot())


def create_app(
    seed: int = 0,
    *,
    keys: Mapping[str, Boundary],
    latency: tuple[float, float] = LATENCY,
    rate_429: float = RATE_429,
    prefix: str = "",
    faults: Collection[str] = (),
    clock: Clock = utc_now,
) -> Starlette:
    """The gateway as an ASGI application.

    `seed` is the experiment's: it decides tasks, answers, latencies and refusals. `keys` are the make-believe
    keys with their boundaries, `latency` the bounds of a call's seconds, `rate_429` the share of attempts
    that are refused for load, `prefix` a path before all others (`/api`), `faults` names of `faults.FAULTS`.
    Raises UsageError on an unknown fault.
    """
    behaviour = behaviour_of(faults)
    counters = Counters()
    admission = Admission(
        seed=seed, keys=keys, rate_429=rate_429, behaviour=behaviour, counters=counters, clock=clock
    )
    model = DemoModel(seed, latency=latency, cached_replies=behaviour.cached_replies)
    prefix = "/" + prefix.strip("/") if prefix.strip("/") else ""
    app = Starlette(
        routes=_routes(DemoGateway(admission, model, counters), prefix),
        exception_handlers={404: _unknown_path, 405: _unknown_path},
    )
    # A real gateway answers a trailing slash with 404; a redirect would hide the fault.
    app.router.redirect_slashes = False
    app.state.prefix = prefix
    app.state.counters = counters
    return app


def _routes(gateway: DemoGateway, prefix: str) -> list[Route]:
    routes = [_protocol_route(gateway, prefix, path) for path in FORMATS]
    routes += [
        Route(f"{prefix}{path}", endpoint, methods=[method])
        for path, endpoint, method in (
            ("/v1/models", gateway.models, "GET"),
            (f"{MESSAGES}/count_tokens", gateway.count_tokens, "POST"),
            ("/health", gateway.health, "GET"),
            ("/demo/counters", gateway.counters, "GET"),
        )
    ]
    return routes


def _protocol_route(gateway: DemoGateway, prefix: str, path: str) -> Route:
    async def endpoint(request: Request) -> ASGIApp:
        return await gateway.converse(request, path)

    return Route(f"{prefix}{path}", endpoint, methods=["POST"])


async def _unknown_path(request: Request, _error: Exception) -> Response:
    """The answer of a real gateway to a path that it does not have, in the shape of the protocol aimed at."""
    path = request.url.path
    refusal = Refusal(
        404,
        f"Invalid URL ({request.method} {path})",
        "invalid_request_error",
        "unknown_url",
        None,
        "not_found_error",
    )
    form = FORMATS[MESSAGES if path.endswith("/messages") else "/v1/chat/completions"]
    return _refuse(form, refusal, f"req_{secrets.token_hex(10)}")


def _json(raw: bytes) -> dict[str, Any]:
    try:
        body = _decode(raw)
    except msgspec.DecodeError as error:
        raise bad_request(f"We could not parse the JSON body of your request: {error}") from None
    if not isinstance(body, dict):
        raise bad_request("The JSON body of your request must be an object.")
    return body


def _named_seed(conversation: Conversation, headers: Mapping[str, str]) -> int | None:
    if conversation.seed is not None:
        return conversation.seed
    named = headers.get(SEED_HEADER)
    try:
        return None if named is None else int(named)
    except ValueError:
        raise bad_request(f"The header {SEED_HEADER} must be a whole number.") from None


def _model_row(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "elometer-demo", "simulation": True}


def _marks(mark: str) -> dict[str, str]:
    return {"x-request-id": mark, "request-id": mark}


def _refuse(form: Format, refusal: Refusal, mark: str) -> Response:
    headers = {**_marks(mark), **dict(refusal.headers)}
    return _json_response(form.error(refusal), status=refusal.status, headers=headers)


def _json_response(body: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_encode(body), status_code=status, headers=headers, media_type="application/json")


def listen(host: str = LOOPBACK, port: int = 0) -> socket.socket:
    """A listening socket; connections queue from now on, before any server runs. Port 0 is a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; without it every answer on a kept connection
    # waits 40 ms for a delayed acknowledgement (measured).
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(2048)
    except OSError:
        bound.close()
        raise
    return bound


def root_url(bound: socket.socket, prefix: str = "") -> str:
    """The root URL of a server on a socket."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}{prefix}" if ":" in host else f"http://{host}:{port}{prefix}"


def uvicorn_server(app: Starlette) -> uvicorn.Server:
    """A server without logs and lifespan that gives streams a second to end."""
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        lifespan="off",
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    return uvicorn.Server(config)


@contextlib.contextmanager
def serve_in_thread(app: Starlette) -> Iterator[str]:
    """Serve an application on a free loopback port in a thread of its own; yields the root URL."""
    server = uvicorn_server(app)
    with contextlib.closing(listen()) as bound:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            yield root_url(bound, app.state.prefix)
        finally:
            server.should_exit = True
            thread.join()


@contextlib.asynccontextmanager
async def serve(app: Starlette) -> AsyncIterator[str]:
    """Serve an application on a free loopback port in this event loop; yields the root URL."""
    server = uvicorn_server(app)
    with contextlib.closing(listen()) as bound:
        # `_serve` and not `serve`: the latter takes over the signals of a process that is not its own.
        task = asyncio.ensure_future(server._serve([bound]))
        try:
            yield root_url(bound, app.state.prefix)
        finally:
            server.should_exit = True
            await task
