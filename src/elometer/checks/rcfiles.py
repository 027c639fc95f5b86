"""Assignments in shell start-up files: only lines that set a variable, never comments, strings or tests.

A start-up file is a program; this reads what can be told without running it. A value that the shell would
compute (`$(…)`, another variable) is known to be set, not what it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

# Files of bash, zsh and others, in the order in which a login shell may read them; relative to the home.
HOME_FILES = (
    ".profile",
    ".bash_profile",
    ".bash_login",
    ".bashrc",
    ".bash_aliases",
    ".zshenv",
    ".zprofile",
    ".zshrc",
    ".zlogin",
    ".config/fish/config.fish",
)
SYSTEM_FILES = ("etc/environment", "etc/profile", "etc/bash.bashrc", "etc/bashrc", "etc/zsh/zshrc")

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_EXPORT = re.compile(rf"^(?:export|declare\s+-\S*x\S*|typeset\s+-\S*x\S*)\s+(?P<rest>{_NAME}=.*)$")
_PLAIN = re.compile(rf"^(?P<rest>{_NAME}=.*)$")
_FISH = re.compile(rf"^set\s+(?:-\S+\s+)*(?P<name>{_NAME})\s+(?P<value>.*)$")
_UNSET = re.compile(rf"^unset\s+(?:-v\s+)?(?P<names>{_NAME}(?:\s+{_NAME})*)\s*(?:#.*)?$")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_COMPUTED = re.compile(r"\$|`")


@dataclass(frozen=True, slots=True)
class Assignment:
    """A variable that a line sets. `value` is None where the shell computes it, or for `unset`."""

    name: str
    value: str | None
    line: int
    unset: bool = False


def assignments(text: str, *, fish: bool = False) -> Iterator[Assignment]:
    """The assignments of a start-up file in order, with line numbers from 1."""
    end_of_document: str | None = None
    for number, statement in _statements(text):
        if end_of_document is not None:
            if statement.strip() == end_of_document:
                end_of_document = None
            continue
        heredoc = _HEREDOC.search(statement)
        if heredoc and "<<<" not in statement:
            end_of_document = heredoc.group(2)
        yield from _of_statement(statement.strip(), number, fish)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations, and the number of the first."""
    pending, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first or number
        if line.endswith("\\"):
            pending += line[:-1]
            continue
        yield first, pending + line
        pending, first = "", 0
    if pending:
        yield first, pending


def _of_statement(statement: str, number: int, fish: bool) -> Iterator[Assignment]:
    if not statement or statement.startswith("#"):
        return
    if fish:
        found = _FISH.match(statement)
        if found:
            yield _assigned(found["name"], found["value"], number)
        return
    unset = _UNSET.match(statement)
    if unset:
        for name in unset["names"].split():
            yield Assignment(name, None, number, unset=True)
        return
    exported = _EXPORT.match(statement)
    found = exported or _PLAIN.match(statement)
    if not found:
        return
    words = _words(found["rest"])
    # `NAME=value command` sets the variable for that one command only.
    if not exported and any("=" not in word for word in words):
        return
    for word in words:
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(_NAME, name):
            yield _assigned(name, value, number, computed=_computed(found["rest"], name))


def _assigned(name: str, value: str, number: int, *, computed: bool = False) -> Assignment:
    if computed or _COMPUTED.search(value):
        return Assignment(name, None, number)
    return Assignment(name, value.strip().strip("\"'") if " " not in value else value.strip("\"'"), number)


def _computed(rest: str, name: str) -> bool:
    """True where the value is double-quoted or bare and holds `$` or a backquote; single quotes keep both."""
    raw = rest.split(f"{name}=", 1)[1]
    return not raw.startswith("'") and bool(_COMPUTED.search(raw.split(" ")[0]))


def _words(rest: str) -> list[str]:
    """The words up to the end of the command, without quotes, comments and what follows `;` or `&&`."""
    lexer = shlex.shlex(rest, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words = []
    try:
        for word in lexer:
            if word[0] in ";&|()":
                break
            words.append(word)
    except ValueError:  # a quote that closes on a later line
        return []
    return words
