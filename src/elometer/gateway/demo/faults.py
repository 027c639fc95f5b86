"""Planted faults: nine ways in which a set-up goes wrong without looking wrong. Each is one row.

A fault lies in the gateway (`behaviour`), in the client's environment (`environment`), in the base URL that
the client is given (`base_url`), or in the model that is asked for (`model`). In texts, `{root}` stands for
the gateway's root and `{key}` for the key, so that no row ever holds one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _

KEY_VARIABLE = "ELOMETER_DEMO_KEY"
MODEL = "demo-agent"
SMALL_MODEL = "demo-agent-mini"
MODELS = (MODEL, SMALL_MODEL)
# Looks like a key that once was good; the gateway does not know it.
RETIRED_KEY = "elometer-demo-retired-3f9c51d2a7"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the gateway deviates from a well-behaved one. None leaves a setting as it was."""

    rate_429: float | None = None
    cached_replies: bool = False  # one answer per prompt, whatever the seed
    quota_as_401: bool = False  # the token budget is used up, and said so with the status of a bad key


@dataclass(frozen=True, slots=True)
class Fault:
    """One planted fault; `summary` is what the picker shows, not what a check may read."""

    id: str
    summary: str
    behaviour: Behaviour = Behaviour()
    environment: Mapping[str, str] = field(default_factory=dict)
    base_url: str = "{root}"
    model: str = MODEL


_ROWS = (
    Fault(
        "two-auth-variables",
        "both of Claude Code's key variables are set, one of them with an old key",
        environment={"ANTHROPIC_AUTH_TOKEN": "{key}", "ANTHROPIC_API_KEY": RETIRED_KEY},
    ),
    Fault(
        "doubled-v1", "the base URL already ends in /v1, and the client adds another", base_url="{root}/v1"
    ),
    Fault(
        "missing-v1",
        "an OpenAI client is given the root without /v1",
        environment={"OPENAI_BASE_URL": "{root}", "OPENAI_API_KEY": "{key}"},
    ),
    Fault(
        "model-out-of-scope", "the experiment asks for a model that the key may not use", model=SMALL_MODEL
    ),
    Fault("429-storm", "six of ten attempts are refused for load", behaviour=Behaviour(rate_429=0.6)),
    Fault(
        "small-fast-leak",
        "Claude Code sends side calls to a small fast model outside the boundary",
        environment={"ANTHROPIC_MODEL": MODEL, "ANTHROPIC_DEFAULT_HAIKU_MODEL": SMALL_MODEL},
    ),
    Fault(
        "cached-replies",
        "the gateway answers equal prompts from a cache, so k samples are one",
        behaviour=Behaviour(cached_replies=True),
    ),
    Fault(
        "stale-shell-variable",
        "an old value of the key variable in the shell wins over the right one",
        environment={KEY_VARIABLE: RETIRED_KEY},
    ),
    Fault(
        "quota-as-401",
        "the key's quota is used up, and the gateway says so with status 401",
        behaviour=Behaviour(quota_as_401=True),
    ),
)
FAULTS: dict[str, Fault] = {row.id: row for row in _ROWS}


def fault(name: str) -> Fault:
    """The fault of a name; raises UsageError with the nearest name where there is none."""
    known = FAULTS.get(name)
    if known is None:
        near = difflib.get_close_matches(name, FAULTS, n=1)
        fix = _("Did you mean '{name}'?").format(name=near[0]) if near else ""
        raise UsageError(
            _("There is no planted fault '{name}'.").format(name=name),
            evidence=_("Known faults: {names}.").format(names=", ".join(FAULTS)),
            fix=fix or _("Take one of these names."),
        )
    return known


def behaviour_of(names: Iterable[str]) -> Behaviour:
    """The behaviour of a gateway with these faults; raises UsageError on an unknown name."""
    merged = Behaviour()
    for name in names:
        row = fault(name).behaviour
        changes: dict[str, Any] = {
            attribute: getattr(row, attribute)
            for attribute in ("rate_429", "cached_replies", "quota_as_401")
            if getattr(row, attribute) not in (None, False)
        }
        merged = replace(merged, **changes)
    return merged


def planted(row: Fault, root: str) -> dict[str, object]:
    """What a client must take over for the fault to be there; `{key}` is left for it to fill in."""
    return {
        "fault": row.id,
        "base_url": row.base_url.replace("{root}", root),
        "model": row.model,
        "environment": {name: value.replace("{root}", root) for name, value in row.environment.items()},
    }
