"""Tasks: tasks.jsonl read line by line, checked, and chosen by the experiment's ids and globs."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from elometer.core.attempt import Message
from elometer.core.errors import SpecError
from elometer.core.text import gettext as _
from elometer.runs.attachments import listed_files, own_files, refuse_misplaced, surrounded
from elometer.runs.graders import Extract, GraderSpec, has_canonical_answer, is_binary
from elometer.runs.graders.read import GraderFault, read_extract, read_grader
from elometer.runs.spec import Experiment
from elometer.runs.spec_read import suggestion
from elometer.runs.task_lines import TASKS_FILE, TaskLine, bytes_of, decoded

LARGEST_TASKS_FILE = 512_000_000  # bytes
LARGEST_PROMPT_FILE = 8_000_000
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}")
_KEYS = (
    "id",
    "prompt",
    "messages",
    "prompt_file",
    "answer",
    "grader",
    "extract",
    "verify",
    "files",
    "cluster",
    "weight",
    "tags",
    "direction",
    "limits",
)
_NOT_BUILT = ("limits",)
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Task:
    """One problem.

    `answers` are the accepted answers, `answer` the first of them. Tasks of one `cluster` are resampled
    together. `verify` is what a strategy may ask of an answer before it is graded: it never sees the accepted
    ones. `attachments` are the files that the line names, relative to the tasks file; they and `line` take no
    part in comparison.
    """

    id: str
    messages: tuple[Message, ...]
    answer: str | None
    grader: GraderSpec
    answers: tuple[str, ...] = ()
    extract: Extract | None = None
    verify: GraderSpec | None = None
    cluster: str = ""
    weight: float = 1.0
    tags: tuple[str, ...] = ()
    direction: str = "max"
    extra: dict[str, Any] = field(default_factory=dict)
    attachments: tuple[str, ...] = field(default=(), compare=False)
    line: int = field(default=0, compare=False)

    @property
    def prompt(self) -> str:
        """The text of the last user turn."""
        return next((turn.content for turn in reversed(self.messages) if turn.role == "user"), "")


def tasks_path(experiment: Experiment, folder: Path) -> Path:
    """The tasks file: `eval.tasks_file`, else tasks.jsonl, beside the experiment.

    An experiment's own folder holds its tasks as tasks.jsonl, however the user's file is called.
    """
    named, kept = folder / (experiment.eval.tasks_file or TASKS_FILE), folder / TASKS_FILE
    return kept if kept.is_file() and not named.exists() else named


def load_tasks(experiment: Experiment, folder: Path) -> list[Task]:
    """The tasks that the experiment names, in the order of their file.

    Raises SpecError, with file and line, for anything malformed, for ids that stand twice, for a name in
    `eval.tasks` that matches nothing, and where `select: auto` finds nothing to vote on; NotSupportedYet for
    a grader or key that is valid and not built.
    """
    path = tasks_path(experiment, folder)
    tasks = read_tasks(path)
    missing = missing_tasks(experiment, tasks)
    if missing:
        line = experiment.lines.get("eval.tasks", 1)
        raise SpecError(
            _("eval.tasks names tasks that do not exist: {names}.").format(names=", ".join(missing)),
            evidence=f"{experiment.source or ''}:{line}: eval.tasks ({path})",
            fix=suggestion(missing[0], [task.id for task in tasks[:20]]),
        )
    chosen = [task for task in tasks if any(_matches(task.id, name) for name in experiment.eval.tasks)]
    _check_selection(experiment, chosen, path)
    _check_plan(experiment, chosen, path)
    return chosen


def missing_tasks(experiment: Experiment, tasks: list[Task]) -> list[str]:
    """The names and globs of `eval.tasks` that match none of the tasks."""
    return [name for name in experiment.eval.tasks if not any(_matches(task.id, name) for task in tasks)]


def _matches(task_id: str, name: str) -> bool:
    return task_id == name or fnmatch.fnmatchcase(task_id, name)


def _check_selection(experiment: Experiment, tasks: list[Task], path: Path) -> None:
    """`auto` is a majority vote where answers can be read; it never falls back on the grader."""
    for strategy in experiment.strategies:
        unverified = [task for task in tasks if task.verify is None] if strategy.select == "verifier" else []
        if unverified:
            message = _("{strategy} selects by verifier, and task {task} has no verify.")
            raise SpecError(
                message.format(strategy=strategy.name, task=unverified[0].id),
                evidence=f"{path}:{unverified[0].line}: verify",
                fix=_('Add "verify": {{"type": "python", "file": "…"}} to it.').format(),
            )
        if strategy.samples == 1 or strategy.select not in ("auto", "majority"):
            continue
        for task in tasks:
            if not has_canonical_answer(task):
                message = _("{strategy} has no way to choose among its samples of task {task}.")
                raise SpecError(
                    message.format(strategy=strategy.name, task=task.id),
                    evidence=_(
                        "{file}:{line}: no extract, and the grader {grader} yields no answer to vote on"
                    ).format(file=path, line=task.line, grader=task.grader.type),
                    fix=_("Give the task an extract pattern, or set select: first or random."),
                )


def _check_plan(experiment: Experiment, tasks: list[Task], path: Path) -> None:
    """Scores between 0 and 1 and answers that share draws: only answers of two runs may meet."""
    if experiment.sampling.plan != "nested" or experiment.sampling.runs > 1:
        return
    for task in tasks:
        if not is_binary(task.grader):
            message = _("Task {task} may score other than 0 or 1: nested then needs two runs to compare.")
            raise SpecError(
                message.format(task=task.id),
                evidence=f"{path}:{task.line}: grader: {task.grader.type}",
                fix=_("Set sampling.runs: 2 or more, or sampling.plan: pool or independent."),
            )


def read_tasks(path: Path) -> list[Task]:
    """All tasks of a file, whether the experiment names them or not. Raises SpecError as `load_tasks`."""
    tasks: list[Task] = []
    lines: dict[str, int] = {}
    for number, raw in enumerate(bytes_of(path, LARGEST_TASKS_FILE).split(b"\n"), start=1):
        if not raw.strip():
            continue
        task = _task(decoded(path, number, raw))
        if task.id in lines:
            raise SpecError(
                _("The task id {task} stands twice.").format(task=task.id),
                evidence=f"{path}:{number}: id: {task.id}",
                fix=_("Rename one of lines {first} and {second}.").format(
                    first=lines[task.id], second=number
                ),
            )
        lines[task.id] = number
        tasks.append(task)
    if not tasks:
        raise SpecError(
            _("The tasks file is empty."), evidence=str(path), fix=_("Write one JSON object a line.")
        )
    return tasks


def _task(line: TaskLine) -> Task:
    data = line.data
    for key in data:
        if key not in _KEYS and not key.startswith("x-"):
            message = _("The key {key} is not known.").format(key=key)
            raise SpecError(message, evidence=f"{line.file}:{line.number}: {key}", fix=suggestion(key, _KEYS))
    identity = data.get("id")
    if not isinstance(identity, str) or not _ID.fullmatch(identity):
        message = _("id must be a name of letters, digits, _ . : / - (128 at most).")
        raise line.error("id", message, _('Add a line-unique name: "id": "task-a".'))
    for key in _NOT_BUILT:
        if data.get(key) is not None:
            raise line.not_supported(key, key)
    direction = data.get("direction", "max")
    if direction not in ("max", "min"):
        raise line.error(
            "direction", _("direction has no such value."), suggestion(str(direction), ("max", "min"))
        )
    answers = _answers(line)
    messages = _messages(line)
    task = Task(
        id=identity,
        messages=messages,
        answer=answers[0] if answers else None,
        answers=answers,
        grader=_checked(
            line, "grader", lambda: read_grader(data.get("grader"), answers, _prompt_of(messages))
        ),
        extract=_checked(line, "extract", lambda: read_extract(data.get("extract"))),
        verify=None
        if data.get("verify") is None
        else _checked(line, "verify", lambda: read_grader(data["verify"], answers, _prompt_of(messages))),
        cluster=_text(line, "cluster", identity),
        weight=_weight(line),
        tags=_tags(line),
        direction=direction,
        extra={key: value for key, value in data.items() if key.startswith("x-")},
        line=line.number,
    )
    return _with_surroundings(task, line)


def _with_surroundings(task: Task, line: TaskLine) -> Task:
    """The task with everything its code graders need, and the names of all files that its line names."""
    folder, direction = line.file.parent, task.direction
    files = _checked(line, "files", lambda: listed_files(folder, line.data.get("files")))
    if direction == "min" and not task.grader.slow:
        raise line.error(
            "direction",
            _("direction min means nothing to the grader {name}.").format(name=task.grader.type),
            _("Remove it; only python and command graders give scores of which less can be better."),
        )
    visible = {"id": task.id, "prompt": task.prompt, "tags": list(task.tags), **task.extra}
    hidden = {**visible, "answer": task.answer, "answers": list(task.answers)}
    sign = -1 if direction == "min" else 1
    grader = _checked(line, "grader", lambda: surrounded(task.grader, folder, files, hidden, sign=sign))
    verified = task.verify
    verify = verified and _checked(
        line, "verify", lambda: surrounded(verified, folder, files, visible, sign=1)
    )
    own = [name for one in (grader, verify) if one is not None for name in own_files(folder, one)]
    prompt_file = [line.data["prompt_file"]] if line.data.get("prompt_file") else []
    if prompt_file:
        _checked(line, "prompt_file", lambda: refuse_misplaced(folder, prompt_file[0]))
    attachments = tuple(dict.fromkeys((*prompt_file, *files, *own)))
    return replace(task, grader=grader, verify=verify, attachments=attachments)


def _prompt_of(messages: tuple[Message, ...]) -> str:
    return next((turn.content for turn in reversed(messages) if turn.role == "user"), "")


def _checked(line: TaskLine, key: str, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except GraderFault as fault:
        if fault.not_built:
            raise line.not_supported(key, str(fault)) from fault
        raise line.error(key, str(fault), fault.fix) from fault


def _text(line: TaskLine, key: str, default: str) -> str:
    value = line.data.get(key)
    if value is None:
        return default
    if not isinstance(value, str) or not value.strip():
        raise line.error(key, _("{key} must be text.").format(key=key), _("Put the value in double quotes."))
    return value


def _weight(line: TaskLine) -> float:
    weight = line.data.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= 1e6:
        raise line.error("weight", _("weight must be a number above 0."), _("Give a number, 1 by default."))
    return float(weight)


def _tags(line: TaskLine) -> tuple[str, ...]:
    tags = line.data.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise line.error("tags", _("tags must be a list of words."), _('Write ["one", "two"].'))
    return tuple(tags)


def _answers(line: TaskLine) -> tuple[str, ...]:
    """`answer` as a tuple of texts: a text, a number, or a list of them."""
    given = line.data.get("answer")
    if given is None:
        return ()
    several = given if isinstance(given, list) else [given]
    good = all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in several)
    if not several or not good:
        message = _("answer must be text, a number, or a list of them.")
        raise line.error("answer", message, _("Put true, false and null in double quotes if they are meant."))
    return tuple(one if isinstance(one, str) else f"{one}" for one in several)


def _messages(line: TaskLine) -> tuple[Message, ...]:
    data = line.data
    given = [key for key in ("prompt", "messages", "prompt_file") if data.get(key) is not None]
    if len(given) != 1:
        what = (
            _("{first} and {second} both stand here").format(first=given[0], second=given[1]) if given else ""
        )
        message = _("A task needs exactly one of prompt, messages and prompt_file.")
        raise line.error(what or "prompt", message, _("Keep one of them."))
    if given == ["messages"]:
        return _turns(line)
    text = _prompt_file(line) if given == ["prompt_file"] else _text(line, "prompt", "")
    return (Message("user", text),)


def _turns(line: TaskLine) -> tuple[Message, ...]:
    try:
        turns = msgspec.convert(line.data["messages"], tuple[Message, ...])
    except msgspec.ValidationError as error:
        message = _("messages must be a list of turns with role and content.")
        fix = _('Write [{{"role": "user", "content": "…"}}]: {problem}.').format(problem=error)
        raise line.error("messages", message, fix) from error
    for turn in turns:
        if turn.role not in _ROLES:
            fix = suggestion(turn.role, _ROLES)
            raise line.error("messages", _("There is no role {role}.").format(role=turn.role), fix)
    if not turns or turns[-1].role != "user":
        raise line.error("messages", _("The last turn must be the user's."), _("End with a user turn."))
    return turns


def _prompt_file(line: TaskLine) -> str:
    """The text of `prompt_file`, which must lie in the folder of the tasks file."""
    folder = line.file.parent.resolve()
    path = (folder / _text(line, "prompt_file", "")).resolve()
    if not path.is_relative_to(folder):
        raise line.error(
            "prompt_file",
            _("prompt_file lies outside the experiment's folder."),
            _("Move it into the folder."),
        )
    if not path.is_file():
        fix = _("Name a file beside {tasks}.").format(tasks=line.file.name)
        raise line.error("prompt_file", _("There is no such prompt file."), fix)
    try:
        return bytes_of(path, LARGEST_PROMPT_FILE).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise line.error("prompt_file", _("The prompt is not UTF-8 text."), _("Save it as UTF-8.")) from error
