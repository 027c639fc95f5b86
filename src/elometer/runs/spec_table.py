"""The keys of experiment.yaml as a table of rules, and which of them this version does not act on yet."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, available_timezones

import yaml

from elometer.core.errors import NotSupportedYet
from elometer.core.text import gettext as _
from elometer.runs.spec_read import Document, Value, looks_like_a_key, nearest
from elometer.runs.spec_rules import (
    Rule,
    boolean,
    free,
    integer,
    listed,
    mapping_of,
    nullable,
    number,
    one_of,
    one_or_more,
    section,
    text,
)

LARGEST_SEED = 2**63 - 1
MOST_SAMPLES = 1024
MOST_ROUNDS = 64
MOST_RUNS = 10_000
SELECTS = ("auto", "majority", "first", "random", "verifier", "judge", "oracle")
ROLES = ("contestant", "control", "ceiling")
# Parameters that the experiment itself decides; a request body never takes them from `params`.
RESERVED_PARAMETERS = {
    "n": "samples are separate requests, each with its own bill",
    "model": "it stands in agent.model",
    "messages": "they come from the task",
    "stream": "the wire decides it",
    "seed": "it is derived for every sample from the key `seed`",
}

_tokens = integer(1, 10**15)
_name = text(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", _("a name of letters, digits, _ . - (64 at most)"))


def timezone_of(name: str) -> tzinfo:
    """The time zone of a name; raises KeyError for an unknown one."""
    if name == "UTC":  # known without the system's tables
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError) as error:
        raise KeyError(name) from error


def _timezone(value: Value) -> str:
    name: str = text()(value)
    try:
        timezone_of(name)
    except KeyError as error:
        close = nearest(name, available_timezones())
        fix = _("Did you mean {name}?").format(name=close) if close else _("Write UTC or Europe/Berlin.")
        raise value.error(_("{key} is no time zone.").format(key=value.key), fix) from error
    return name


def _base_url(value: Value) -> str:
    """An http(s) URL; user information in it would be a secret in a file, so it is refused and not shown."""
    url: str = text(show=False)(value).strip()
    fix = _("Write the gateway's root, such as https://gateway.example/api")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise value.error(_("{key} is no URL.").format(key=value.key), fix, show=False) from error
    if "@" in parts.netloc:
        message = _("{key} holds a user name or password.").format(key=value.key)
        raise value.error(message, _("Remove it: the key is read from key_env."), show=False)
    if parts.scheme not in ("http", "https") or not host or port == 0 or any(c.isspace() for c in url):
        raise value.error(_("{key} is no http(s) URL.").format(key=value.key), fix)
    return url


def _label(value: Value) -> str:
    """A key's label; never shown in an error, since people paste the key itself here."""
    label: str = text(r"[\w.\- ]{1,64}", _("a label: letters, digits, _ . -, 64 at most"), show=False)(value)
    if looks_like_a_key(label):
        message = _("{key} looks like a key, and a key's value never stands in this file.")
        fix = _("Give the key a name here, remove its value, and consider the key exposed.")
        raise value.error(message.format(key=value.key), fix, show=False)
    return label


def _moment(value: Value) -> date | datetime:
    """A date or a timestamp, quoted or not; the time zone is applied by the caller."""
    plain = value.plain() if isinstance(value.node, yaml.ScalarNode) else None
    if isinstance(plain, date):
        return plain
    if isinstance(plain, str):
        for read in (date.fromisoformat, datetime.fromisoformat):
            try:
                return read(plain.strip())
            except ValueError:
                continue
    raise value.error(
        _("{key} is neither a date nor a time.").format(key=value.key),
        _("Write 2026-12-31 (the end of that day) or 2026-12-31T18:00:00Z."),
    )


def first_moment_after(moment: date | datetime, zone: tzinfo) -> datetime:
    """The first moment at which a key that expires at `moment` may no longer be used.

    A bare date stands for the end of that day in `zone`; a time without an offset is read in `zone`.
    """
    if isinstance(moment, datetime):
        return moment if moment.tzinfo else moment.replace(tzinfo=zone)
    return datetime.combine(moment + timedelta(days=1), time(), zone)


