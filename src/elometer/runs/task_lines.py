"""A line of tasks.jsonl as it stands: bytes, JSON, keys that stand twice, and errors that name its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from elometer.core.errors import NotSupportedYet, SpecError
from elometer.core.text import gettext as _
from elometer.runs.spec_read import shown

TASKS_FILE = "tasks.jsonl"


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A line of the tasks file that is being read."""

    file: Path
    number: int
    data: dict[str, Any]

    def error(self, key: str, message: str, fix: str, *, kind: type[SpecError] = SpecError) -> SpecError:
        evidence = f"{self.file}:{self.number}: {key}"
        if key in self.data and not isinstance(self.data[key], dict | list):
            evidence += f": {shown(self.data[key])}"
        return kind(message, evidence=evidence, fix=fix)

    def not_supported(self, key: str, what: str) -> NotSupportedYet:
        return NotSupportedYet(
            _("{what} is valid but not supported yet (task {task}).").format(
                what=what, task=self.data.get("id", "?")
            ),
            evidence=f"{self.file}:{self.number}: {key}",
            fix=_("Leave this task out for now."),
        )


def bytes_of(path: Path, most: int) -> bytes:
    try:
        size = path.stat().st_size
        if size > most:
            evidence = _("{file}: {size} bytes").format(file=path, size=size)
            raise SpecError(_("The file is too large."), evidence=evidence, fix=_("Split the tasks."))
        return path.read_bytes()
    except FileNotFoundError as error:
        fix = _("Write it beside the experiment, one JSON object a line; elometer init shows the form.")
        raise SpecError(_("There is no such file."), evidence=str(path), fix=fix) from error
    except IsADirectoryError as error:
        raise NotSupportedYet(
            _("Tasks as a folder are valid but not supported yet."),
            evidence=str(path),
            fix=_("Write the tasks into {file}, one JSON object a line.").format(file=TASKS_FILE),
        ) from error
    except OSError as error:
        evidence = f"{path}: {error.strerror}"
        raise SpecError(
            _("The file cannot be read."), evidence=evidence, fix=_("Check its owner and mode.")
        ) from error


def decoded(path: Path, number: int, raw: bytes) -> TaskLine:
    try:
        data = msgspec.json.decode(raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SpecError(
            _("A line of the tasks file is not JSON."),
            evidence=f"{path}:{number}: {error}",
            fix=_("Write one JSON object a line, strings in double quotes."),
        ) from error
    if not isinstance(data, dict):
        raise SpecError(
            _("A line of the tasks file is not an object."),
            evidence=f"{path}:{number}: {shown(data)}",
            fix=_("Write {{…}} with id, prompt, answer and grader.").format(),
        )
    repeated = _repeated_key(raw)
    line = TaskLine(path, number, data)
    if repeated:
        raise line.error(repeated, _("The key {key} stands twice.").format(key=repeated), _("Keep one."))
    return line


def _repeated_key(raw: bytes) -> str | None:
    """The first key that a line's objects hold twice; the fast decoder keeps the last one silently."""
    import json

    found: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> None:
        names = [name for name, _value in items]
        found.extend(name for name in names if names.count(name) > 1)

    json.loads(raw.decode("utf-8-sig"), object_pairs_hook=pairs)
    return found[0] if found else None
