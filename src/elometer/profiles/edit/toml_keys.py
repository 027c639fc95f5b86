"""Changes of root keys and of one provider table in a config.toml, everything else byte for byte as it was.

`tomllib` reads the file before and after; in between a scan of statements finds where each value stands. The
scan relies on the text being valid; the reading back catches it where it is mistaken, so a wrong splice is
never written.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elometer.core.text import gettext as _
from elometer.profiles.edit.document import NotEditable, Text, Unreadable, decode

Path = tuple[str, ...]

_BLANK = re.compile(r"[ \t]*")
_LINE_END = re.compile(r"\r?\n|\Z")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:\\.|[^"\\\n])*"')
_LITERAL = re.compile(r"'[^'\n]*'")
_LONG_BASIC = re.compile(r'"""(?:\\.|[^\\])*?"""(?:"{0,2})', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'''(?:'{0,2})", re.DOTALL)
_SCALAR = re.compile(r"[^#\r\n]*")
_INSIDE = re.compile(r"[^\"'#\[\]{}]+")
_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True)
class _Statement:
    """`path = value` or a `[header]`; offsets of the whole line(s) and of the value."""

    path: Path
    header: bool
    start: int
    value_start: int
    value_end: int
    end: int  # behind the line end


def read_toml(data: bytes) -> dict[str, Any]:
    """The file as the client sees it. Raises Unreadable."""
    return _parse(decode(data).text)


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _PLACE.search(message)
        if place is None:  # at the end of the document
            lines = text.split("\n")
            raise Unreadable(message, len(lines), len(lines[-1]) + 1) from None
        reason = message[: place.start()].strip()
        # tomllib points behind a bad escape; a person looks for the backslash.
        column = int(place[2]) - (2 if reason.startswith("Unescaped") else 0)
        raise Unreadable(reason, int(place[1]), column) from None
    except RecursionError:
        raise Unreadable(_("nested too deeply")) from None


def edit_toml(
    data: bytes, root: Mapping[str, str | None], table: Path = (), values: Mapping[str, str | None] = {}
) -> bytes:
    """The file with root keys set or taken away, and keys of one table set (None takes one away).

    Raises Unreadable for what the client refuses as well, NotEditable where the layout has no place for the
    table (an inline table that holds all providers, say).
    """
    document = decode(data)
    text = document.text
    before = _parse(text)
    expected = _expected(before, root, table, values)
    if _same(before, expected):
        return data
    statements = _scan(text)
    splices = _root_splices(document, statements, root)
    if table and values:
        splices += _table_splices(document, statements, table, values)
    edited = _splice(text, splices)
    try:
        after = tomllib.loads(edited)
    except tomllib.TOMLDecodeError:
        after = {}
    if not _same(after, expected):
        raise NotEditable(_("the file's layout leaves no place for [{table}]").format(table=".".join(table)))
    return document.encode(edited)


def _expected(
    before: Mapping[str, Any], root: Mapping[str, str | None], table: Path, values: Mapping[str, str | None]
) -> dict[str, Any]:
    result = {**before, **root}
    if table and values:
        level = result
        for name in table:
            inner = level.get(name, {})
            level[name] = dict(inner) if isinstance(inner, dict) else {}
            level = level[name]
        level.update(values)
        for name in [k for k, v in level.items() if v is None]:
            del level[name]
    return {name: value for name, value in result.items() if value is not None}


def _same(a: object, b: object) -> bool:
    """Equality under which a NaN equals itself; types count, since true is not 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if type(a) is not type(b):
        return False
    return a == b or (a != a and b != b)


# Where things stand


def _scan(text: str) -> list[_Statement]:
    """Every header and every key/value statement, with the full path of each key."""
    found: list[_Statement] = []
    table: Path = ()
    position = 0
    while position < len(text):
        start = position
        at = _blank(text, position)
        if text[at : at + 1] == "[":
            width = 2 if text.startswith("[[", at) else 1
            table, closing = _key(text, at + width)
            end = _line_end(text, closing + width)
            # A table of an array is another one at each header, so its path never equals a table's.
            path = (*table, "[]") if width == 2 else table
            table = path
            found.append(_Statement(path, True, start, at, closing + width, end))
        elif at < len(text) and text[at] not in "#\r\n":
            path, equals = _key(text, at)
            value_start = _blank(text, equals + 1)
            value_end = _value_end(text, value_start)
            end = _line_end(text, value_end)
            found.append(_Statement((*table, *path), False, start, value_start, value_end, end))
        else:
            end = _line_end(text, at)
        position = end
    return found


def _blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    assert match is not None
    return match.end()


def _line_end(text: str, position: int) -> int:
    """Behind the end of the line, a comment skipped."""
    match = _LINE_END.search(text, position)
    assert match is not None
    return match.end()