def _parameters(value: Value) -> dict[str, Any]:
    known: dict[str, Rule] = {
        "temperature": nullable(number(0, 2)),
        "top_p": nullable(number(0, 1, above=True)),
        "max_tokens": nullable(integer(1, 10_000_000)),
    }
    result: dict[str, Any] = section(known, free_keys=True)(value)
    for name, entry in value.pairs().items():
        if name in RESERVED_PARAMETERS:
            why = RESERVED_PARAMETERS[name]
            message = _("{key} is not taken: {why}.").format(key=entry.key, why=why)
            raise entry.error(message, _("Remove the line."))
    return {name: entry for name, entry in result.items() if entry is not None}


_BOUNDARY = section(
    {
        "allowed_models": nullable(listed(text(), unique=True, least=1)),
        "daily_budget_tokens": nullable(_tokens),
        "headroom": number(0, 10),
        "max_concurrency": nullable(integer(1, 4096)),
        "expires_at": nullable(_moment),
    }
)

_GATEWAY = section(
    {
        "base_url": nullable(_base_url),
        "key_label": nullable(_label),
        "key_env": nullable(text(r"[A-Za-z_][A-Za-z0-9_]*", _("the name of a variable"), show=False)),
        "key_boundary": nullable(_BOUNDARY),
        "served_as": nullable(mapping_of(one_or_more(text()))),
        "timezone": _timezone,
    }
)

_STRATEGY_FIELDS = section(
    {
        "name": _name,
        "samples": integer(1, MOST_SAMPLES),
        "select": one_of(*SELECTS),
        "role": one_of(*ROLES),
        "rounds": integer(1, MOST_ROUNDS),
        "keep": one_of("last"),
    },
    required=("name",),
)


def _strategy(value: Value) -> tuple[Value, dict[str, Any]]:
    """A short form (`sample_4`) or a mapping, with its place, since expansion may still refuse it."""
    if isinstance(value.node, yaml.MappingNode):
        return value, _STRATEGY_FIELDS(value)
    return value, {"name": _name(value)}


_AGENT = section(
    {
        "framework": nullable(text()),
        "kind": one_of("http", "command", "replay", "demo"),
        "profile": nullable(_name),
        "model": nullable(text()),
        "protocol": one_of("chat", "responses", "messages"),
        "params": nullable(_parameters),
        "system": nullable(text(empty=True)),
        "limits": nullable(
            section(
                {
                    "seconds": nullable(number(0, 86_400, above=True)),
                    "tokens": nullable(_tokens),
                    "turns": nullable(integer(1, 10_000)),
                }
            )
        ),
        "strategy": one_of("sample_k", "random_k", "oracle_k", "rounds_n"),
        "k_values": listed(integer(1, MOST_SAMPLES), unique=True, least=1),
        "select": one_of(*SELECTS),
        "strategies": nullable(listed(_strategy, least=1)),
        "command": nullable(listed(text(empty=True), least=1)),
        "continue_command": nullable(listed(text(empty=True), least=1)),
        "stdin": nullable(text(empty=True)),
        "workdir": nullable(one_of("copy", "empty", "git-worktree")),
        "answer": nullable(text()),
        "session": nullable(text()),
        "usage": nullable(text()),
    }
)

_EVAL = section(
    {
        "tasks": one_or_more(text()),
        "tasks_file": nullable(text()),
        "bradley_terry": boolean,
        "elo_scale": number(0, 1e6, above=True),
        "elo_base": number(-1e9, 1e9),
        "elo_anchor": nullable(_name),
        "ties": one_of("half", "drop", "davidson"),
        "tie_epsilon": number(0, 1e12),
        "estimator": one_of("firth", "mle", "davidson"),
        "aggregation": one_of("pooled", "per-task", "per-task-standardised"),
        "compare": one_of("score", "judge"),
        "judge": nullable(
            section({"profile": _name, "rubric": text(), "swap": one_of("both"), "model": nullable(text())})
        ),
        "token_basis": one_of("total", "output", "uncached"),
        "ci": section(
            {
                "method": one_of("cr1", "task_bootstrap"),
                "level": number(0.5, 0.9999),
                "replicates": integer(100, 1_000_000),
            }
        ),
    }
)


