"""Blocks and calls in their random order, and what a plan costs and can show."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from elometer.core.text import gettext as _
from elometer.runs.costs import Estimate, spent
from elometer.runs.findings import Finding, lint, where
from elometer.runs.power import SCORE_SD, SHARED_SD, detectable_delta_elo
from elometer.runs.sharing import (
    Draw,
    calls_per_block,
    draws,
    luck_cancels,
    margins_decide,
    with_plan,
)
from elometer.runs.spec import Experiment
from elometer.runs.tasks import Task

FEWEST_TASKS = 10


@dataclass(frozen=True, slots=True)
class Block:
    """One (task, run) with all strategies; `index` is its position in the experiment's order, from 0."""

    index: int
    task: str
    run: int


def _draw(seed: int, *parts: object) -> float:
    """A number in [0, 1) that follows from the parts alone: the same on every machine and version."""
    text = "".join(f"{len(str(part))}:{part}," for part in (seed, *parts))
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=b"elometer-order").digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def block_order(experiment: Experiment, tasks: Sequence[Task]) -> list[Block]:
    """All blocks (runs from 1) in seeded random order, whatever the order of the tasks."""
    places = [(task.id, run) for task in tasks for run in range(1, experiment.sampling.runs + 1)]
    places.sort(key=lambda place: (_draw(experiment.seed, "block", *place), place))
    return [Block(index, task, run) for index, (task, run) in enumerate(places)]


def call_order(experiment: Experiment, block: Block) -> list[Draw]:
    """The calls of a block in the order in which they are queued; a round stands after the one before it.

    The answers of a stock, and its rounds, are spread evenly over the block from a seeded random offset, so
    that a drift of the server within the block meets all strategies alike.
    """
    asked = draws(experiment)
    samples: dict[str, int] = {}
    rounds: dict[str, int] = {}
    for stock, sample, number in (draw.key for draw in asked):
        samples[stock] = max(samples.get(stock, 1), sample)
        rounds[stock] = max(rounds.get(stock, 1), number)
    offsets = {name: _draw(experiment.seed, "call", block.task, block.run, name) for name in samples}

    def place(draw: Draw) -> tuple[float, str, int, int]:
        stock, sample, number = draw.key
        size = rounds[stock] if number > 1 else samples[stock]
        if sample == number == 1:  # both an answer and the beginning of the rounds
            size = max(samples[stock], rounds[stock])
        return (sample + number - 2 + offsets[stock]) / size, stock, sample, number

    return sorted(asked, key=place)


@dataclass(frozen=True, slots=True)
class Plan:
    """What an experiment will take and what it can show.

    `tokens_low`, `tokens_high`, `days` and `fits_budget` are None while nothing is known of the tokens;
    `days` also where no daily budget is set. `detectable_delta_elo` is None where no difference can be shown;
    it rests on comparisons with the standard deviation `score_sd`.
    """

    tasks: int
    runs: int
    blocks: int
    calls: int
    calls_per_block: dict[str, int]
    tokens_low: int | None
    tokens_high: int | None
    tokens_source: str
    days: int | None
    fits_budget: bool | None
    detectable_delta_elo: float | None
    score_sd: float
    sampling_plan: str
    findings: tuple[Finding, ...]


def make_plan(
    experiment: Experiment,
    task_ids: Sequence[str],
    clusters: int,
    now: datetime,
    estimate: Estimate | None,
    *,
    binary: bool = True,
) -> Plan:
    """The plan for tasks that are named, written or not; `clusters` is how many of them are independent.

    `binary` says that all graders give 0 or 1 only.
    """
    blocks = len(task_ids) * experiment.sampling.runs
    per_block = calls_per_block(experiment)
    findings = lint(experiment, now)
    missing = [name for name in per_block if estimate and name not in estimate.by_strategy]
    if estimate and missing:
        findings.append(_without_tokens(estimate, missing))
        estimate = None
    if estimate:
        estimate = spent(experiment, estimate)
    every = experiment.schedule.canary_every
    canaries = math.ceil(blocks / every) if every else 0
    budget = experiment.gateway.boundary.daily_budget_tokens
    need = estimate.high * (1 + experiment.gateway.headroom) if estimate else None
    days = math.ceil(need / budget) if need and budget else None
    if estimate and budget and days and days > 1:
        findings.append(_over_budget(experiment, estimate, budget, days, binary))
    findings += _outlived(experiment, now, days)
    score_sd = SHARED_SD if luck_cancels(experiment, binary) else SCORE_SD
    detectable = detectable_delta_elo(clusters, blocks, elo_scale=experiment.eval.elo_scale, at_null=score_sd)
    findings += _few_tasks(clusters)
    return Plan(
        tasks=len(task_ids),
        runs=experiment.sampling.runs,
        blocks=blocks,
        calls=blocks * sum(per_block.values()) + canaries,
        calls_per_block=per_block,
        tokens_low=estimate.low if estimate else None,
        tokens_high=estimate.high if estimate else None,
        tokens_source=estimate.source if estimate else "",
        days=days,
        fits_budget=None if need is None else budget is None or need <= budget,
        detectable_delta_elo=detectable,
        score_sd=score_sd,
        sampling_plan=experiment.sampling.plan,
        findings=tuple(findings),
    )


