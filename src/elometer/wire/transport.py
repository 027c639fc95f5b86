"""The connections of one gateway: httpx's replies and errors on aiohttp's session, HTTP/1.1, one for the life
of a start.

httpx's own pool collapses from 64 calls in flight and would falsify latencies; HTTP/2 stops working after
enough cancelled calls. Of httpx-aiohttp the reply's stream and the map of errors are used; its transport
wants an httpx.Request, whose making costs a tenth of a call's CPU and which is taken apart again at once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache, partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _

if TYPE_CHECKING:
    import aiohttp
    import httpx
    from aiohttp.client_proto import ResponseHandler

    from elometer.wire.exchange import Timeouts

Headers = list[tuple[str, str]]

KEEPALIVE_S = 60.0

# llama.cpp's server closes after every stream without saying so: 15 % of requests met a connection that was
# closed under them. Such a request was never read; it goes out again on the next connection, as curl does, if
# the connection had been used before, nothing came back, and it failed within this time (seconds).
STALE_S = 1.0
_STALE_CAUSES = ("ServerDisconnectedError", "ClientConnectionResetError", "ClientOSError")
_REUSED: ContextVar[list[bool]] = ContextVar("reused")


@cache
def shared_tls() -> ssl.SSLContext:
    """One context for all gateways: loading the certificates costs 60 ms."""
    import httpx

    return httpx.create_ssl_context(trust_env=True)


def proxy_for(root_url: str) -> httpx.Proxy | None:
    """The proxy that the environment names for this root; never one for this machine itself.

    One without a scheme is an HTTP proxy, as curl takes it. Raises UsageError for one that is no HTTP proxy.
    """
    import httpx

    parts = urlsplit(root_url)
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if not named:
        return None
    scheme, found, place = named.rpartition("://")
    try:
        if scheme.lower() in ("http", "https", ""):
            return httpx.Proxy(named if found else f"http://{named}")
    except (ValueError, httpx.InvalidURL):
        pass  # its words may hold the password
    raise UsageError(
        _("The environment names a proxy that is no HTTP proxy."),
        evidence=_("{proxy}, for {url}").format(
            proxy=scheme + found + place.rpartition("@")[2], url=root_url
        ),
        fix=_("Name an HTTP proxy in HTTPS_PROXY, or the gateway's host in NO_PROXY."),
    )


def is_loopback(host: str) -> bool:
    """True for localhost and the addresses of this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@cache
def _response_handler() -> type[ResponseHandler]:
    """aiohttp's handler of a connection, with one fault mended and one cost taken away (3.14.5).

    Where a chunk's size is garbage, aiohttp with its C parser closes the connection, drops the read timeout
    and tells nobody: the reader would wait until the whole attempt times out. And it makes a new timer for
    every packet, a twentieth of the CPU of a streamed call; here one timer looks when data came last.
    """
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.http_exceptions import HttpProcessingError

    from elometer.wire.protocols.reply import BadBody

    class TellingHandler(ResponseHandler):
        _used = False

        def set_response_params(self, **parameters: Any) -> None:
            """Called for each request, in the context of whoever sends it."""
            _REUSED.get([False])[0] = self._used
            self._used = True
            super().set_response_params(**parameters)

        def set_exception(self, exc: Any, *cause: Any) -> None:
            reply = self._payload
            super().set_exception(exc, *cause)
            if isinstance(exc, HttpProcessingError) and reply is not None and not reply.is_eof():
                reply.set_exception(BadBody(" ".join(exc.message.split())))

        def _reschedule_timeout(self) -> None:
            timeout = self._read_timeout
            if not timeout:
                self._drop_timeout()
                return
            self._silent_until = self._loop.time() + timeout
            timer = self._read_timeout_handle
            if timer is None:
                self._read_timeout_handle = self._loop.call_at(self._silent_until, self._look_for_silence)
            elif timer.when() > self._silent_until:
                timer.cancel()
                self._read_timeout_handle = self._loop.call_at(self._silent_until, self._look_for_silence)

        def _look_for_silence(self) -> None:
            self._read_timeout_handle = None
            if self._loop.time() < self._silent_until:
                self._read_timeout_handle = self._loop.call_at(self._silent_until, self._look_for_silence)
            else:
                self._on_read_timeout()

    return TellingHandler


