"""Changes of single variables in the `env` object of a settings.json, all else byte for byte as it was.

The scan goes through members with the C scanner of `json`, so that it costs about one parse of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple, NoReturn

from elometer.core.text import gettext as _
from elometer.profiles.edit.document import NotEditable, Text, Unreadable, decode

_SPACE = re.compile(r"[ \t\n\r]*")
# The usual member in one match: white space, a key without escapes, colon, and a value that is such text too.
_PLAIN_KEY = re.compile(r'([ \t\n\r]*)("([^"\\\x00-\x1f]*)")([ \t\n\r]*:[ \t\n\r]*)')
_PLAIN_TEXT = re.compile(r'"([^"\\\x00-\x1f]*)"')
_CONSTANT = re.compile(r"(?<![\w\"])-?(NaN|Infinity)(?![\w\"])")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(_("{name} is not JSON").format(name=name))


_VALUES = json.JSONDecoder(parse_constant=_refuse_constant)


class _Member(NamedTuple):
    """One member of an object as pieces of text: white space, `"key"`, colon, value, white space."""

    name: str
    lead: str
    key: str
    colon: str
    value: str
    trail: str
    parsed: Any
    start: int = 0  # where the value's text begins

    def text(self) -> str:
        return f"{self.lead}{self.key}{self.colon}{self.value}{self.trail}"


@dataclass(frozen=True, slots=True)
class _Object:
    """An object: its members in order, and where it begins and ends (behind the brace)."""

    members: tuple[_Member, ...]
    start: int
    end: int


def read_env(data: bytes) -> dict[str, Any]:
    """The variables of the file as the client sees them. Raises Unreadable."""
    document = decode(data)
    if not document.text.strip():
        return {}
    env = _last(_scan(document.text), "env")
    return dict(env.parsed) if env is not None else {}


def edit_env(data: bytes, changes: Mapping[str, str | None]) -> bytes:
    """The file with variables set (text) or taken away (None).

    Raises Unreadable for what the client ignores as well, NotEditable where the result would not read back.
    """
    document = decode(data)
    text = document.text
    if not text.strip():
        set_only = {name: value for name, value in changes.items() if value is not None}
        return document.encode(_fresh(set_only, document.newline)) if set_only else data
    top = _scan(text)
    env = _last(top, "env")
    before = dict(env.parsed) if env is not None else {}
    wanted = {**before, **{k: v for k, v in changes.items() if v is not None}}
    wanted = {k: v for k, v in wanted.items() if changes.get(k, "") is not None}
    if wanted == before:
        return data
    edited = _add_env(document, top, wanted) if env is None else _change_env(document, top, env, changes)
    _check(edited, {**{m.name: m.parsed for m in top.members}, "env": wanted})
    return document.encode(edited)


def _check(text: str, expected: dict[str, Any]) -> None:
    if _VALUES.decode(text) != expected:
        raise NotEditable(_("the edit would not read back as meant"))


def _scan(text: str) -> _Object:
    """The top-level object. Raises Unreadable with line and column."""
    try:
        top = _object(text, _blank(text, 0))
        end = _blank(text, top.end)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
    except json.JSONDecodeError as error:
        raise Unreadable(error.msg, error.lineno, error.colno) from None
    except ValueError as error:
        found = _CONSTANT.search(text)
        place = json.JSONDecodeError("", text, found.start() if found else 0)
        raise Unreadable(str(error), place.lineno, place.colno) from None
    except RecursionError:
        raise Unreadable(_("nested too deeply")) from None
    env = _last(top, "env")
    if env is not None and not isinstance(env.parsed, dict):
        place = json.JSONDecodeError("", text, env.start)
        raise Unreadable(_("'env' is not an object"), place.lineno, place.colno)
    return top


def _object(text: str, start: int) -> _Object:
    if text[start : start + 1] != "{":
        raise json.JSONDecodeError("Expecting an object", text, start)
    members: list[_Member] = []
    position = start + 1
    while True:
        plain = _PLAIN_KEY.match(text, position)
        if plain is not None:
            lead, key, name, colon = plain.groups()
            value_start = plain.end()
        else:
            key_start = _blank(text, position)
            if not members and text[key_start : key_start + 1] == "}":
                return _Object((), start, key_start + 1)
            name, key_end, value_start = _key(text, key_start)
            lead, key = text[position:key_start], text[key_start:key_end]
            colon = text[key_end:value_start]
        plain_value = _PLAIN_TEXT.match(text, value_start)
        if plain_value is not None:
            parsed: Any = plain_value[1]
            value_end = plain_value.end()
        else:
            parsed, value_end = _VALUES.raw_decode(text, value_start)
        after = _blank(text, value_end)
        value, trail = text[value_start:value_end], text[value_end:after]
        members.append(_Member(name, lead, key, colon, value, trail, parsed, value_start))
        mark = text[after : after + 1]
        if mark == "}":
            return _Object(tuple(members), start, after + 1)
        if mark != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, after)
        position = after + 1


def _key(text: str, start: int) -> tuple[str, int, int]:
    """A key that has escapes: its name, its end, and where its value begins."""
    if text[start : start + 1] != '"':
        raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, start)
    name, end = scanstring(text, start + 1, True)
    colon = _blank(text, end)
    if text[colon : colon + 1] != ":":
        raise json.JSONDecodeError("Expecting ':' delimiter", text, colon)
    return name, end, _blank(text, colon + 1)


def _blank(text: str, position: int) -> int:
    """Behind the white space that begins here."""
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()


def _last(parent: _Object, name: str) -> _Member | None:
    """The member that counts: of duplicate names the last one wins."""
    return next((member for member in reversed(parent.members) if member.name == name), None)


def _quote(text: str) -> str:
    # Half of a surrogate pair can be escaped and not encoded.
    broken = any("\ud800" <= character <= "\udfff" for character in text)
    return json.dumps(text, ensure_ascii=broken)


def _indents(top: _Object) -> tuple[str, bool]:
    """White space before a top-level member, and whether the file has one member a line."""
    lead = top.members[-1].lead if top.members else ""
    return lead, "\n" in lead


def _fresh_object(values: Mapping[str, str], lead: str, unit: str, colon: str, comma_space: str) -> str:
    """An object in the file's style; `lead` holds a line end where members have lines of their own."""
    if "\n" not in lead:
        pairs = [f"{_quote(name)}{colon}{_quote(value)}" for name, value in values.items()]
        return "{" + f",{comma_space}".join(pairs) + "}"
    inner = lead + unit
    pairs = [f"{inner}{_quote(name)}{colon}{_quote(value)}" for name, value in values.items()]
    return "{" + ",".join(pairs) + lead + "}"


