"""Reads YAML through `compose()`, so that a fault names file, line, key, value and the nearest known name.

A `Value` is a node and where it stands. The rules that check values are in `spec_rules`, the table of
experiment.yaml made of them in `spec_table`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from elometer.core.errors import SpecError
from elometer.core.redact import redact
from elometer.core.text import gettext as _

LARGEST_FILE = 1_000_000  # bytes
LARGEST_FREE_VALUE = 10_000  # nodes after aliases are followed, so that nested aliases cannot fill the memory
_SHOWN = 60
# A pasted credential must not be repeated on a screen, so what may be one is not shown.
_LIKE_A_KEY = re.compile(
    r"(?i)^(?:bearer\s+\S{8,}|(?:sk|gsk|ghp)[-_]\S{8,}|(?:pk|key|tok)[-_](?=\S*\d)\S{8,})$"
)
_LONG_TOKEN = re.compile(r"^(?=\S*\d)(?=\S*[A-Za-z])[A-Za-z0-9_\-+/=]{24,}$")


def looks_like_a_key(text: str) -> bool:
    """True for what may be a pasted credential."""
    return bool(_LIKE_A_KEY.match(text) or _LONG_TOKEN.match(text))


def shown(value: object) -> str:
    """A value as an error may show it: one line, short, and never what looks like a credential."""
    text = " ".join(redact(str(value)).split())
    if looks_like_a_key(text):
        return _("(not shown: it looks like a key)")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is closest to a mistyped one, or None where nothing is close."""
    names = sorted(known)
    found = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if found:
        return found[0]
    folded = name.casefold().replace("-", "_")
    return next((known for known in names if known.casefold().replace("-", "_") == folded), None)


def suggestion(name: str, known: Iterable[str]) -> str:
    """The third line of an error about an unknown name: the nearest one, then all of them."""
    names = list(known)
    close = nearest(name, names)
    all_names = _("Known here: {names}.").format(names=", ".join(names))
    return _("Did you mean {name}?").format(name=close) + " " + all_names if close else all_names


@dataclass(frozen=True, slots=True)
class Value:
    """A YAML node, the dotted key under which it stands, and the notes of the document it belongs to."""

    node: yaml.Node
    key: str
    document: Document

    @property
    def line(self) -> int:
        """The line on which the value begins, from 1."""
        return int(self.node.start_mark.line) + 1

    def error(self, message: str, fix: str = "", *, show: bool = True) -> SpecError:
        """A SpecError whose evidence is file, line, key and value."""
        where = f"{self.document.file}:{self.line}: {self.key or _('(top level)')}"
        if show and isinstance(self.node, yaml.ScalarNode):
            where += f": {shown(self.node.value)}"
        return SpecError(message, evidence=where, fix=fix)

    def plain(self) -> Any:
        """The value as Python data. Raises SpecError for recursive or exploding aliases."""
        return _Plain(self).build(self.node)

    def items(self) -> list[Value]:
        """The elements of a list."""
        assert isinstance(self.node, yaml.SequenceNode)
        return [
            Value(node, f"{self.key}[{index}]", self.document) for index, node in enumerate(self.node.value)
        ]

    def pairs(self) -> dict[str, Value]:
        """The entries of a mapping, merge keys applied; a key that stands twice is an error."""
        assert isinstance(self.node, yaml.MappingNode)
        own: dict[str, Value] = {}
        merged: dict[str, Value] = {}
        for key_node, node in self.node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged |= {name: value for name, value in self._merged(node) if name not in merged}
                continue
            name = self._name(key_node)
            path = f"{self.key}.{shown(name)}" if self.key else shown(name)
            value = Value(node, path, self.document)
            if name in own:
                message = _("The key {key} stands twice.").format(key=path)
                at = Value(key_node, path, self.document)
                fix = _("Keep one of lines {first} and {second}.").format(
                    first=self.document.key_lines[path], second=at.line
                )
                raise at.error(message, fix, show=False)
            self.document.key_lines[path] = int(key_node.start_mark.line) + 1
            own[name] = value
        return merged | own

    def _merged(self, node: yaml.Node) -> Iterator[tuple[str, Value]]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            value = Value(source, self.key, self.document)
            if source is self.node or not isinstance(source, yaml.MappingNode):
                raise value.error(
                    _("A merge key (<<) needs another mapping."), _("Name an anchored mapping.")
                )
            yield from value.pairs().items()

    def _name(self, node: yaml.Node) -> str:
        if isinstance(node, yaml.ScalarNode) and node.tag in TEXT_TAGS:
            return str(node.value)
        at = Value(node, self.key, self.document)
        raise at.error(_("A key must be a word."), _("Write it as text; quote yes, no, on, off and null."))


