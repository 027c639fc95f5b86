"""Reads the `grader` and `extract` of a task: options as tables, faults as GraderFault."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from elometer.core.text import gettext as _
from elometer.runs.graders.child import Limits
from elometer.runs.graders.choices import chosen, options_in
from elometer.runs.graders.code import CommandGrader, PythonGrader, unknown_placeholder
from elometer.runs.graders.kinds import Choice, Closeness, Contains, Exact, GraderSpec, Numeric, Regex
from elometer.runs.graders.numbers import parse_number
from elometer.runs.graders.patterns import captured, compile_pattern, last_match
from elometer.runs.spec_read import suggestion

NOT_BUILT = ("judge",)
_FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+#.-]*)[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_THOUGHT = re.compile(r"\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)


class GraderFault(Exception):
    """What is wrong with a grader or an extract, and what to do; `not_built` where it is valid."""

    def __init__(self, message: str, fix: str = "", *, not_built: bool = False) -> None:
        super().__init__(message)
        self.fix = fix
        self.not_built = not_built


@dataclass(frozen=True, slots=True)
class Extract:
    """How an answer is found in a text: the last match of a pattern, or the last code block of a language."""

    source: str
    pattern: re.Pattern[str] | None = None
    language: str | None = None

    def find(self, text: str) -> str | None:
        """The answer, stripped; None where there is none. Raises PatternTimeout."""
        if self.pattern is None:
            blocks = [body for language, body in _FENCE.findall(text) if language in (self.language, "")]
            return blocks[-1].strip("\n") if blocks else None
        match = last_match(self.pattern, text)
        found = captured(match).strip() if match else ""
        return found or None


def without_thought(text: str) -> str:
    """The text after a leading <think> part; a part that is never closed leaves nothing."""
    match = _THOUGHT.match(text)
    return text[match.end() :] if match else text


def read_extract(given: Any) -> Extract | None:
    """The `extract` of a task. Raises GraderFault."""
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        raise GraderFault(_("extract must be a pattern or code:LANGUAGE."), _("Put it in double quotes."))
    if given.startswith("code:"):
        return Extract(given, language=given.removeprefix("code:"))
    return Extract(given, pattern=_pattern(given, ignore_case=False))


def read_grader(given: Any, answers: tuple[str, ...], prompt: str) -> GraderSpec:
    """The `grader` of a task: a name, an object with `type`, or absent (exact). Raises GraderFault."""
    if given is None:
        if not answers:
            raise GraderFault(_("The task has neither answer nor grader."), _("Add an answer."))
        given = "exact"
    options = {"type": given} if isinstance(given, str) else given
    if not isinstance(options, dict) or not isinstance(options.get("type"), str):
        raise GraderFault(_("grader must be a name or an object with type."), _('Write "grader": "exact".'))
    name = options["type"]
    if name in NOT_BUILT:
        raise GraderFault(_("The grader {name}").format(name=name), not_built=True)
    if name not in GRADERS:
        message = _("There is no grader {name}.").format(name=name)
        raise GraderFault(message, suggestion(name, (*GRADERS, *NOT_BUILT)))
    known, build = GRADERS[name]
    for key, value in options.items():
        if key != "type" and key not in known:
            raise GraderFault(
                _("The grader {name} has no option {key}.").format(name=name, key=key), suggestion(key, known)
            )
        if key != "type" and not known[key](value):
            raise GraderFault(
                _("The option {key} has no such value.").format(key=key), _("See the grader's options.")
            )
    if name in ("exact", "numeric", "choice") and not answers:
        raise GraderFault(_("The grader {name} needs an answer.").format(name=name), _("Add an answer."))
    return build(options, answers, prompt)


def _pattern(source: str, *, ignore_case: bool) -> re.Pattern[str]:
    try:
        return compile_pattern(source, ignore_case=ignore_case)
    except ValueError as error:
        message = _("The pattern does not compile: {problem}.").format(problem=error)
        raise GraderFault(message, _("Escape backslashes twice in JSON: \\\\d.")) from error


def _exact(options: Mapping[str, Any], answers: tuple[str, ...], prompt: str) -> Exact:
    return Exact(answers, options.get("strip", True), options.get("ignore_case", False), spec=options)


def _numeric(options: Mapping[str, Any], answers: tuple[str, ...], prompt: str) -> Numeric:
    mark = options.get("decimal", ".")
    truths = [parse_number(answer, decimal_mark=mark) for answer in answers]
    if None in truths:
        wrong = answers[truths.index(None)]
        raise GraderFault(
            _("The answer {answer} is no number.").format(answer=wrong), _("Give a number, or use exact.")
        )
    kind = Closeness if options.get("score") == "closeness" else Numeric
    return kind(
        tuple(truth for truth in truths if truth is not None),
        Decimal(str(options.get("tolerance", 0))),
        Decimal(str(options.get("rel_tolerance", 0))),
        mark,
        spec=options,
    )


def _regex(options: Mapping[str, Any], answers: tuple[str, ...], prompt: str) -> Regex:
    if "pattern" not in options:
        raise GraderFault(_("The grader regex needs a pattern."), _('Add "pattern": "…" to the grader.'))
    pattern = _pattern(options["pattern"], ignore_case=options.get("ignore_case", False))
    if answers and not pattern.groups:
        message = _("The pattern has no group, so the answer would never be looked at.")
        raise GraderFault(message, _("Put the part to compare in (…), or remove the answer."))
    return Regex(pattern, tuple(answer.strip() for answer in answers), spec=options)


def _choice(options: Mapping[str, Any], answers: tuple[str, ...], prompt: str) -> Choice:
    given = options.get("options")
    if isinstance(given, list):
        given = {chr(ord("A") + index): text for index, text in enumerate(given)}
    letters = given or options_in(prompt)
    if not letters:
        message = _("No options can be read from the prompt.")
        raise GraderFault(message, _('Write them as A) … B) …, or add "options": ["…", "…"] to the grader.'))
    right = {answer: chosen(answer, letters) for answer in answers}
    for answer, letter in right.items():
        if letter is None:
            message = _("The answer {answer} is none of the options.").format(answer=answer)
            raise GraderFault(message, suggestion(answer, letters))
    return Choice(letters, frozenset(letter for letter in right.values() if letter), spec=options)


def _contains(options: Mapping[str, Any], answers: tuple[str, ...], prompt: str) -> Contains:
    parts = {name: tuple(options.get(name, ())) for name in ("all", "any", "none")}
    if not any(parts.values()):
        parts["all"] = answers[:1]
        parts["any"] = answers[1:] and answers
        if len(answers) > 1:
            parts["all"] = ()
    if not any(parts.values()):
        raise GraderFault(_("The grader contains needs all, any or none."), _('Add "all": ["…"].'))
    return Contains(**parts, ignore_case=options.get("ignore_case", False), spec=options)


def _limits(options: Mapping[str, Any]) -> Limits:
    plain = Limits()
    return Limits(options.get("seconds", plain.seconds), options.get("memory_mb", plain.memory_mb))


def _python(options: Mapping[str, Any], answers: tuple[str, ...], prompt: str) -> PythonGrader:
    if "file" not in options:
        raise GraderFault(_("The grader python needs a file."), _('Add "file": "grade.py" to the grader.'))
    return PythonGrader(_limits(options), file=options["file"], spec=options)


def _command(options: Mapping[str, Any], answers: tuple[str, ...], prompt: str) -> CommandGrader:
    if "argv" not in options:
        message = _("The grader command needs an argv.")
        raise GraderFault(message, _('Add "argv": ["./score", "{{answer_file}}"] to it.').format())
    unknown = unknown_placeholder(options["argv"])
    if unknown is not None:
        message = _("The placeholder {{{name}}} is not known.").format(name=unknown)
        raise GraderFault(message, _("Known are {answer_file}, {task_file} and {workdir}."))
    return CommandGrader(_limits(options), argv=tuple(options["argv"]), spec=options)


def files_of(grader: GraderSpec) -> tuple[str, ...]:
    """Relative paths that a grader names: its file, or words of its argv that may be files."""
    if isinstance(grader, PythonGrader):
        return (grader.file,)
    return grader.argv if isinstance(grader, CommandGrader) else ()


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _tolerance(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e300


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _options(value: Any) -> bool:
    if isinstance(value, dict):
        return 1 < len(value) <= 26 and all(
            re.fullmatch(r"[A-Z]", key) and isinstance(text, str) and text for key, text in value.items()
        )
    return _texts(value) and 1 < len(value) <= 26


def _relative(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 3600


def _megabytes(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 16 <= value <= 1 << 20


_Options = Mapping[str, Callable[[Any], bool]]
_Build = Callable[[Mapping[str, Any], tuple[str, ...], str], GraderSpec]

# name → the options it takes with what makes a value valid, and how it is made
GRADERS: dict[str, tuple[_Options, _Build]] = {
    "exact": ({"strip": _flag, "ignore_case": _flag}, _exact),
    "numeric": (
        {
            "tolerance": _tolerance,
            "rel_tolerance": _tolerance,
            "decimal": lambda value: value in (".", ","),
            "score": lambda value: value in ("match", "closeness"),
        },
        _numeric,
    ),
    "regex": (
        {"pattern": lambda value: isinstance(value, str) and bool(value), "ignore_case": _flag},
        _regex,
    ),
    "choice": ({"options": _options}, _choice),
    "python": ({"file": _relative, "seconds": _seconds, "memory_mb": _megabytes}, _python),
    "command": (
        {
            "argv": lambda value: _texts(value) and bool(value),
            "seconds": _seconds,
            "memory_mb": _megabytes,
        },
        _command,
    ),
    "contains": ({"all": _texts, "any": _texts, "none": _texts, "ignore_case": _flag}, _contains),
}
