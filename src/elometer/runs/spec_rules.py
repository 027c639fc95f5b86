"""Rules: each turns a YAML `Value` into a plain Python value, or raises SpecError with line, key and fix."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from elometer.core.errors import SpecError
from elometer.core.text import gettext as _
from elometer.runs.spec_read import TEXT_TAGS, Value, suggestion

Rule = Callable[[Value], Any]

_STR = "tag:yaml.org,2002:str"
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_NULL = "tag:yaml.org,2002:null"
_BOOL = "tag:yaml.org,2002:bool"
_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?")


def _scalar(value: Value, *tags: str) -> yaml.ScalarNode | None:
    node = value.node
    return node if isinstance(node, yaml.ScalarNode) and node.tag in tags else None


def is_null(value: Value) -> bool:
    """True for an empty value, `null` and `~`."""
    return _scalar(value, _NULL) is not None


def nullable(rule: Rule) -> Rule:
    """A rule that also takes null."""
    return lambda value: None if is_null(value) else rule(value)


def text(pattern: str | None = None, what: str = "", *, show: bool = True, empty: bool = False) -> Rule:
    """A rule for text; numbers and dates count as the text they are written as."""
    compiled = re.compile(pattern) if pattern else None

    def rule(value: Value) -> str:
        node = _scalar(value, *TEXT_TAGS)
        if node is None:
            message = _("{key} must be text.").format(key=value.key)
            raise value.error(message, _("Put the value in quotes."), show=show)
        if not empty and not node.value.strip():
            raise value.error(
                _("{key} is empty.").format(key=value.key), _("Give a value or remove the key.")
            )
        if compiled and not compiled.fullmatch(node.value):
            message = _("{key} must be {what}.").format(key=value.key, what=what)
            raise value.error(message, _("Write it as asked."), show=show)
        return str(node.value)

    return rule


def boolean(value: Value) -> bool:
    """A rule for true and false."""
    if _scalar(value, _BOOL) is None:
        raise value.error(_("{key} must be true or false.").format(key=value.key), _("Write true or false."))
    return bool(value.plain())


def integer(low: int, high: int) -> Rule:
    """A rule for whole numbers from `low` to `high`."""

    def rule(value: Value) -> int:
        fix = _("Give a whole number from {low} to {high}.").format(low=low, high=high)
        if _scalar(value, _INT) is None:
            raise value.error(_("{key} must be a whole number.").format(key=value.key), fix)
        number = int(value.plain())
        if not low <= number <= high:
            raise value.error(_("{key} is out of range.").format(key=value.key), fix)
        return number

    return rule


def number(low: float, high: float, *, above: bool = False) -> Rule:
    """A rule for finite numbers from `low` (or above it) to `high`."""

    def rule(value: Value) -> float:
        bound = _("above") if above else _("from")
        fix = _("Give a number {bound} {low:g} to {high:g}.").format(bound=bound, low=low, high=high)
        node = _scalar(value, _INT, _FLOAT, _STR)
        # YAML 1.1 reads 1e-3 as text, people mean a number.
        plain_text = node is not None and node.tag == _STR and node.style is None
        if node is None or (node.tag == _STR and not (plain_text and _NUMBER.fullmatch(node.value))):
            raise value.error(_("{key} must be a number.").format(key=value.key), fix)
        result = float(node.value.replace("_", "")) if node.tag == _STR else float(value.plain())
        inside = low < result <= high if above else low <= result <= high
        if not math.isfinite(result) or not inside:
            raise value.error(_("{key} is out of range.").format(key=value.key), fix)
        return result

    return rule


def one_of(*names: str) -> Rule:
    """A rule for one of a closed set of words."""

    def rule(value: Value) -> str:
        node = _scalar(value, *TEXT_TAGS, _BOOL)
        if node is None or node.value not in names:
            given = node.value if node is not None else ""
            message = _("{key} has no such value.").format(key=value.key)
            raise value.error(message, suggestion(given, names))
        return str(node.value)

    return rule


def listed(rule: Rule, *, unique: bool = False, least: int = 0) -> Rule:
    """A rule for a list whose elements follow `rule`; gives a tuple."""

    def read(value: Value) -> tuple[Any, ...]:
        if not isinstance(value.node, yaml.SequenceNode):
            raise value.error(
                _("{key} must be a list.").format(key=value.key),
                _("Write [one, two] or one `- item` a line."),
            )
        items = value.items()
        result = [rule(item) for item in items]
        if len(result) < least:
            raise value.error(
                _("{key} needs {least} or more entries.").format(key=value.key, least=least),
                _("Add entries or remove the key."),
            )
        for index, item in enumerate(result if unique else ()):
            if item in result[:index]:
                raise items[index].error(
                    _("{key} names this twice.").format(key=value.key), _("Remove one of the two.")
                )
        return tuple(result)

    return read


def one_or_more(rule: Rule) -> Rule:
    """A rule for one value or a list of values; gives a tuple."""
    many = listed(rule, unique=True, least=1)
    return lambda value: many(value) if isinstance(value.node, yaml.SequenceNode) else (rule(value),)


def free(value: Value) -> Any:
    """A rule for anything."""
    return value.plain()


def mapping_of(rule: Rule) -> Rule:
    """A rule for a mapping with free keys whose values follow `rule`."""
    return lambda value: {name: rule(entry) for name, entry in _mapping(value).items()}


def section(table: Mapping[str, Rule], required: Sequence[str] = (), free_keys: bool = False) -> Rule:
    """A rule for a mapping with known keys; gives a dictionary of those that are present.

    `x-*` keys are kept in the document's `extra`. With `free_keys` unknown keys are taken as they are.
    """

    def rule(value: Value) -> dict[str, Any]:
        pairs = _mapping(value)
        result: dict[str, Any] = {}
        for name, entry in pairs.items():
            if name.startswith("x-"):
                value.document.extra[entry.key] = entry.plain()
            elif name in table:
                result[name] = table[name](entry)
            elif free_keys:
                result[name] = entry.plain()
            else:
                raise _unknown_key(entry, name, table)
        for name in required:
            if name not in result:
                message = _("{key} is missing.").format(key=f"{value.key}.{name}" if value.key else name)
                raise value.error(message, _("Add a line: {name}: …").format(name=name), show=False)
        return result

    return rule


def _mapping(value: Value) -> dict[str, Value]:
    if not isinstance(value.node, yaml.MappingNode):
        raise value.error(
            _("{key} must hold keys and values.").format(key=value.key),
            _("Write one `key: value` a line, indented under {key}.").format(key=value.key),
        )
    return value.pairs()


def _unknown_key(entry: Value, name: str, table: Mapping[str, Rule]) -> SpecError:
    line = entry.document.key_lines.get(entry.key, entry.line)
    message = _("The key {key} is not known.").format(key=entry.key)
    fix = suggestion(name, table)
    if re.search(r"(?i)(api_?key|token|secret|password)$", name):
        fix = _("A key's value never stands in this file: name its variable as key_env.") + " " + fix
    return SpecError(message, evidence=f"{entry.document.file}:{line}: {entry.key}", fix=fix)
