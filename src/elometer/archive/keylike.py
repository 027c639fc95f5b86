"""Strings that look like a key, and secrets known by value, in files that are to be shown to others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from elometer.core.redact import redact

# What issuers document of their keys' form (looked up 2026-11-29), and the header that carries any of them.
KEY_FORMS = re.compile(
    r"""(?<![A-Za-z0-9])(?:
        sk-[A-Za-z0-9_-]{16,}             # OpenAI, Anthropic and most gateways
      | Bearer\s+[A-Za-z0-9._~+/=-]{16,}
      | gh[pousr]_[A-Za-z0-9]{30,}        # GitHub
      | AIza[A-Za-z0-9_-]{30,}            # Google
      | xox[abprs]-[A-Za-z0-9-]{10,}      # Slack
      | AKIA[A-Z0-9]{16}                  # AWS
    )""",
    re.VERBOSE,
)
SHOWN = 5


class KeyLike(NamedTuple):
    """Where a string stands that looks like a key; `mask` shows its beginning only."""

    line: int
    mask: str


def key_like_strings(path: Path) -> Iterator[KeyLike]:
    """Every suspicious string of a file, by line from 1."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            text = line.decode("utf-8", "replace")
            if redact(text) != text:
                yield KeyLike(number, "…")
            for found in KEY_FORMS.finditer(text):
                if _is_random(found.group()):
                    yield KeyLike(number, found.group()[:SHOWN] + "…")


def _is_random(text: str) -> bool:
    """Words joined by hyphens and placeholders such as sk-xxxx are no keys: those mix letters and digits."""
    body = re.split(r"[\s-]", text, maxsplit=1)[-1]
    digits = sum(char.isdigit() for char in body)
    return digits >= 3 and len(set(body)) >= 8 and any(char.isalpha() for char in body)
