"""An experiment as experiment.yaml describes it: types, reading, the resolved form and its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from elometer.core.attempt import Protocol
from elometer.core.limits import Boundary

Select = Literal["auto", "majority", "first", "random", "verifier", "judge", "oracle"]
Role = Literal["contestant", "control", "ceiling"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to spend test-time compute: `samples` answers, of which the rule `select` keeps one.

    With `rounds` above 1 one answer is revised round by round and the last one is kept; then `samples` is 1.
    A `ceiling` is drawn beside the fit and takes no part in it; a `control` must come out equal to sample_1.
    """

    name: str
    samples: int = 1
    select: Select = "first"
    role: Role = "contestant"
    rounds: int = 1

    @property
    def calls(self) -> int:
        """Calls in a block: one for each sample, or one for each round."""
        return self.samples * self.rounds


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway, the key's label and variable, and the key's boundary (block `taotoken` or `gateway`).

    `base_url` is the root that addresses are built from; `written_url` is what the file says.
    """

    base_url: str = ""
    key_label: str = ""
    key_env: str | None = None
    served_as: dict[str, tuple[str, ...]] = field(default_factory=dict)
    timezone: str = "UTC"
    boundary: Boundary = field(default_factory=Boundary)
    headroom: float = 0.20
    written_url: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """Bounds of one answer, the same for every strategy; None means none."""

    seconds: float | None = None
    tokens: int | None = None
    turns: int | None = None


@dataclass(frozen=True, slots=True)
class Agent:
    """Who answers and by which strategies; `strategies` are expanded, in the order of the file."""

    framework: str = ""
    kind: Literal["http", "command", "replay", "demo"] = "http"
    profile: str | None = None
    model: str = ""
    protocol: Protocol = "chat"
    params: dict[str, Any] = field(default_factory=dict)
    system: str | None = None
    limits: AgentLimits = field(default_factory=AgentLimits)
    select: Select = "auto"
    strategies: tuple[Strategy, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """How draws are made and how often each task is repeated."""

    plan: Literal["independent", "nested", "pool"] = "independent"
    runs: int = 3
    pool_size: int | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """How intervals are made: task-cluster CR1 with t(T - 1) at this two-sided level."""

    method: Literal["cr1", "task_bootstrap"] = "cr1"
    level: float = 0.95
    replicates: int = 2000


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Tasks, pairing and fit (block `eval`). `tasks` holds ids and globs; `elo_anchor` names a strategy."""

    tasks: tuple[str, ...] = ("*",)
    tasks_file: str | None = None
    bradley_terry: bool = True
    elo_scale: float = 400.0
    elo_base: float = 1000.0
    elo_anchor: str = ""
    ties: Literal["half", "drop", "davidson"] = "half"
    tie_epsilon: float = 0.0
    estimator: Literal["firth", "mle", "davidson"] = "firth"
    aggregation: Literal["pooled", "per-task", "per-task-standardised"] = "pooled"
    compare: Literal["score", "judge"] = "score"
    judge: dict[str, str] | None = None
    token_basis: Literal["total", "output", "uncached"] = "total"  # noqa: S105
    ci: Interval = field(default_factory=Interval)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Order of blocks and checks on drift."""

    design: Literal["blocks"] = "blocks"
    canary_every: int | None = None
    half_check: bool = False


@dataclass(frozen=True, slots=True)
class Retry:
    """Tries after the first for failures of the way there, and the waits between them in seconds."""

    infra: int = 4
    backoff: tuple[float, float] = (1.0, 60.0)
    agent_crash: int = 0


@dataclass(frozen=True, slots=True)
class Stop:
    """When to end early; `deadline` is the first moment at which nothing new may be asked (aware)."""

    spend_tokens: int | None = None
    deadline: datetime | None = None
    ci_halfwidth_elo: float | None = None
    looks: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    on_stranger: Literal["pause", "record"] = "pause"


@dataclass(frozen=True, slots=True)
class Archive:
    """What is packed at the end of a start."""

    dir: str = "archive"
    keep_text: bool = True
    redact: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment.yaml with every default filled in.

    `extra` holds the `x-*` keys by dotted key. `source` and `lines` (dotted key → line) say where it was read
    and take no part in comparison.
    """

    experiment_id: str
    gateway: Gateway
    agent: Agent
    seed: int
    notes: str = ""
    sampling: Sampling = field(default_factory=Sampling)
    eval: Evaluation = field(default_factory=Evaluation)
    schedule: Schedule = field(default_factory=Schedule)
    retry: Retry = field(default_factory=Retry)
    stop: Stop = field(default_factory=Stop)
    archive: Archive = field(default_factory=Archive)
    extra: dict[str, Any] = field(default_factory=dict)
    source: Path | None = field(default=None, compare=False)
    lines: dict[str, int] = field(default_factory=dict, compare=False)

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """The strategies, in the order of the file."""
        return self.agent.strategies

    @property
    def contestants(self) -> tuple[Strategy, ...]:
        """The strategies that are compared in the fit: all but ceilings."""
        return tuple(strategy for strategy in self.agent.strategies if strategy.role != "ceiling")


