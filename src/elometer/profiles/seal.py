"""Sealed copies: what a file held before a switch may hold keys, and no copy of ours may show them.

A stream cipher from SHAKE-256 (key, nonce → key stream) with a keyed BLAKE2b tag over the result, under the
install secret. It keeps copies from being read or searched apart from this installation; whoever can read the
configuration folder can open them, as they can read the secret store beside it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from elometer.core.errors import VerificationError
from elometer.core.text import gettext as _
from elometer.profiles.secrets import install_secret

_MARK = b"elo1"
_NONCE = 24
_TAG = 32


def _stream(nonce: bytes, length: int) -> bytes:
    return hashlib.shake_256(b"seal\0" + install_secret() + nonce).digest(length)


def _tag(data: bytes) -> bytes:
    return hashlib.blake2b(data, key=b"tag\0" + install_secret(), digest_size=_TAG).digest()


def _mix(data: bytes, stream: bytes) -> bytes:
    mixed = int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")
    return mixed.to_bytes(len(data), "big")


def seal(data: bytes) -> bytes:
    """The bytes, sealed; each time different."""
    nonce = secrets.token_bytes(_NONCE)
    body = _MARK + nonce + _mix(data, _stream(nonce, len(data)))
    return body + _tag(body)


def unseal(sealed: bytes) -> bytes:
    """The bytes that were sealed. Raises VerificationError where they were changed or sealed elsewhere."""
    body, tag = sealed[:-_TAG], sealed[-_TAG:]
    if not body.startswith(_MARK) or not hmac.compare_digest(tag, _tag(body)):
        raise VerificationError(
            _("A sealed copy cannot be opened."),
            evidence=_("It was changed, or sealed under another install secret."),
            fix=_("Restore install.secret in the configuration folder from a backup."),
        )
    nonce, mixed = body[len(_MARK) : len(_MARK) + _NONCE], body[len(_MARK) + _NONCE :]
    return _mix(mixed, _stream(nonce, len(mixed)))


def digest(data: bytes | str | None) -> str:
    """A keyed hash by which a value or a file is recognised without being kept; None means absent."""
    if data is None:
        return "absent"
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return hashlib.blake2b(raw, key=b"digest\0" + install_secret(), digest_size=16).hexdigest()
