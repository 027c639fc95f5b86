"""From the checked values of experiment.yaml to an `Experiment`: defaults, expansion, rules across keys."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from elometer.core.errors import SpecError
from elometer.core.limits import Boundary
from elometer.core.natural import natural_key
from elometer.core.text import gettext as _
from elometer.core.urls import url_fault
from elometer.runs.sharing import margins_decide, pool_size
from elometer.runs.spec import (
    Agent,
    AgentLimits,
    Archive,
    Evaluation,
    Experiment,
    Gateway,
    Interval,
    Retry,
    Role,
    Sampling,
    Schedule,
    Select,
    Stop,
    Strategy,
    default_seed,
)
from elometer.runs.spec_read import Value, read_document, shown, suggestion
from elometer.runs.spec_table import (
    BUILT,
    MOST_ROUNDS,
    MOST_SAMPLES,
    first_moment_after,
    not_supported,
    read_top,
    refuse_unbuilt,
    timezone_of,
)

DEFAULT_K_VALUES = (1, 2, 4, 8, 16)
_SHORT_FORM = re.compile(r"(sample|rounds|random|oracle)_([1-9]\d{0,5})")
_ROLE_OF: dict[str, Role] = {"oracle": "ceiling", "random": "control"}


def build_experiment(path: Path) -> Experiment:
    """See `spec.load_experiment`."""
    top = read_document(path)
    data = read_top(top)
    refuse_unbuilt(data, top.document)
    block = _gateway_block(top, data)
    agent_data: dict[str, Any] = data.get("agent") or {}
    kind = agent_data.get("kind", "http")
    gateway = _gateway(top, block, data.get(block) or {}, kind)
    agent = _agent(top, agent_data, gateway.boundary)
    experiment_id = data["experiment_id"]
    seed = data.get("seed")
    experiment = Experiment(
        experiment_id=experiment_id,
        gateway=gateway,
        agent=agent,
        seed=default_seed(experiment_id) if seed is None else seed,
        notes=data.get("notes") or "",
        sampling=_sampling(top, data.get("sampling") or {}, agent.strategies),
        eval=_evaluation(top, data.get("eval") or {}, agent.strategies),
        schedule=Schedule(**(data.get("schedule") or {})),
        retry=Retry(**(data.get("retry") or {})),
        stop=_stop(top, data.get("stop") or {}, gateway.timezone),
        archive=Archive(**{**(data.get("archive") or {}), "redact": ()}),
        extra={re.sub(r"^gateway\.", "taotoken.", key): kept for key, kept in top.document.extra.items()},
        source=path,
        lines=top.document.key_lines,
    )
    _plan_fits(top, experiment)
    return experiment


def _fault(top: Value, key: str, message: str, fix: str, value: object = None) -> SpecError:
    """An error about a key that may be absent: then the line of the section it belongs to is named."""
    lines = top.document.key_lines
    place = key
    while place not in lines and "." in place:
        place = place.rpartition(".")[0]
    evidence = f"{top.document.file}:{lines.get(place, 1)}: {key}"
    if value is not None:
        evidence += f": {shown(value)}"
    return SpecError(message, evidence=evidence, fix=fix)


def _gateway_block(top: Value, data: dict[str, Any]) -> str:
    if "taotoken" in data and "gateway" in data:
        message = _("taotoken and gateway are two names of one block, and both stand here.")
        first, second = sorted(("taotoken", "gateway"), key=top.document.key_lines.__getitem__)
        fix = _("Keep one; the other is on line {line}.").format(line=top.document.key_lines[first])
        raise _fault(top, second, message, fix)
    return "gateway" if "gateway" in data else "taotoken"


def _gateway(top: Value, block: str, data: dict[str, Any], kind: str) -> Gateway:
    base_url = data.get("base_url") or ""
    if not base_url and kind != "demo":
        message = _("{key} is missing.").format(key=f"{block}.base_url")
        raise _fault(
            top, f"{block}.base_url", message, _("Name the gateway's root: https://gateway.example/api")
        )
    bounds: dict[str, Any] = data.get("key_boundary") or {}
    timezone = data.get("timezone", "UTC")
    expires = bounds.get("expires_at")
    try:
        expires_at = first_moment_after(expires, timezone_of(timezone)) if expires else None
    except OverflowError as error:
        key = f"{block}.key_boundary.expires_at"
        raise _fault(top, key, _("The date is out of range."), _("Name a nearer day."), expires) from error
    return Gateway(
        base_url=_root(base_url),
        written_url=base_url,
        key_label=data.get("key_label") or "",
        key_env=data.get("key_env"),
        served_as=data.get("served_as") or {},
        timezone=timezone,
        boundary=Boundary(
            allowed_models=tuple(bounds.get("allowed_models") or ()),
            daily_budget_tokens=bounds.get("daily_budget_tokens"),
            max_concurrency=bounds.get("max_concurrency"),
            expires_at=expires_at,
            timezone=timezone,
        ),
        headroom=bounds.get("headroom", Gateway().headroom),
    )


def _stop(top: Value, data: dict[str, Any], timezone: str) -> Stop:
    deadline = data.get("deadline")
    try:
        moment = first_moment_after(deadline, timezone_of(timezone)) if deadline else None
    except OverflowError as error:
        message = _("The date is out of range.")
        raise _fault(top, "stop.deadline", message, _("Name a nearer day."), deadline) from error
    return Stop(**{**data, "deadline": moment, "looks": tuple(sorted(data.get("looks", Stop().looks)))})


def _root(url: str) -> str:
    """The gateway's root: repaired where a fault is sure, without /v1, which each client adds by itself."""
    fault = url_fault(url)
    return (fault.proposal if fault else url).rstrip("/").removesuffix("/v1").rstrip("/")


