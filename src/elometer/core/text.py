"""User-visible strings, translated through gettext."""

from __future__ import annotations

import functools
import gettext as _gettext
from pathlib import Path

DOMAIN = "elometer"
LOCALES = Path(__file__).parent.parent / "locales"


@functools.cache
def _translations() -> _gettext.NullTranslations:
    return _gettext.translation(DOMAIN, localedir=LOCALES, fallback=True)


def gettext(message: str) -> str:
    """The message in the language of the locale variables; itself where no translation is known."""
    return _translations().gettext(message)


def ngettext(singular: str, plural: str, count: int) -> str:
    """The form of a message that fits a count."""
    return _translations().ngettext(singular, plural, count)


def percent(share: float) -> str:
    """`64 %`."""
    return f"{100.0 * share:.0f} %"