@dataclass(slots=True)
class Document:
    """A file that is being read: its name, the line of every key seen, and the `x-*` keys that are kept."""

    file: str
    key_lines: dict[str, int] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


TEXT_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "timestamp"))


class _Plain:
    """Turns free values (`x-*`, request parameters) into Python data within a bound on their size."""

    def __init__(self, value: Value) -> None:
        self._value = value
        self._left = LARGEST_FREE_VALUE
        self._open: set[int] = set()
        self._loader = yaml.SafeLoader("")

    def build(self, node: yaml.Node) -> Any:
        self._left -= 1
        if self._left < 0 or id(node) in self._open:
            raise self._value.error(
                _("The value of {key} is too large or contains itself.").format(key=self._value.key),
                _("Write it out without nested aliases."),
            )
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        self._open.add(id(node))
        try:
            at = Value(node, self._value.key, self._value.document)
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item) for item in node.value]
            return {name: self.build(value.node) for name, value in at.pairs().items()}
        finally:
            self._open.discard(id(node))

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            return self._loader.construct_object(node)
        except (ValueError, yaml.YAMLError) as error:
            at = Value(node, self._value.key, self._value.document)
            raise at.error(_("The value does not read as YAML."), _("Put it in quotes.")) from error


def read_document(path: Path) -> Value:
    """The top mapping of a YAML file.

    Raises SpecError where the file is missing, a folder, unreadable, too large, not UTF-8, not YAML, empty,
    or holds something other than one mapping.
    """
    document = Document(str(path))
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        fix = _("Name an existing file, or write one with: elometer init")
        raise SpecError(_("There is no such file."), evidence=str(path), fix=fix) from error
    except IsADirectoryError as error:
        fix = _("Name the file: {file}").format(file=path / "experiment.yaml")
        raise SpecError(_("This is a folder, not a file."), evidence=str(path), fix=fix) from error
    except OSError as error:
        raise SpecError(
            _("The file cannot be read."),
            evidence=f"{path}: {error.strerror}",
            fix=_("Check its owner and mode."),
        ) from error
    return Value(_compose(data, path), "", document)


def _compose(data: bytes, path: Path) -> yaml.MappingNode:
    if len(data) > LARGEST_FILE:
        evidence = _("{file}: {size} bytes").format(file=path, size=len(data))
        raise SpecError(_("The file is too large."), evidence=evidence, fix=_("Put tasks into tasks.jsonl."))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SpecError(
            _("The file is not UTF-8 text."), evidence=f"{path}:{line}", fix=_("Save it as UTF-8.")
        ) from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, path) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise SpecError(
            _("The file is not YAML."), evidence=f"{path}: {shown(error)}", fix=_("Remove what is not text.")
        ) from error
    if node is None:
        fix = _("Write an experiment with: elometer init")
        raise SpecError(_("The file is empty."), evidence=str(path), fix=fix)
    if not isinstance(node, yaml.MappingNode):
        what = _("a list") if isinstance(node, yaml.SequenceNode) else _("a single value")
        raise SpecError(
            _("The file holds {what} where keys are expected.").format(what=what),
            evidence=f"{path}:{node.start_mark.line + 1}",
            fix=_("Begin with: experiment_id: NAME"),
        )
    return node


def _syntax_error(error: yaml.MarkedYAMLError, text: str, path: Path) -> SpecError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    lines = text.splitlines()
    content = lines[line - 1] if line <= len(lines) else ""
    fix = _("Check indentation, quotes and colons on this line and the one before.")
    if "\t" in content[: len(content) - len(content.lstrip())]:
        fix = _("Indent with spaces: YAML does not take tabs.")
    return SpecError(
        _("The file is not YAML: {problem}.").format(problem=error.problem or error.context),
        evidence=f"{path}:{line}: {shown(content)}",
        fix=fix,
    )
