"""Redaction by value: a secret is recognised by what it is, not by the name of its variable."""

from __future__ import annotations

import threading
from typing import ClassVar

MASK = "[redacted]"
# Shorter values would mask ordinary words; a key this short is reported by the checks instead.
SHORTEST = 6

_lock = threading.Lock()


class _Known:
    """The registered values, made ready once: every line that is written is searched for them."""

    values: ClassVar[set[str]] = set()
    longest_first: ClassVar[tuple[str, ...]] = ()
    as_bytes: ClassVar[tuple[bytes, ...]] = ()


class Secret:
    """A secret's value that does not show itself: `repr`, `str` and formatting give a mask."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        register(value)

    def reveal(self) -> str:
        """The value itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret is never pickled")


def register(value: str) -> None:
    """Remember a secret so that `redact` masks it, also as it reads without its surrounding spaces."""
    forms = {value, value.strip(), "".join(value.split())}
    # The same texts as they read inside JSON.
    forms |= {form.replace("\\", "\\\\").replace('"', '\\"') for form in forms}
    with _lock:
        _Known.values.update(form for form in forms if len(form) >= SHORTEST)
        _Known.longest_first = tuple(sorted(_Known.values, key=len, reverse=True))
        _Known.as_bytes = tuple(value.encode("utf-8", "surrogatepass") for value in _Known.longest_first)


def holds_secret(data: bytes) -> bool:
    """True where UTF-8 bytes hold a registered secret."""
    for needle in _Known.as_bytes:  # noqa: SIM110  # every line that is written comes through here
        if needle in data:
            return True
    return False


def redact(text: str) -> str:
    """The text with every registered secret masked; longest first, so that no tail remains."""
    for value in _Known.longest_first:
        if value in text:
            text = text.replace(value, MASK)
    return text
