"""Numbers as people and models write them."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

# Minus signs other than the hyphen; the en dash is left out because it stands in ranges.
_MINUS = str.maketrans(dict.fromkeys("\u2212\ufe63\uff0d", "-"))
_SPACE = "\u00a0\u2009\u202f"
# No measured quantity has a larger exponent, and arithmetic on one would fill the memory.
_LARGEST_EXPONENT = 400
_LONGEST_NUMBER = 1000
# A sign belongs to a number only where no word or number stands before it: 10-12, task-3. Groups have three
# digits, or two before a last three (as in India).
_GROUPED = rf"\d{{1,3}}(?:(?P<mark>[,'{_SPACE}])\d{{3}}(?:(?P=mark)\d{{3}})*|(?:,\d\d)+,\d{{3}})(?![\d,]\d)"
_NUMBER = re.compile(
    rf"(?:(?<![\w.,)])[-+][$€£¥]?)?(?:(?<!\d,)(?<!\d\.)(?:{_GROUPED})|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?"
    r"|(?:(?<![\w.,)])[-+])?(?<![\w.])\.\d+(?:[eE][-+]?\d+)?"
)
_MARKS = re.compile(rf"[,{_SPACE}'$€£¥]")
_SWAP_MARKS = str.maketrans(",.", ".,")
_FRACTION = re.compile(r"\s*([-+]?\d{1,15})\s*/\s*(\d{1,15})\s*")


def last_number(text: str, *, decimal_mark: str = ".") -> str | None:
    """The last number in a text, as it is written there; None where there is none."""
    found = [match.span() for match in _NUMBER.finditer(_plain(text, decimal_mark))]
    return text[slice(*found[-1])] if found else None


def parse_number(text: str, *, decimal_mark: str = ".") -> Decimal | None:
    """The value of the only or last number in a text.

    Thousands marks are dropped, units and signs of currency or percent around the number are left aside:
    `50 %` is 50, not 0.5. A text that is one fraction (`3/4`) is its quotient. None where there is no number.
    """
    fraction = _FRACTION.fullmatch(text.translate(_MINUS))
    if fraction and int(fraction[2]):
        return Decimal(int(fraction[1])) / Decimal(int(fraction[2]))
    written = last_number(text, decimal_mark=decimal_mark)
    if written is None or len(written) > _LONGEST_NUMBER:
        return None
    try:
        value = Decimal(_MARKS.sub("", _plain(written, decimal_mark)))
    except InvalidOperation:
        return None
    return value if not value or abs(value.adjusted()) <= _LARGEST_EXPONENT else None


def number_key(value: Decimal) -> str:
    """One text for all ways to write a value: 10, 10.0 and 1e1 are `10`."""
    if not value:
        return "0"
    return format(value.normalize(), "f")


def _plain(text: str, decimal_mark: str) -> str:
    """The text with ASCII minus signs and `.` as the decimal mark; positions stay."""
    text = text.translate(_MINUS)
    return text.translate(_SWAP_MARKS) if decimal_mark == "," else text