async def raw_pieces(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The raw bytes of a reply as they come, as much at once as lies there."""
    from httpx_aiohttp.transport import AiohttpResponseStream, map_aiohttp_exceptions

    stream = response.stream
    if not isinstance(stream, AiohttpResponseStream):
        async for piece in response.aiter_raw():
            yield piece
        return
    # The iterator of the library goes through two more layers for each piece.
    read = stream._aiohttp_response.content.readany
    with map_aiohttp_exceptions():
        while piece := await read():
            yield piece


def _is_stale(error: BaseException) -> bool:
    return type(error.__cause__ or error).__name__ in _STALE_CAUSES


class Transport:
    """Opens, holds and closes the connections."""

    def __init__(self, root_url: str, *, connections: int, timeout: Timeouts) -> None:
        self._root_url = root_url
        self._connections = connections
        self._timeout = timeout
        self._open_session: aiohttp.ClientSession | None = None
        self._send: Callable[..., Any]
        self._mapped: Callable[[], AbstractContextManager[None]]
        self.errors: tuple[type[BaseException], ...] = ()
        self._stale_errors: tuple[type[BaseException], ...] = ()

    async def open(self) -> None:
        """Create the session; connections are made when they are needed.

        Raises UsageError where the environment names a proxy that cannot be used.
        """
        import aiohttp
        import httpx
        from httpx_aiohttp.transport import map_aiohttp_exceptions

        from elometer.wire.exchange import BodyTooLarge
        from elometer.wire.protocols.reply import BadBody
        from elometer.wire.sse import EventTooLarge

        if self._open_session is not None:
            raise RuntimeError("the gateway client is already open")
        through = proxy_for(self._root_url)
        self._mapped = map_aiohttp_exceptions
        self._open_session = session = self._session(aiohttp)
        self._send = partial(
            session.request,
            allow_redirects=False,
            auto_decompress=False,
            compress=False,
            proxy=str(through.url) if through else None,
            proxy_auth=aiohttp.BasicAuth(*through.auth) if through and through.auth else None,
            proxy_headers=through.headers if through else None,
            timeout=aiohttp.ClientTimeout(
                connect=self._timeout.connect_s,
                sock_connect=self._timeout.connect_s,
                sock_read=self._timeout.read_s,
            ),
        )
        self._stale_errors = (httpx.TransportError, aiohttp.ClientConnectionError)
        self.errors = (
            httpx.HTTPError,
            httpx.InvalidURL,
            httpx.StreamError,
            aiohttp.ClientError,
            OSError,
            TimeoutError,
            UnicodeEncodeError,
            BadBody,
            BodyTooLarge,
            EventTooLarge,
        )

    def _session(self, library: Any) -> aiohttp.ClientSession:
        """aiohttp's session with our limit, without cookies: a gateway's cookie must not tie calls
        together.
        """
        connector = library.TCPConnector(
            limit=self._connections,
            limit_per_host=0,
            keepalive_timeout=KEEPALIVE_S,
            ssl=shared_tls() if self._root_url.startswith("https:") else True,
            ttl_dns_cache=300,
        )
        connector._factory = partial(_response_handler(), loop=asyncio.get_running_loop())
        session: aiohttp.ClientSession = library.ClientSession(
            connector=connector,
            cookie_jar=library.DummyCookieJar(),
            trust_env=False,
            timeout=library.ClientTimeout(total=None),
        )
        return session

    async def close(self) -> None:
        """Close every connection."""
        session, self._open_session = self._open_session, None
        if session is not None:
            await session.close()

    async def send(self, method: str, url: str, headers: Headers, content: bytes) -> httpx.Response:
        """Send a request with these headers, host and length; the reply's body is not read yet.

        Where they name no accept, accept-encoding or user-agent, aiohttp adds its own. The caller closes the
        reply. Raises one of `errors`.
        """
        if self._open_session is None:
            raise RuntimeError("the gateway client is used outside its context")
        loop = asyncio.get_running_loop()
        # A list of this request's own: a task inherits that of the task which began it.
        _REUSED.set(reused := [False])
        while True:
            reused[0] = False
            sent = loop.time()
            try:
                with self._mapped():
                    return _reply(await self._send(method, url, headers=headers, data=content or None))
            except self._stale_errors as error:
                if not reused[0] or loop.time() - sent > STALE_S or not _is_stale(error):
                    raise


def _reply(found: aiohttp.ClientResponse) -> httpx.Response:
    import httpx
    from httpx_aiohttp.transport import AiohttpResponseStream

    return httpx.Response(found.status, headers=list(found.raw_headers), stream=AiohttpResponseStream(found))
