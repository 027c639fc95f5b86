"""What went wrong with an attempt, and whether and how to try again: `classify`."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from elometer.core.redact import redact
from elometer.core.text import gettext as _
from elometer.wire.classes import ERROR_CLASSES, RETRYABLE, Billed, Retry
from elometer.wire.rules import RULES
from elometer.wire.signs import Signs, read_signs
from elometer.wire.waiting import retry_after

__all__ = ["RETRYABLE", "Failure", "classify"]

MESSAGE_CHARACTERS = 300

# By class names along the exception's ancestry, so that no HTTP library is imported here. httpx-aiohttp 0.2.0
# shows resets and refusals as httpx.ConnectTimeout; the chain holds what really happened, so the innermost
# name wins.
EXCEPTION_CLASSES: tuple[tuple[str, str], ...] = (
    ("SSLCertVerificationError", "net_tls_verify"),
    ("ClientConnectorCertificateError", "net_tls_verify"),
    ("SSLError", "net_tls_protocol"),
    ("ClientSSLError", "net_tls_protocol"),
    ("ClientProxyConnectionError", "net_proxy"),
    ("ClientHttpProxyError", "net_proxy"),
    ("gaierror", "net_dns"),
    ("ClientConnectorDNSError", "net_dns"),
    ("ConnectionRefusedError", "net_refused"),
    ("ConnectionTimeoutError", "net_timeout_connect"),
    ("SocketTimeoutError", "net_timeout_read"),
    ("ServerDisconnectedError", "net_reset"),
    ("ClientPayloadError", "net_reset"),
    ("ConnectionResetError", "net_reset"),
    ("ConnectionAbortedError", "net_reset"),
    ("BrokenPipeError", "net_reset"),
    ("ClientConnectionResetError", "net_reset"),
    ("InvalidURL", "url_format"),
    ("UnsupportedProtocol", "url_format"),
    ("LocalProtocolError", "key_format"),
    ("UnicodeEncodeError", "key_format"),
    ("BadHttpMessage", "bad_body"),
    ("ClientResponseError", "bad_body"),
    ("EventTooLarge", "bad_body"),
    ("BadBody", "bad_body"),
    ("ClientConnectorError", "net_refused"),
    ("ClientOSError", "net_reset"),
    ("TimeoutError", "net_timeout_read"),
    ("ReadTimeout", "net_timeout_read"),
    ("ReadError", "net_reset"),
    ("ConnectTimeout", "net_timeout_connect"),
    ("PoolTimeout", "net_timeout_connect"),
    ("WriteError", "net_reset"),
    ("ConnectError", "net_refused"),
    ("RemoteProtocolError", "net_reset"),
    ("OSError", "net_reset"),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt.

    `wait`: who waits before the next try (see wire.classes). `retry_after_s`: the server's own word, in
    seconds from the moment of the reply. `evidence`: what decided the class. `message`: the server's words,
    redacted and cut.
    """

    error_class: str
    code: str | None
    message: str
    retry: bool
    wait: Literal["none", "backoff", "gate", "slot"]
    retry_after_s: float | None
    evidence: str
    hint: str
    billed: Billed


def classify(
    status: int | None,
    headers: Mapping[str, str],
    body: bytes,
    exception: BaseException | None = None,
    *,
    error: Any = None,
    truncated: bool = False,
    now: datetime | None = None,
) -> Failure:
    """The class of a failed attempt.

    `exception` where no (whole) reply came; `error` the error object that a stream or a 2xx body held;
    `truncated` where a stream ended without its end marker; `now` the moment from which dates count.
    """
    at = now or datetime.now(UTC)
    if truncated:
        return _failure("stream_truncated", None, _("the stream ended early"), None, "end of stream", {})
    if exception is not None:
        return _from_exception(exception)
    signs = read_signs(status, headers, body, error)
    error_class, evidence = _decide(signs, in_band=error is not None)
    wait = retry_after(signs.headers, signs.message, signs.body, signs.metadata, at)
    code = next((code for code in signs.codes if not code.isdigit()), signs.codes[0] if signs.codes else None)
    return _failure(error_class, code, signs.message, wait, evidence, signs.headers)


def _decide(signs: Signs, *, in_band: bool) -> tuple[str, str]:
    if "bad_response_status_code" in signs.codes and signs.param.isdigit():
        # one-api: `param` is what the upstream answered.
        return "server_error", f"upstream status {signs.param}"
    for rule in RULES:
        if evidence := rule.decide(signs):
            return rule.error_class, evidence
    if in_band:
        return "stream_error", "error object in the reply"
    if signs.http_status is not None and 200 <= signs.http_status < 300:
        return "bad_body", "empty body" if signs.is_empty else "body"
    return "unknown", f"status {signs.http_status}"


def _failure(
    error_class: str,
    code: str | None,
    message: str,
    wait: float | None,
    evidence: str,
    headers: Mapping[str, str],
    *,
    retry: Retry | None = None,
) -> Failure:
    row = ERROR_CLASSES[error_class]
    kind = retry or row.retry
    if headers.get("x-should-retry", "").lower() == "false":
        kind = "never"
    return Failure(
        error_class=error_class,
        code=redact(code)[:80] if code else None,
        message=_cut(redact(" ".join(message.split()))),
        retry=kind != "never",
        wait="none" if kind == "never" else kind,
        retry_after_s=wait,
        evidence=redact(evidence),
        hint=_(row.hint),
        billed=row.billed,
    )


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARACTERS else text[: MESSAGE_CHARACTERS - 1] + "…"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and everything behind it, the innermost cause first."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        for name in ("os_error", "_os_error"):
            inner = getattr(current, name, None)
            if isinstance(inner, BaseException):
                found.append(inner)
        current = current.__cause__ or current.__context__
    return reversed(found)


def _from_exception(error: BaseException) -> Failure:
    chain = list(_chain(error))
    ancestry = [{kind.__name__ for kind in type(link).__mro__} for link in chain]
    for name, error_class in EXCEPTION_CLASSES:
        for link, names in zip(chain, ancestry, strict=True):
            if name in names:
                return _exception_failure(error_class, link)
    return _failure("unknown", None, f"{type(error).__name__}: {error}", None, type(error).__name__, {})


def _exception_failure(error_class: str, link: BaseException) -> Failure:
    retry: Retry | None = None
    if isinstance(link, socket.gaierror) and link.errno in (
        socket.EAI_NONAME,
        getattr(socket, "EAI_NODATA", None),
    ):
        retry = "never"  # the name does not exist; a resolver that is only away says EAI_AGAIN
    # An illegal header's text holds the key's value: such a message is never shown.
    words = (
        _("the key cannot be sent in a header")
        if error_class == "key_format"
        else f"{type(link).__name__}: {link}"
    )
    return _failure(error_class, type(link).__name__, words, None, type(link).__name__, {}, retry=retry)
