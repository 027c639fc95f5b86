"""Multiple choice: options read from a prompt, and which option a text names."""

from __future__ import annotations

import re

_OPTION = re.compile(r"(?:(?<=\s)|^)\(?([A-Z])[).:]\s+(?=\S)", re.MULTILINE)
_WHOLE = re.compile(r"\W*([A-Za-z])\W*")
_LED = re.compile(r"\W*([A-Z])\s*[).:]\s*\S.*", re.DOTALL)
_SAID = re.compile(
    r"(?i:\b(?:answer|choice|option)\b(?:\s+(?:is|would\s+be))?\s*[:=]?)[\s*_`(\[\"'$]*(?:\\(?:boxed|text)\{)*"
    # A small letter only where the sentence ends behind it: `answer: b`, not `answer is a planet`.
    r"([A-Z](?![A-Za-z'])|[a-z](?=[\s*_`)\]\"'}$]*(?:[.,;]|$)))",
    re.MULTILINE,
)
_MARKED = re.compile(r"(?<!\w)\(?([A-Z])\)(?!\w)")
_EDGE = " \t\r\n.,;:!*_`\"'()[]"


def options_in(prompt: str) -> dict[str, str]:
    """`A) Mars B) Jupiter` as {"A": "Mars", "B": "Jupiter"}: letters from A without a gap, or {}."""
    options: dict[str, str] = {}
    found = list(_OPTION.finditer(prompt))
    for index, match in enumerate(found):
        if match[1] == chr(ord("A") + len(options)):
            following = [later for later in found[index + 1 :] if later[1] == chr(ord(match[1]) + 1)]
            end = following[0].start() if following else len(prompt)
            options[match[1]] = prompt[match.end() : end].split("\n")[0].strip(_EDGE)
    return options if len(options) > 1 else {}


def chosen(text: str, options: dict[str, str]) -> str | None:
    """The letter of the option that a text settles on, or None.

    In this order: the text is a letter or an option; it says `answer is B` (the last time); it begins with
    `B)`; it names one option's text and no other; it marks one letter as `(B)` and no other.
    """
    by_text = {_folded(option): letter for letter, option in options.items()}
    whole = _WHOLE.fullmatch(text)
    if whole and whole[1].upper() in options:
        return whole[1].upper()
    if _folded(text) in by_text:
        return by_text[_folded(text)]
    said = [letter for letter in map(str.upper, _SAID.findall(text)) if letter in options]
    if said:
        return said[-1]
    led = _LED.fullmatch(text)
    if led and led[1] in options and len(set(_MARKED.findall(text)) | {led[1]}) == 1:
        return led[1]
    named = _named(text, options)
    if len(named) == 1:
        return named.pop()
    marked = {letter for letter in _MARKED.findall(text) if letter in options}
    return marked.pop() if len(marked) == 1 else None


def _named(text: str, options: dict[str, str]) -> set[str]:
    """Letters of options whose text occurs as words; one inside a longer one that occurs does not count."""
    folded = " ".join(text.casefold().split())
    found = {}
    for letter, option in options.items():
        words = _folded(option)
        if words and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", folded):
            found[letter] = words
    return {
        letter
        for letter, words in found.items()
        if not any(words != other and words in other for other in found.values())
    }


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).strip(_EDGE)
