"""Redaction by value: a secret is recognised by what it is, not by the name of its variable."""

from __future__ import annotations

import threading

MASK = "[redacted]"
# Shorter values would mask ordinary words; a key this short is reported by the checks instead.
SHORTEST = 6

_lock = threading.Lock()
_values: set[str] = set()


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
        _values.update(form for form in forms if len(form) >= SHORTEST)


def redact(text: str) -> str:
    """The text with every registered secret masked; longest first, so that no tail remains."""
    with _lock:
        values = sorted(_values, key=len, reverse=True)
    for value in values:
        if value in text:
            text = text.replace(value, MASK)
    return text