def _agent(top: Value, data: dict[str, Any], boundary: Boundary) -> Agent:
    agent = Agent(
        framework=data.get("framework") or "",
        kind=data.get("kind", "http"),
        profile=data.get("profile"),
        model=_model(top, data.get("model"), boundary.allowed_models),
        protocol=data.get("protocol", "chat"),
        params=data.get("params") or {},
        system=data.get("system"),
        limits=AgentLimits(**(data.get("limits") or {})),
        select=data.get("select", "auto"),
        strategies=_strategies(top, data),
    )
    _temperature_fits(top, agent)
    return agent


def _model(top: Value, model: str | None, allowed: tuple[str, ...]) -> str:
    if model is None:
        if len(allowed) == 1:
            return allowed[0]
        if allowed:
            message = _("agent.model is missing and the boundary allows several models.")
            raise _fault(top, "agent.model", message, suggestion("", allowed))
        message = _("agent.model is missing and no allowed_models tells it.")
        raise _fault(top, "agent.model", message, _("Add a line under agent: model: NAME"))
    if allowed and model not in allowed:
        message = _("agent.model is outside the key's allowed_models.")
        raise _fault(top, "agent.model", message, suggestion(model, allowed), model)
    return model


def _strategies(top: Value, data: dict[str, Any]) -> tuple[Strategy, ...]:
    select: Select = data.get("select", "auto")
    listed: tuple[tuple[Value, dict[str, Any]], ...] | None = data.get("strategies")
    if listed is None:
        kind = data.get("strategy", "sample_k").rpartition("_")[0]
        k_values = data.get("k_values", DEFAULT_K_VALUES)
        if kind == "rounds" and max(k_values) > MOST_ROUNDS:
            message = _("So many rounds are more than {most}.").format(most=MOST_ROUNDS)
            raise _fault(top, "agent.k_values", message, _("Give smaller numbers."), max(k_values))
        return tuple(_short(f"{kind}_{k}", kind, k, select) for k in sorted(k_values))
    strategies: list[Strategy] = []
    for value, fields in listed:
        strategy = _listed_strategy(value, fields, select)
        if any(strategy.name == other.name for other in strategies):
            message = _("The strategy {name} stands twice.").format(name=strategy.name)
            raise value.error(message, _("Give each strategy a name of its own."), show=False)
        strategies.append(strategy)
    return tuple(strategies)


def _short(name: str, kind: str, k: int, select: Select) -> Strategy:
    """`sample_4`, `random_8`, `oracle_8`. One sample leaves nothing to select."""
    if kind == "rounds":
        return Strategy(name, rounds=k)
    rules: dict[str, Select] = {"random": "random", "oracle": "oracle"}
    rule = rules.get(kind, "first" if k == 1 else select)
    return Strategy(name, samples=k, select=rule, role=_ROLE_OF.get(rule, "contestant"))


def _listed_strategy(value: Value, fields: dict[str, Any], select: Select) -> Strategy:
    name = fields["name"]
    short = _SHORT_FORM.fullmatch(name)
    if set(fields) == {"name"}:
        if not short or int(short[2]) > (MOST_ROUNDS if short[1] == "rounds" else MOST_SAMPLES):
            message = _("{name} is no strategy by itself.").format(name=name)
            fix = _("Write sample_K, rounds_N, random_K or oracle_K, or give name, samples and select.")
            raise value.error(message, fix, show=False)
        return _short(name, short[1], int(short[2]), select)
    if short and not {"samples", "rounds"} & set(fields):
        # A name that says how many means it, also where a role or a rule stands beside it.
        rules = {"random": "random", "oracle": "oracle"}
        implied = {"select": rules[short[1]]} if short[1] in rules else {}
        fields = {"rounds" if short[1] == "rounds" else "samples": int(short[2]), **implied, **fields}
    if fields.get("rounds", 1) > 1 or "keep" in fields:
        return _rounds(value, fields)
    samples = fields.get("samples", 1)
    rule: Select = fields.get("select", "first" if samples == 1 else select)
    if rule not in BUILT["agent.select"]:
        raise not_supported(value.document, f"{value.key}.select", value.line, "majority")
    if samples == 1 and rule in ("auto", "majority"):
        rule = "first"
    return Strategy(name, samples, rule, fields.get("role", _ROLE_OF.get(rule, "contestant")))