def _backoff(value: Value) -> tuple[float, float]:
    bounds: tuple[float, ...] = listed(number(0, 3600))(value)
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise value.error(
            _("{key} needs the shortest and the longest wait.").format(key=value.key),
            _("Write [1, 60]: seconds."),
        )
    return bounds[0], bounds[1]


TOP: dict[str, Rule] = {
    "schema": integer(1, 1),
    # Names a folder: it may not begin with a dot or hold a slash.
    "experiment_id": text(
        r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", _("a name of letters, digits, _ . - (100 at most)")
    ),
    "seed": nullable(integer(0, LARGEST_SEED)),
    "notes": nullable(text(empty=True)),
    "taotoken": _GATEWAY,
    "gateway": _GATEWAY,
    "profiles": nullable(listed(free)),
    "agent": nullable(_AGENT),
    "sampling": nullable(
        section(
            {
                "plan": one_of("independent", "nested", "pool"),
                "runs": integer(1, MOST_RUNS),
                "pool_size": nullable(integer(1, MOST_SAMPLES)),
            }
        )
    ),
    "eval": nullable(_EVAL),
    "schedule": nullable(
        section(
            {
                "design": one_of("blocks"),
                "canary_every": nullable(integer(1, 1_000_000)),
                "half_check": boolean,
            }
        )
    ),
    "retry": nullable(section({"infra": integer(0, 20), "backoff": _backoff, "agent_crash": integer(0, 20)})),
    "stop": nullable(
        section(
            {
                "spend_tokens": nullable(_tokens),
                "deadline": nullable(_moment),
                "ci_halfwidth_elo": nullable(number(0, 10_000, above=True)),
                "looks": listed(number(0, 1, above=True), unique=True, least=1),
                "on_stranger": one_of("pause", "record"),
            }
        )
    ),
    "archive": nullable(
        section({"dir": text(), "keep_text": boolean, "redact": nullable(listed(text(), unique=True))})
    ),
}

read_top = section(TOP, required=("experiment_id",))

# Dotted key → the values that this version acts on. Everything else the format allows is refused, so that no
# key is ever silently without effect.
BUILT: dict[str, tuple[Any, ...]] = {
    "profiles": (None, ()),
    "agent.kind": ("http", "demo"),
    "agent.select": ("auto", "majority", "first", "random", "verifier", "oracle"),
    "agent.command": (None,),
    "agent.continue_command": (None,),
    "agent.stdin": (None,),
    "agent.workdir": (None,),
    "agent.answer": (None,),
    "agent.session": (None,),
    "agent.usage": (None,),
    "agent.limits.tokens": (None,),
    "agent.limits.turns": (None,),
    "eval.bradley_terry": (True,),
    "eval.compare": ("score",),
    "eval.judge": (None,),
    "eval.token_basis": ("total",),
    "eval.ci.method": ("cr1",),
    "retry.agent_crash": (0,),
    "archive.dir": ("archive",),
    "archive.keep_text": (True,),
    "archive.redact": (None, ()),
}


def refuse_unbuilt(data: dict[str, Any], document: Document) -> None:
    """Raise NotSupportedYet for the first key whose value is valid and not acted on by this version."""
    for key, accepted in BUILT.items():
        value: Any = data
        for part in key.split("."):
            value = value.get(part, _ABSENT) if isinstance(value, dict) else _ABSENT
        if value is not _ABSENT and value not in accepted:
            raise not_supported(document, key, document.key_lines[key], accepted[0])


def not_supported(document: Document, key: str, line: int, instead: Any) -> NotSupportedYet:
    """The error for a valid key that is used and not built."""
    if instead is None or instead == ():
        fix = _("Remove the line {line} for now.").format(line=line)
    else:
        fix = _("Use {instead} for now.").format(instead=instead)
    return NotSupportedYet(
        _("{key} with this value is valid but not supported yet.").format(key=key),
        evidence=f"{document.file}:{line}: {key}",
        fix=fix,
    )


_ABSENT = object()
