"""A tokenizer of the user's own (tokenizer.json): counts of texts where a server gives no usage."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _

INSTALL = "pip install 'elometer[tokenizers]'"


@dataclass(frozen=True, slots=True)
class TokenizerFile:
    """Counts texts. `name`, as ledger lines carry it: the file's name and 8 digits of its SHA-256."""

    name: str
    _count: Callable[[str], int] = field(repr=False)

    def count(self, text: str) -> int:
        """Tokens of a text, without those that a template or the model would add around it.

        Takes milliseconds for a long text: call it from a thread.
        """
        return self._count(text)


def load_tokenizer(path: Path) -> TokenizerFile:
    """Read a tokenizer.json. Raises UsageError where it, or the extra that reads it, is not there."""
    fix = _("Correct it with 'elometer profile edit NAME --tokenizer PATH'.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            _("The profile's tokenizer cannot be read."),
            evidence=f"{path}: {error.strerror or error}",
            fix=fix,
        ) from None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UsageError(
            _("The profile names a tokenizer, and the extra that reads it is not installed."),
            evidence=str(path),
            fix=_("{command}, or take the tokenizer out of the profile.").format(command=INSTALL),
        ) from None
    try:
        loaded = Tokenizer.from_str(data.decode())
        # A file may tell to cut or to fill up every text; a count is of the text as it is.
        loaded.no_truncation()
        loaded.no_padding()
    except Exception as error:  # the library raises bare Exceptions
        raise UsageError(
            _("The profile's tokenizer is no tokenizer.json."),
            evidence=f"{path}: {str(error)[:200]}",
            fix=fix,
        ) from None

    def count(text: str) -> int:
        return len(loaded.encode(text, add_special_tokens=False))

    return TokenizerFile(f"{path.name}@{hashlib.sha256(data).hexdigest()[:8]}", count)
