"""The error classes: whether and how each is retried, and what to tell the user.

One row a class. `never`: the same request would fail again. `backoff`: infrastructure, a few tries with
growing, jittered waits. `gate`: the server refused for load; the gate of (key, model) holds everyone back.
`slot`: too many at once; retried when one of our own calls ends.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Retry = Literal["never", "backoff", "gate", "slot"]
Billed = Literal["yes", "no", "unknown"]


def _mark(message: str) -> str:
    """Marks a string of a table for translation; it is translated where it is shown."""
    return message


class ErrorClass(NamedTuple):
    """What follows from a class; `hint` is translated by whoever shows it."""

    retry: Retry
    billed: Billed
    hint: str


ERROR_CLASSES: dict[str, ErrorClass] = {
    "key_format": ErrorClass(
        "never", "no", _mark("the key has a form that cannot be right: see where it comes from")
    ),
    "url_format": ErrorClass("never", "no", _mark("the base URL has a form that cannot be right")),
    "net_dns": ErrorClass(
        "backoff", "no", _mark("the host's name is not known: check the base URL and the network")
    ),
    "net_refused": ErrorClass(
        "backoff", "no", _mark("nothing listens there: is the gateway running on that port?")
    ),
    "net_tls_verify": ErrorClass(
        "never", "no", _mark("the certificate is not trusted: check host name, date and CA")
    ),
    "net_tls_protocol": ErrorClass("never", "no", _mark("no TLS is spoken on that port: http or https?")),
    "net_proxy": ErrorClass("backoff", "no", _mark("the proxy failed: check HTTPS_PROXY")),
    "net_timeout_connect": ErrorClass(
        "backoff", "no", _mark("no connection in time: check network and proxy")
    ),
    "net_timeout_read": ErrorClass(
        "backoff", "unknown", _mark("no answer in time; the server may still bill it")
    ),
    "net_reset": ErrorClass("backoff", "unknown", _mark("the connection was cut")),
    "html_wrong_path": ErrorClass(
        "never", "no", _mark("a web page answered: the base URL lacks or doubles /v1")
    ),
    "html_edge_block": ErrorClass("never", "no", _mark("an edge filter blocks this machine")),
    "html_upstream": ErrorClass("backoff", "unknown", _mark("a proxy in front of the gateway failed")),
    "request_too_large": ErrorClass("never", "no", _mark("the request is too large for the server")),
    "request_over_tpm": ErrorClass(
        "never", "no", _mark("one request exceeds the tokens a minute: lower max_tokens")
    ),
    "quota": ErrorClass(
        "never", "no", _mark("credit or budget is used up: top it up, or wait for its reset")
    ),
    "model_not_allowed": ErrorClass("never", "no", _mark("the key may not use this model: list its models")),
    "model_unknown": ErrorClass(
        "never", "no", _mark("the gateway does not know this model: list its models")
    ),
    "wrong_path": ErrorClass("never", "no", _mark("no such path: check the base URL and the protocol")),
    "key_expired": ErrorClass("never", "no", _mark("the key has expired: ask for a new one")),
    "key_disabled": ErrorClass("never", "no", _mark("the key is disabled or blocked")),
    "ip_not_allowed": ErrorClass("never", "no", _mark("the key may not be used from this address")),
    "account_blocked": ErrorClass("never", "no", _mark("the account is blocked")),
    "region_blocked": ErrorClass("never", "no", _mark("the service is not offered in this region")),
    "key_scope": ErrorClass("never", "no", _mark("the key lacks a permission for this operation")),
    "bad_key": ErrorClass(
        "never", "no", _mark("the key was refused; some gateways say so of expired and exhausted keys too")
    ),
    "upstream_key": ErrorClass(
        "never", "no", _mark("the gateway's own upstream key fails: tell its operator")
    ),
    "context_too_long": ErrorClass("never", "no", _mark("prompt and answer do not fit the model's context")),
    "content_filtered": ErrorClass("never", "unknown", _mark("a content filter refused the request")),
    "concurrency_limit": ErrorClass("slot", "no", _mark("too many calls at once for this key")),
    "overloaded": ErrorClass("gate", "unknown", _mark("the server is overloaded")),
    "tpm_limit": ErrorClass(
        "gate", "no", _mark("tokens a minute are used up; max_tokens may count in advance")
    ),
    "rpm_limit": ErrorClass("gate", "no", _mark("requests a minute are used up")),
    "rate_limit": ErrorClass("gate", "no", _mark("a rate limit is reached")),
    "timeout_upstream": ErrorClass("backoff", "unknown", _mark("the model behind the gateway took too long")),
    "server_error": ErrorClass("backoff", "unknown", _mark("the server failed")),
    "bad_request": ErrorClass("never", "no", _mark("the server refused a parameter of the request")),
    "bad_body": ErrorClass("backoff", "unknown", _mark("the reply is no answer of this protocol")),
    "stream_error": ErrorClass("backoff", "unknown", _mark("the server reported an error inside its stream")),
    "stream_truncated": ErrorClass("backoff", "unknown", _mark("the stream ended without its end marker")),
    "unknown": ErrorClass("never", "unknown", _mark("an unknown failure")),
}

RETRYABLE: dict[str, Retry] = {name: row.retry for name, row in ERROR_CLASSES.items() if row.retry != "never"}

# Classes for which key, account or boundary must change, not the request.
ACCESS_CLASSES = frozenset(
    (
        "key_format",
        "quota",
        "model_not_allowed",
        "key_expired",
        "key_disabled",
        "ip_not_allowed",
        "account_blocked",
        "region_blocked",
        "key_scope",
        "bad_key",
    )
)
