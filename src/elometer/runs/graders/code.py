"""Graders that are code: `python` (a file with `grade(answer, task)`) and `command` (an argv)."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from elometer.runs.graders.child import Finished, Limits, private_folder, run_limited
from elometer.runs.graders.kinds import NO_ANSWER_SCORE, Grade
from elometer.runs.graders.launcher import FAILED

ANSWER_FILE, TASK_FILE = "answer.txt", "task.json"
PLACEHOLDERS = {"answer_file": ANSWER_FILE, "task_file": TASK_FILE, "workdir": "."}
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_STATUSES = ("ok", "wrong", "no_answer")
_UNCAUGHT = "Traceback (most recent call last):"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a code grader finds in its folder: `files` (relative to `folder`), and the task as an object."""

    folder: Path = field(default=Path(), compare=False)
    files: tuple[str, ...] = ()
    task: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CodeGrader:
    """A judge in a child process of its own.

    A score may be any number; 1 and more is called ok. `sign` is -1 where less is better. An answer that is
    none scores 0, or below everything where less is better. A child that crashes, takes too long or says
    nothing that can be read is a grader_error: its failure is never the model's.
    """

    type: ClassVar[str] = ""
    slow: ClassVar[bool] = True
    limits: Limits
    sign: int = 1
    surroundings: Surroundings = Surroundings()
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def canonical(self) -> bool:
        """Code judges an answer; it does not say when two are the same."""
        return False

    @property
    def no_answer_score(self) -> float:
        """What no answer at all is worth."""
        return 0.0 if self.sign > 0 else NO_ANSWER_SCORE

    def find(self, text: str) -> str | None:
        """The whole text."""
        return text.strip() or None

    def key(self, extracted: str) -> str:
        """The text itself."""
        return extracted.strip()

    def grade(self, extracted: str) -> Grade:
        """Run the judge on an answer. Takes up to the limit of seconds: not for an event loop."""
        with private_folder() as cwd:
            _lay_out(cwd, self.surroundings, extracted)
            finished = self._run(cwd)
        return self._read(finished)

    def _run(self, cwd: Path) -> Finished:
        raise NotImplementedError

    def _verdict(self, finished: Finished) -> tuple[Any, str]:
        """What the child said, and why that cannot be used."""
        raise NotImplementedError

    def _read(self, finished: Finished) -> Grade:
        fault = finished.fault
        said: Any = None
        if not fault:
            said, fault = self._verdict(finished)
        if not fault:
            found = _graded(said, self.sign)
            if found is not None:
                return Grade(found.score, found.status, found.detail, finished.isolation)
            fault = f"not a score: {said!r}"[:200]
        last = finished.err.strip().splitlines()[-1:] or [""]
        return Grade(0.0, "grader_error", f"{fault} {last[0]}".strip()[:500], finished.isolation)


@dataclass(frozen=True, slots=True)
class PythonGrader(CodeGrader):
    """`grade(answer, task)` of a file: true or false, a number, or {"score", "status", "detail"}."""

    type: ClassVar[str] = "python"
    file: str = ""

    def _run(self, cwd: Path) -> Finished:
        return run_limited(self.limits, cwd, python=self.file)

    def _verdict(self, finished: Finished) -> tuple[Any, str]:
        if finished.code:
            return None, "the grader failed:" if finished.code == FAILED else f"exit code {finished.code}:"
        return _last_json(finished.out)


@dataclass(frozen=True, slots=True)
class CommandGrader(CodeGrader):
    """An argv without a shell. Exit code 0 is right, 1 is wrong, any other one a fault of the grader.

    With exit code 0 or 1 a last line of stdout that is a number or an object with `score` decides instead.
    An uncaught Python exception also ends with 1, so a traceback without such a line is a fault.
    """

    type: ClassVar[str] = "command"
    argv: tuple[str, ...] = ()

    def _run(self, cwd: Path) -> Finished:
        def filled(match: re.Match[str]) -> str:
            name = PLACEHOLDERS[match[1]]
            return str(cwd) if name == "." else str(cwd / name)

        return run_limited(self.limits, cwd, argv=[_PLACEHOLDER.sub(filled, word) for word in self.argv])

    def _verdict(self, finished: Finished) -> tuple[Any, str]:
        if finished.code not in (0, 1):
            return None, "the grader failed:" if finished.code == FAILED else f"exit code {finished.code}:"
        said, unreadable = _last_json(finished.out)
        if not unreadable and _graded(said, self.sign) is not None and not isinstance(said, bool):
            return said, ""
        if finished.code == 1 and _UNCAUGHT in finished.err:
            return None, "uncaught exception:"
        return finished.code == 0, ""


def unknown_placeholder(argv: Sequence[str]) -> str | None:
    """The first `{name}` of an argv that stands for nothing."""
    names = (name for word in argv for name in _PLACEHOLDER.findall(word))
    return next((name for name in names if name not in PLACEHOLDERS), None)


def _lay_out(cwd: Path, surroundings: Surroundings, answer: str) -> None:
    for name in surroundings.files:
        target = cwd / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(surroundings.folder / name, target)
    (cwd / ANSWER_FILE).write_text(answer, encoding="utf-8", errors="replace")
    (cwd / TASK_FILE).write_text(json.dumps(surroundings.task), encoding="utf-8")


def _last_json(out: str) -> tuple[Any, str]:
    lines = out.strip().splitlines()
    try:
        return json.loads(lines[-1]), ""
    except (IndexError, ValueError, RecursionError):
        return None, "it printed no result:"


def _graded(said: Any, sign: int) -> Grade | None:
    """A verdict as a grade; None where it is none."""
    fields = said if isinstance(said, dict) else {"score": said}
    score = fields.get("score")
    if not isinstance(score, bool | int | float) or not math.isfinite(score):
        return None
    value = sign * float(score)
    status: Literal["ok", "wrong", "no_answer"] = "ok" if score >= 1 else "wrong"
    if fields.get("status") in _STATUSES:
        status = fields["status"]
    return Grade(value, status, str(fields.get("detail", ""))[:500])
