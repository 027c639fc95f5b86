"""Assignments in shell start-up files: only commands that set a variable, never comments, strings or tests.

A start-up file is a program; this reads what can be told without running it. A value that the shell would
compute (`$(…)`, another variable) is known to be set, not what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Files of bash, zsh and others, in the order in which a login shell may read them; relative to the home.
HOME_FILES = (
    ".profile", ".bash_profile", ".bash_login", ".bashrc", ".bash_aliases",
    ".zshenv", ".zprofile", ".zshrc", ".zlogin", ".config/fish/config.fish",
)  # fmt: skip
SYSTEM_FILES = ("etc/environment", "etc/profile", "etc/bash.bashrc", "etc/bashrc", "etc/zsh/zshrc")

_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEREDOC = re.compile(r"(?<!<)<<-?\s*(['\"]?)(\w+)\1")
_EXPORTERS = ("export", "declare", "typeset", "readonly")
# Words of the shell's grammar behind which a command begins.
_OPENERS = ("then", "do", "else", "{", "!", "time")
_ENDS_COMMAND = ";&|()"


@dataclass(frozen=True, slots=True)
class Assignment:
    """A variable that a line sets. `value` is None where the shell computes it, or for `unset`."""

    name: str
    value: str | None
    line: int
    unset: bool = False


@dataclass(frozen=True, slots=True)
class _Word:
    """A word without its quotes; `computed` where it holds an expansion."""

    text: str
    computed: bool


def assignments(text: str, *, fish: bool = False) -> Iterator[Assignment]:
    """The assignments of a start-up file in order, with line numbers from 1."""
    end_of_document: str | None = None
    for number, statement in _statements(text):
        if end_of_document is not None:
            if statement.strip() == end_of_document:
                end_of_document = None
            continue
        heredoc = _HEREDOC.search(statement)
        if heredoc:
            end_of_document = heredoc.group(2)
        for command in _commands(statement):
            yield from _of_fish(command, number) if fish else _of_command(command, number)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations, and the number of the first."""
    pending, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first or number
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            pending += line[:-1]
            continue
        yield first, pending + line
        pending, first = "", 0
    if pending:
        yield first, pending


def _commands(statement: str) -> Iterator[list[_Word]]:
    """The commands of a line as words. One whose quote does not close on the line is left out."""
    words: list[_Word] = []
    at = 0
    while at < len(statement):
        character = statement[at]
        if character.isspace():
            at += 1
        elif character == "#":
            break
        elif character in _ENDS_COMMAND:
            yield words
            words = []
            at += 1
        else:
            found = _word(statement, at)
            if found is None:
                return
            word, at = found
            words.append(word)
    yield words


def _word(statement: str, at: int) -> tuple[_Word, int] | None:
    """The word that begins at a place and where it ends; None where a quote stays open."""
    text: list[str] = []
    quote, computed = "", False
    while at < len(statement):
        character = statement[at]
        if quote == "'":
            if character == "'":
                quote = ""
            else:
                text.append(character)
        elif character == "\\" and (not quote or statement[at + 1 : at + 2] in ("$", "`", '"', "\\")):
            at += 1
            text.append(statement[at : at + 1])
        elif character in ("'", '"') and quote in ("", character):
            quote = "" if quote else character
        elif not quote and (character.isspace() or character in _ENDS_COMMAND):
            break
        else:
            computed = computed or character in "$`"
            text.append(character)
        at += 1
    return None if quote else (_Word("".join(text), computed), at)


def _of_command(words: list[_Word], number: int) -> Iterator[Assignment]:
    while words and words[0].text in _OPENERS:
        words = words[1:]
    if not words:
        return
    first = words[0].text
    if first == "unset":
        names = [word.text for word in words[1:] if _NAME.fullmatch(word.text)]
        yield from (Assignment(name, None, number, unset=True) for name in names)
        return
    exported = first in _EXPORTERS
    targets = [word for word in words[1:] if not word.text.startswith("-")] if exported else words
    # `NAME=value command` sets the variable for that one command only.
    if not exported and not all(_ASSIGNED.fullmatch(word.text) for word in targets):
        return
    for word in targets:
        match = _ASSIGNED.fullmatch(word.text)
        if match:
            yield Assignment(match[1], None if word.computed else match[2], number)


def _of_fish(words: list[_Word], number: int) -> Iterator[Assignment]:
    if not words or words[0].text != "set":
        return
    options = [word.text for word in words[1:] if word.text.startswith("-")]
    rest = [word for word in words[1:] if not word.text.startswith("-")]
    if not rest or not _NAME.fullmatch(rest[0].text):
        return
    if any("e" in option for option in options if not option.startswith("--")) or "--erase" in options:
        yield Assignment(rest[0].text, None, number, unset=True)
        return
    computed = any(word.computed for word in rest[1:])
    value = " ".join(word.text for word in rest[1:])
    yield Assignment(rest[0].text, None if computed else value, number)