def _rounds(value: Value, fields: dict[str, Any]) -> Strategy:
    """`{name, rounds, keep: last}`: one answer, revised; there is nothing to select from."""
    for key in ("samples", "select"):
        if fields.get(key, 1) not in (1, "first"):
            message = _("{name} has rounds, and {key} as well.").format(name=fields["name"], key=key)
            fix = _("Remove {key}: the last round's answer is kept.").format(key=key)
            raise value.error(message, fix, show=False)
    role: Role = fields.get("role", "contestant")
    return Strategy(fields["name"], role=role, rounds=fields.get("rounds", 1))


def _temperature_fits(top: Value, agent: Agent) -> None:
    """At temperature 0 the samples of one strategy are copies: more of them buy and measure nothing."""
    several = next((strategy.name for strategy in agent.strategies if strategy.samples > 1), None)
    if several and agent.params.get("temperature") == 0:
        message = _("At temperature 0 all samples of {name} are the same answer.").format(name=several)
        raise _fault(
            top, "agent.params.temperature", message, _("Set a temperature above 0, such as 0.8."), 0
        )


def _evaluation(top: Value, data: dict[str, Any], strategies: tuple[Strategy, ...]) -> Evaluation:
    data = {name: value for name, value in data.items() if value is not None}
    tasks = data.get("tasks", ("*",))
    if len(tasks) == 1 and ("/" in tasks[0] or tasks[0].endswith(".jsonl")):
        if "tasks_file" in data:
            message = _("eval.tasks names a file and eval.tasks_file names another.")
            raise _fault(top, "eval.tasks", message, _("Keep tasks_file and list ids in tasks."), tasks[0])
        data |= {"tasks": ("*",), "tasks_file": tasks[0]}
    data["ci"] = Interval(**data.get("ci", {}))
    data["elo_anchor"] = _anchor(top, data.get("elo_anchor"), strategies)
    return Evaluation(**data)


def _anchor(top: Value, named: str | None, strategies: tuple[Strategy, ...]) -> str:
    """The strategy at elo_base: the named one, else the contestant with the fewest calls."""
    fitted = [strategy for strategy in strategies if strategy.role != "ceiling"]
    if named is None:
        first = min(
            fitted or strategies,
            key=lambda one: (one.role != "contestant", one.calls, natural_key(one.name)),
        )
        return first.name
    names = [strategy.name for strategy in fitted]
    if named not in names:
        message = _("eval.elo_anchor is none of the strategies in the fit.")
        raise _fault(top, "eval.elo_anchor", message, suggestion(named, names), named)
    return named


def _sampling(top: Value, data: dict[str, Any], strategies: tuple[Strategy, ...]) -> Sampling:
    """The block `sampling`; a pool holds at least what its two largest strategies take without overlap."""
    sampling = Sampling(**data)
    if sampling.plan != "pool":
        if sampling.pool_size is not None:
            message = _("pool_size says how many draws a pool holds, and the plan is {plan}.")
            fix = _("Remove it, or set sampling.plan: pool.")
            raise _fault(top, "sampling.pool_size", message.format(plan=sampling.plan), fix)
        return sampling
    revised = next((one.name for one in strategies if one.rounds > 1), None)
    if revised:
        message = _("{name} revises one answer in rounds, and a pool holds separate answers.")
        fix = _("Set sampling.plan: nested, under which rounds_8 holds rounds_4, or leave the rounds out.")
        raise _fault(top, "sampling.plan", message.format(name=revised), fix, "pool")
    least = pool_size(strategies)
    if sampling.pool_size is not None and sampling.pool_size < least:
        message = _("The two largest strategies need {n} draws to share none.").format(n=least)
        fix = _("Set pool_size: {n} or more, or leave the line out.").format(n=least)
        raise _fault(top, "sampling.pool_size", message, fix, sampling.pool_size)
    return replace(sampling, pool_size=sampling.pool_size or least)


def _plan_fits(top: Value, experiment: Experiment) -> None:
    """Whether strategies that share draws can be compared without bias as the file asks."""
    sampling = experiment.sampling
    if sampling.plan == "nested" and sampling.runs < 2 and not margins_decide(experiment):
        message = _("nested with this pairing needs two runs: answers that share draws may not meet.")
        fix = _("Set sampling.runs: 2 or more, or ties: half and aggregation: pooled, or another plan.")
        raise _fault(top, "sampling.runs", message, fix, sampling.runs)
