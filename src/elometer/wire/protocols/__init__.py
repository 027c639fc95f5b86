"""The three protocols, each pure: how a call becomes a request body and a reply becomes text and usage.

A protocol module has `path` (below the versioned root), `headers`, `sends_seed`, `body(call)`, `parse(bytes)`
and `Stream`.
"""

from __future__ import annotations

from types import ModuleType

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.wire.protocols import chat, messages, responses

PROTOCOLS: dict[str, ModuleType] = {module.NAME: module for module in (chat, responses, messages)}


def protocol(name: str) -> ModuleType:
    """The module of a protocol. Raises UsageError for an unknown name."""
    try:
        return PROTOCOLS[name]
    except KeyError:
        raise UsageError(
            _("{name!r} is no protocol").format(name=name),
            fix=_("use one of: {names}").format(names=", ".join(PROTOCOLS)),
        ) from None