def _without_tokens(estimate: Estimate, missing: list[str]) -> Finding:
    return Finding(
        "tokens-unknown",
        _("Tokens of {names} are not known, so neither are the plan's.").format(names=", ".join(missing)),
        estimate.source,
        _("Add their rows to the token table, or run a first block."),
    )


def _over_budget(experiment: Experiment, estimate: Estimate, budget: int, days: int, binary: bool) -> Finding:
    factor = 1 + experiment.gateway.headroom
    return Finding(
        "over-budget",
        _("{tokens:,} tokens do not fit {budget:,} a day.").format(tokens=estimate.high, budget=budget),
        _("With {headroom:.0%} headroom the plan needs {need:,} tokens: {days} days ({source}).").format(
            headroom=experiment.gateway.headroom,
            need=round(estimate.high * factor),
            days=days,
            source=estimate.source,
        ),
        "; ".join(
            [
                _("Take {days} days").format(days=days),
                *_shared_plans(experiment, estimate, budget / factor, binary),
                *_cheaper(experiment, estimate, budget / factor),
            ]
        )
        + ".",
    )


def _cheaper(experiment: Experiment, estimate: Estimate, most: float) -> list[str]:
    """Designs that fit into one day: fewer runs, or without the dearest strategies."""
    offers = []
    runs = experiment.sampling.runs
    fewer = int(most * runs // estimate.high)
    if 1 <= fewer < runs:
        tokens = round(estimate.high * fewer / runs)
        offers.append(_("or set runs: {runs} ({tokens:,} tokens)").format(runs=fewer, tokens=tokens))
    kept = dict(sorted(estimate.by_strategy.items(), key=lambda item: item[1][1]))
    left: list[str] = []
    while len(kept) > 2 and sum(high for _low, high in kept.values()) > most:
        left.append(kept.popitem()[0])
    tokens = round(sum(high for _low, high in kept.values()))
    if left and tokens <= most:
        names = ", ".join(reversed(left))
        offers.append(_("or leave out {names} ({tokens:,} tokens)").format(names=names, tokens=tokens))
    return offers


def _shared_plans(experiment: Experiment, estimate: Estimate, most: float, binary: bool) -> list[str]:
    """Plans under which strategies share calls: what they would take, and why they are not biased."""
    if experiment.sampling.plan != "independent":
        return []
    within = margins_decide(experiment) and binary
    words = {
        "nested": _("no bias with scores of 0 and 1 and ties half")
        if within
        else _("no bias, since answers of different runs meet"),
        "pool": _("no bias, since strategies meet on disjoint subsets"),
    }
    offers = []
    for plan, why in words.items():
        other = with_plan(experiment, plan, within=within)
        if other is None:
            continue
        # Independent calls are what is charged, so their estimate is one of charged tokens.
        tokens = spent(other, replace(estimate, charged=True)).high
        if tokens < estimate.high:
            days = math.ceil(tokens / most)
            text = _("or set sampling.plan: {plan} ({tokens:,} tokens, days: {days}; {why})")
            offers.append(text.format(plan=plan, tokens=tokens, days=days, why=why))
    return offers


def _outlived(experiment: Experiment, now: datetime, days: int | None) -> list[Finding]:
    expires = experiment.gateway.boundary.expires_at
    if days is None or expires is None or expires <= now or now + timedelta(days=days - 1) < expires:
        return []
    return [
        Finding(
            "outlives-key",
            _("The plan takes {days} days, and the key expires before.").format(days=days),
            where(experiment, "taotoken.key_boundary.expires_at"),
            _("Renew the key first, or plan fewer calls."),
        )
    ]


def _few_tasks(clusters: int) -> list[Finding]:
    if clusters >= FEWEST_TASKS:
        return []
    return [
        Finding(
            "few-tasks",
            _("So few tasks say little about others: intervals over tasks will be wide."),
            _("{count} independent tasks: hardly any difference is shown in 80 of 100 runs.").format(
                count=clusters
            ),
            _("Use {least} tasks or more; more tasks beat more runs.").format(least=FEWEST_TASKS),
        )
    ]
