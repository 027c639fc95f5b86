"""What a failed reply shows, unwrapped from the many shapes in which servers put it."""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from elometer.wire.protocols.reply import NOT_JSON

KEPT_BYTES = 64 * 1024
_REQUEST_ID = re.compile(r"\s*\(request id: [^)]*\)", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_BYTES_LITERAL = re.compile(r"b'(\{.*\})'|b\"(\{.*\})\"", re.DOTALL)
_NOTHING = ("", "none", "null")


@dataclass(frozen=True, slots=True)
class Signs:
    """The parts of a failed reply by which it is classified.

    `status` is the effective one (an in-band error's own status where the reply came under 2xx), `codes`
    every code, type and reason that the body names, in lower case, the most telling first; `message` the
    error's own words without echoed wrappers.
    """

    status: int | None
    headers: Mapping[str, str]
    codes: tuple[str, ...] = ()
    message: str = ""
    param: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    quota_ids: tuple[str, ...] = ()
    is_html: bool = False
    title: str = ""
    is_empty: bool = False
    body: str = ""
    http_status: int | None = None
    is_json: bool = False


def read_signs(status: int | None, headers: Mapping[str, str], body: bytes, error: Any = None) -> Signs:
    """The signs of a reply. `error` is an error object already found in a stream or a 2xx body."""
    lower = {str(name).lower(): str(value) for name, value in headers.items()}
    text = body[:KEPT_BYTES].decode("utf-8", "replace")
    stripped = text.lstrip("\ufeff \t\r\n")
    if (
        error is None
        and (stripped.startswith("<") or "text/html" in lower.get("content-type", ""))
        and stripped
    ):
        title = _TITLE.search(stripped)
        words = html.unescape(title[1]).strip() if title else ""
        return Signs(
            status,
            lower,
            is_html=True,
            title=words,
            message=words,
            body=text,
            http_status=status,
            is_json=False,
        )
    document = error if error is not None else _decode(stripped)
    if document is None:
        return Signs(
            status, lower, message=stripped[:2000], is_empty=not stripped, body=text, http_status=status
        )
    return _from_document(status, lower, document, text)


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (*NOT_JSON, UnicodeEncodeError):
        return None


def _from_document(status: int | None, headers: dict[str, str], document: Any, text: str) -> Signs:
    layers = [layer for layer in _layers(document) if isinstance(layer, Mapping)]
    message = _REQUEST_ID.sub(
        "", next((words for layer in _layers(document) if (words := _words(layer))), "")
    )
    codes = tuple(dict.fromkeys(code for layer in layers for code in _codes(layer)))
    metadata: Mapping[str, Any] = next(
        (layer["metadata"] for layer in layers if isinstance(layer.get("metadata"), Mapping)), {}
    )
    raw = metadata.get("raw")
    if isinstance(raw, str) and raw:
        # OpenRouter: the provider's own body, as text.
        inner = _decode(raw)
        if isinstance(inner, Mapping):
            inside = _from_document(status, headers, inner, raw)
            codes, message = (*codes, *inside.codes), f"{message} {inside.message}"
        else:
            message = f"{message} {raw[:500]}"
    effective = status
    if status is None or status < 400:
        effective = next((int(code) for code in codes if code.isdigit() and 400 <= int(code) <= 599), None)
    return Signs(
        status=effective,
        headers=headers,
        codes=codes,
        message=message.strip(),
        param=next((str(layer["param"]) for layer in layers if layer.get("param") is not None), ""),
        metadata=metadata,
        quota_ids=tuple(_quota_ids(layers)),
        body=text,
        http_status=status,
        is_json=True,
    )


def _layers(document: Any) -> Iterator[Any]:
    """The error object first, then what it is wrapped in; a message that is JSON itself counts as a layer."""
    if isinstance(document, list):
        document = document[0] if document else {}
    if not isinstance(document, Mapping):
        yield document
        return
    for name in ("error", "detail", "errors", "response"):
        inner = document.get(name)
        if isinstance(inner, list) and inner:
            inner = inner[0]
        if isinstance(inner, Mapping):
            nested = _nested(inner.get("message"))
            if nested is not None:
                yield from _layers(nested)
            yield from _layers(inner) if "error" in inner else (inner,)
        elif isinstance(inner, str) and inner:
            yield inner
    nested = _nested(document.get("message"))
    if nested is not None:
        yield from _layers(nested)
    yield document


def _nested(message: Any) -> Any:
    """One level of JSON (or a Python bytes or dict literal, as LiteLLM writes) inside a message."""
    if not isinstance(message, str) or "{" not in message:
        return None
    if message.lstrip().startswith("{"):
        found = _decode(message.strip())
        if isinstance(found, Mapping):
            return found
        try:
            literal = ast.literal_eval(message.strip()) if len(message) < 4000 else None
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
        return literal if isinstance(literal, Mapping) else None
    wrapped = _BYTES_LITERAL.search(message)
    return _decode(wrapped[1] or wrapped[2]) if wrapped else None


def _words(layer: Any) -> str:
    if isinstance(layer, str):
        return layer
    if not isinstance(layer, Mapping):
        return ""
    for name in ("message", "msg", "error_msg", "detail", "error", "html-message"):
        value = layer.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def _codes(layer: Mapping[str, Any]) -> Iterator[str]:
    values = [layer.get("code"), layer.get("type"), layer.get("status"), layer.get("error_code")]
    details = layer.get("details")
    for detail in details if isinstance(details, list) else [details]:
        if isinstance(detail, Mapping):
            values += [detail.get("reason"), detail.get("error_code")]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int):
            continue
        code = str(value).strip().lower()
        if code not in _NOTHING:
            yield code


def _quota_ids(layers: list[Mapping[str, Any]]) -> Iterator[str]:
    """Google names the exhausted quota in `details[].violations[].quotaId`."""
    for layer in layers:
        details = layer.get("details")
        for detail in details if isinstance(details, list) else []:
            violations = detail.get("violations") if isinstance(detail, Mapping) else None
            for violation in violations if isinstance(violations, list) else []:
                if isinstance(violation, Mapping) and isinstance(violation.get("quotaId"), str):
                    yield violation["quotaId"]