def _key(text: str, position: int) -> tuple[Path, int]:
    """A dotted key, and the position of what ends it (`=` or `]`)."""
    parts = []
    while True:
        position = _blank(text, position)
        match = _BARE.match(text, position) or _BASIC.match(text, position) or _LITERAL.match(text, position)
        if match is None:
            raise NotEditable(_("a key was not understood"))
        parts.append(_unquote(match[0]))
        position = _blank(text, match.end())
        if text[position : position + 1] != ".":
            return tuple(parts), position
        position += 1


def _unquote(word: str) -> str:
    if word[0] not in "\"'":
        return word
    parsed = tomllib.loads(f"k = {word}")["k"]
    assert isinstance(parsed, str)
    return parsed


def _string_end(text: str, position: int) -> int | None:
    """The end of the string that begins here, or None where none does."""
    for pattern in (_LONG_BASIC, _LONG_LITERAL, _BASIC, _LITERAL):
        match = pattern.match(text, position)
        if match is not None:
            return match.end()
    return None


def _value_end(text: str, position: int) -> int:
    end = _string_end(text, position)
    if end is not None:
        return end
    if text[position : position + 1] not in ("[", "{"):
        match = _SCALAR.match(text, position)
        assert match is not None
        return position + len(match[0].rstrip())
    depth = 0
    while position < len(text):
        end = _string_end(text, position)
        mark = text[position]
        if end is not None:
            position = end
        elif mark == "#":
            position = _line_end(text, position)
        elif mark in "[{":
            depth, position = depth + 1, position + 1
        elif mark in "]}":
            depth, position = depth - 1, position + 1
            if depth == 0:
                return position
        else:
            match = _INSIDE.match(text, position)
            position = match.end() if match is not None else position + 1
    raise NotEditable(_("an array was not understood"))


# What to put where: (start, end, new text)

_Splice = tuple[int, int, str]


def _splice(text: str, splices: Sequence[_Splice]) -> str:
    parts, position = [], 0
    for start, end, new in sorted(splices, key=lambda splice: splice[:2]):
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])


def _quote(value: str) -> str:
    """A TOML basic string: JSON's escapes are valid in it; DEL is the one character JSON leaves bare."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _set(statement: _Statement, value: str | None) -> _Splice:
    if value is None:
        return statement.start, statement.end, ""
    return statement.value_start, statement.value_end, _quote(value)


def _parsed(document: Text, statement: _Statement) -> object:
    return tomllib.loads("v = " + document.text[statement.value_start : statement.value_end])["v"]


def _root_splices(
    document: Text, statements: Sequence[_Statement], root: Mapping[str, str | None]
) -> list[_Splice]:
    """Root keys must stand before the first header: behind one they would belong to its table."""
    first_header = next((i for i, s in enumerate(statements) if s.header), len(statements))
    above = statements[:first_header]
    by_name = {statement.path[0]: statement for statement in above if len(statement.path) == 1}
    splices, lines = [], ""
    for name, value in root.items():
        there = by_name.get(name)
        if there is not None:
            if value is None or _parsed(document, there) != value:
                splices.append(_set(there, value))
        elif value is not None:
            lines += f"{name} = {_quote(value)}{document.newline}"
    if lines:
        at = above[-1].end if above else 0
        splices.append((at, at, _own_line(document, at) + lines))
    return splices


def _own_line(document: Text, position: int) -> str:
    """A line end where the text before `position` lacks one."""
    return document.newline if position and document.text[position - 1] != "\n" else ""


def _table_splices(
    document: Text, statements: Sequence[_Statement], table: Path, values: Mapping[str, str | None]
) -> list[_Splice]:
    header = next((i for i, s in enumerate(statements) if s.header and s.path == table), None)
    if header is None:
        return [_new_table(document, table, values)]
    own: dict[str, _Statement] = {}
    last = statements[header]
    for statement in statements[header + 1 :]:
        if statement.header:
            break
        last = statement
        if len(statement.path) == len(table) + 1:
            own[statement.path[-1]] = statement
    splices, lines = [], ""
    for name, value in values.items():
        there = own.get(name)
        if there is not None:
            if value is None or _parsed(document, there) != value:
                splices.append(_set(there, value))
        elif value is not None:
            lines += f"{name} = {_quote(value)}{document.newline}"
    if lines:
        splices.append((last.end, last.end, _own_line(document, last.end) + lines))
    return splices


def _new_table(document: Text, table: Path, values: Mapping[str, str | None]) -> _Splice:
    """A table of its own at the end of the file."""
    newline, end = document.newline, len(document.text)
    name = ".".join(part if _BARE.fullmatch(part) else _quote(part) for part in table)
    gap = _own_line(document, end) + (newline if document.text.strip() else "")
    pairs = [f"{key} = {_quote(value)}{newline}" for key, value in values.items() if value is not None]
    return end, end, f"{gap}[{name}]{newline}{''.join(pairs)}"
