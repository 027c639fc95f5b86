"""How the address of an operation follows from a gateway's root.

A profile stores the root. It may already end in a version segment (`/v1`, `/v4`), as OpenAI clients want it;
then the version is not added again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

DEFAULT_VERSION = "/v1"
_VERSION_END = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?$", re.IGNORECASE)
_DOUBLE_VERSION = re.compile(r"(/v\d+)(?:/v\d+)+(?=/|$)", re.IGNORECASE)
_OPERATION_END = re.compile(
    r"/(?:chat/completions|completions|responses|messages(?:/count_tokens)?|models|embeddings)$",
    re.IGNORECASE,
)

# Clients of the Anthropic SDK add /v1 themselves; those of the OpenAI SDK do not.
TOOLS_THAT_TAKE_THE_ROOT = ("claude-code",)


@dataclass(frozen=True, slots=True)
class UrlFault:
    """Why a root cannot be used as it stands, and the one that is meant."""

    reason: str
    proposal: str


def has_version(root: str) -> bool:
    """True where the root's path ends in a version segment."""
    return bool(_VERSION_END.search(urlsplit(root).path.rstrip("/")))


def versioned(root: str) -> str:
    """The root with its version segment, without a slash at the end: the base of all operations."""
    base = root.rstrip("/")
    return base if has_version(base) else base + DEFAULT_VERSION


def endpoint(root: str, path: str) -> str:
    """The address of an operation: `endpoint("https://g/api", "chat/completions")` →
    `https://g/api/v1/chat/completions`.
    """
    return f"{versioned(root)}/{path.lstrip('/')}"


def effective_url(root: str, tool: str) -> str:
    """The base URL that a client is given: Claude Code takes the root, others the versioned root."""
    return root.rstrip("/") if tool in TOOLS_THAT_TAKE_THE_ROOT else versioned(root)


def without_userinfo(url: str) -> str:
    """A URL as it may be shown: a user name or password in it is left out."""
    scheme, mark, rest = url.partition("://")
    place = rest.split("/", 1)[0]
    return f"{scheme}{mark}{rest.rpartition('@')[2] if '@' in place else rest}"


def url_fault(root: str) -> UrlFault | None:
    """The first fault of a root, with a repaired proposal; None where it can be used."""
    try:
        repaired, faults = _repair(root), _faults(root)
    except ValueError:  # a bracket that no IPv6 address closes
        return UrlFault("no_host", "")
    for reason, found in faults:
        if found:
            return UrlFault(reason, repaired)
    return None


def _faults(root: str) -> tuple[tuple[str, bool], ...]:
    text = root.strip()
    parts = urlsplit(text)
    path = parts.path
    return (
        ("empty", not text),
        ("space", any(character.isspace() for character in root)),
        ("quotes", bool(text) and (text[0] in "\"'`" or text[-1] in "\"'`")),
        ("no_scheme", parts.scheme not in ("http", "https")),
        ("no_host", not parts.hostname),
        # No client sends them beside a key, and they would stand in every file that names the gateway.
        ("credentials", bool(parts.username or parts.password)),
        ("query", bool(parts.query or parts.fragment)),
        ("double_slash", "//" in path),
        ("double_version", bool(_DOUBLE_VERSION.search(path))),
        ("operation", bool(_OPERATION_END.search(path.rstrip("/")))),
    )


def _repair(root: str) -> str:
    text = "".join(root.split()).strip("\"'`")
    if not text:
        return ""
    if "://" not in text:
        text = ("http://" if text.startswith(("localhost", "127.", "[::1]")) else "https://") + text
    parts = urlsplit(text)
    path = re.sub(r"/{2,}", "/", parts.path).rstrip("/")
    path = _OPERATION_END.sub("", path)
    path = _DOUBLE_VERSION.sub(r"\1", path)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))
