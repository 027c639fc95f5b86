"""The make-believe tokenizer by which the demo gateway counts.

A token is up to six letters, digits or underscores, or one other sign, together with the white space before
it. A conversation costs its contents plus four tokens a message and two for the answer to come, on all three
protocols alike. No vendor counts so; what matters is that every count can be checked by hand.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

TOKENS_A_MESSAGE = 4
TOKENS_A_CONVERSATION = 2

_TOKEN = re.compile(r"\s*(?:\w{1,6}|[^\w\s])|\s+$")


def pieces(text: str) -> list[str]:
    """The tokens of a text; joined they are the text again."""
    return _TOKEN.findall(text)


@functools.lru_cache(maxsize=4096)
def count(text: str) -> int:
    """How many tokens a text has."""
    return len(pieces(text))


def prompt_tokens(contents: Iterable[str]) -> int:
    """Tokens of a prompt: the contents of its messages, the system text counting as one."""
    return TOKENS_A_CONVERSATION + sum(TOKENS_A_MESSAGE + count(content) for content in contents)