def default_seed(experiment_id: str) -> int:
    """The seed of an experiment that names none: the first 31 bits of BLAKE2b over its id."""
    digest = hashlib.blake2b(experiment_id.encode(), digest_size=4, person=b"elometer-seed").digest()
    return int.from_bytes(digest, "big") >> 1


def load_experiment(path: Path) -> Experiment:
    """The experiment of a file.

    Raises SpecError for every fault, with file, line, key, value and the nearest known name, and
    NotSupportedYet for a valid key that this version does not act on.
    """
    from elometer.runs.spec_build import build_experiment  # yaml is loaded only where a file is read

    return build_experiment(path)


def resolved(experiment: Experiment) -> dict[str, Any]:
    """Every key of the experiment with its value, named and ordered as in experiment.yaml."""
    gateway, boundary, agent = experiment.gateway, experiment.gateway.boundary, experiment.agent
    own, nested = _split_extra(experiment.extra)
    data: dict[str, Any] = {
        "schema": 1,
        "experiment_id": experiment.experiment_id,
        "seed": experiment.seed,
        "notes": experiment.notes,
        "taotoken": {
            "base_url": gateway.base_url or None,
            "key_label": gateway.key_label or None,
            "key_env": gateway.key_env,
            "key_boundary": {
                "allowed_models": list(boundary.allowed_models) or None,
                "daily_budget_tokens": boundary.daily_budget_tokens,
                "headroom": gateway.headroom,
                "max_concurrency": boundary.max_concurrency,
                "expires_at": boundary.expires_at.isoformat() if boundary.expires_at else None,
            },
            "served_as": {name: list(served) for name, served in sorted(gateway.served_as.items())},
            "timezone": gateway.timezone,
        },
        "agent": {
            "framework": agent.framework or None,
            "kind": agent.kind,
            "profile": agent.profile,
            "model": agent.model,
            "protocol": agent.protocol,
            "params": agent.params,
            "system": agent.system,
            "limits": asdict(agent.limits),
            "select": agent.select,
            "strategies": [asdict(strategy) for strategy in agent.strategies],
        },
        "sampling": asdict(experiment.sampling),
        "eval": asdict(experiment.eval),
        "schedule": asdict(experiment.schedule),
        "retry": asdict(experiment.retry),
        "stop": {
            **asdict(experiment.stop),
            "deadline": experiment.stop.deadline.isoformat() if experiment.stop.deadline else None,
        },
        "archive": asdict(experiment.archive),
    }
    for parents, name, value in nested:
        place = data
        for parent in parents:
            place = place[parent]
        place[name] = value
    result: dict[str, Any] = _lists({**data, **own})
    return result


def _split_extra(extra: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[list[str], str, Any]]]:
    """Top-level `x-*` keys, and (section names, key, value) of the others."""
    own = {key: value for key, value in extra.items() if key.startswith("x-")}
    nested = []
    for key, value in extra.items():
        if key not in own:
            parents, name = key.split(".x-", 1)
            if "[" not in parents:
                nested.append((parents.split("."), f"x-{name}", value))
    return own, nested


def _lists(value: Any) -> Any:
    """Tuples as lists, since YAML has no tuples."""
    if isinstance(value, dict):
        return {key: _lists(entry) for key, entry in value.items()}
    return [_lists(entry) for entry in value] if isinstance(value, list | tuple) else value


def resolved_yaml(experiment: Experiment) -> str:
    """experiment.resolved.yaml: all defaults written out, the same text for the same experiment.

    It reads back as the same experiment.
    """
    import yaml

    class Dumper(yaml.SafeDumper):
        """Without anchors: the same list twice is written twice."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    text: str = yaml.dump(resolved(experiment), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text


# What may change between two starts of one experiment: it moves no answer, no comparison and no attribution.
FREE_KEYS = (
    "notes",
    "taotoken.key_env",
    "taotoken.timezone",
    "taotoken.served_as",
    "taotoken.key_boundary.daily_budget_tokens",
    "taotoken.key_boundary.headroom",
    "taotoken.key_boundary.max_concurrency",
    "taotoken.key_boundary.expires_at",
    "retry",
    "stop",
    "archive",
)


def _binding(data: dict[str, Any]) -> dict[str, Any]:
    """The resolved keys that bind an experiment, flat: dotted key → value."""

    def walk(value: Any, key: str) -> Iterator[tuple[str, Any]]:
        if any(key == free or key.startswith(f"{free}.") for free in FREE_KEYS) or ".x-" in f".{key}":
            return
        if isinstance(value, dict) and value:
            for name, entry in value.items():
                yield from walk(entry, f"{key}.{name}" if key else str(name))
        else:
            yield key, value

    return dict(walk(data, ""))


def spec_difference(old_resolved_text: str, new_resolved_text: str) -> list[str]:
    """Lines `key: old → new` for every binding key in which two resolved files differ; empty if none does."""
    import yaml

    old = _binding(yaml.safe_load(old_resolved_text) or {})
    new = _binding(yaml.safe_load(new_resolved_text) or {})
    return [
        f"{key}: {_word(old.get(key))} → {_word(new.get(key))}"
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    ]


def _word(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        return ", ".join("/".join(str(part) for part in item.values()) for item in value)
    return "null" if value is None else str(value)