def _fresh(values: Mapping[str, str], newline: str) -> str:
    lead = newline + "  "
    return "{" + f'{lead}"env": ' + _fresh_object(values, lead, "  ", ": ", " ") + newline + "}" + newline


def _add_env(document: Text, top: _Object, values: Mapping[str, str]) -> str:
    """Put a new `env` behind the last member."""
    text = document.text
    if not top.members:
        env = _fresh(values, document.newline).rstrip("\r\n")
        return text[: top.start] + env + text[top.end :]
    lead, lines = _indents(top)
    last = top.members[-1]
    colon = last.colon if "\n" not in last.colon else ": "
    comma_space = " " if colon != ":" else ""
    own_lead = lead if lines else (lead if len(top.members) > 1 else comma_space)
    unit = lead.rpartition("\n")[2] or "  "
    env = _fresh_object(values, own_lead, unit, colon, comma_space)
    at = top.end - 1 - len(last.trail)
    return f"{text[:at]},{own_lead}{_quote('env')}{colon}{env}{text[at:]}"


def _change_env(document: Text, top: _Object, env: _Member, changes: Mapping[str, str | None]) -> str:
    """Rewrite the members of `env` that change; the others keep their text."""
    inner = _object(document.text, env.start)
    members = [m for m in inner.members if changes.get(m.name, "") is not None]
    if members and inner.members:
        members[0] = members[0]._replace(lead=inner.members[0].lead)
        members[-1] = members[-1]._replace(trail=inner.members[-1].trail)
    places = {member.name: place for place, member in enumerate(members)}  # of duplicates the last
    for name, value in changes.items():
        if value is None:
            continue
        at = places.get(name)
        if at is not None:
            if members[at].parsed != value:
                members[at] = members[at]._replace(value=_quote(value), parsed=value)
        elif members:
            members.append(_behind(members, name, value))
            members[-2] = members[-2]._replace(trail="")
        else:
            members.append(_only(top, name, value))
    body = "{" + ",".join(member.text() for member in members) + "}"
    return document.text[: inner.start] + body + document.text[inner.end :]


def _behind(members: list[_Member], name: str, value: str) -> _Member:
    """A new last member in the style of the one before it."""
    last = members[-1]
    lead = last.lead
    if len(members) == 1 and "\n" not in lead:
        lead = " " if last.colon != ":" else ""
    return last._replace(name=name, lead=lead, key=_quote(name), value=_quote(value), parsed=value)


def _only(top: _Object, name: str, value: str) -> _Member:
    """The first member of an object that was empty, or whose members all went."""
    lead, lines = _indents(top)
    unit = lead.rpartition("\n")[2] or "  "
    inner, trail = (lead + unit, lead) if lines else ("", "")
    return _Member(name, inner, _quote(name), ": ", _quote(value), trail, value)
