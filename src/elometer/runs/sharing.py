"""Sampling plans: which calls a block makes, and which strategies rest on each of them.

`independent`: each strategy makes its own calls. `nested`: all draw from one stock per (task, run), whose
answers 1, 2, … are asked once; `sample_4` is its first four, `rounds_n` revises its first. `pool`: one stock
as well, of which each strategy is judged on random subsets.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from elometer.core.natural import natural_key
from elometer.runs.spec import Experiment, Sampling, Strategy

# The name of a block's common stock, in call ids and seeds; no strategy can have it.
STOCK = "*"
# Among equally large users a contestant owns a draw, so that the founding sum shows it under a rated name.
_RANKS = {"contestant": 0, "control": 1, "ceiling": 2}

# A call within its block: the name that its id and seed derive from, sample and round (each from 1).
Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Draw:
    """A call of every block.

    `owner` is the strategy whose ledger line it is: the largest that rests on it. `used_by` names all that
    do, None where only the owner can. `use_share` is the part of it that each of them is charged, None for
    the whole.
    """

    owner: Strategy
    key: Key
    used_by: tuple[str, ...] | None = None
    use_share: tuple[float, ...] | None = None

    @property
    def sample(self) -> int:
        """The number of the answer, from 1."""
        return self.key[1]

    @property
    def round(self) -> int:
        """1 for an answer, above for its revisions."""
        return self.key[2]


def draws(experiment: Experiment) -> tuple[Draw, ...]:
    """The calls of a block, each once; later rounds after earlier ones."""
    return _draws(experiment.strategies, experiment.sampling)


@functools.lru_cache(maxsize=16)
def _draws(strategies: tuple[Strategy, ...], sampling: Sampling) -> tuple[Draw, ...]:
    if sampling.plan == "independent":
        return tuple(Draw(one, key) for one in strategies for key in _own_keys(one, one.name))
    if sampling.plan == "pool":
        return tuple(_pool_draws(strategies, sampling.pool_size or pool_size(strategies)))
    return tuple(_nested_draws(strategies))


def _own_keys(strategy: Strategy, stock: str) -> Iterator[Key]:
    """What a strategy asks of a stock: answers 1 … k, or answer 1 and its revisions."""
    for number in range(1, strategy.calls + 1):
        yield (stock, 1, number) if strategy.rounds > 1 else (stock, number, 1)


def _nested_draws(strategies: tuple[Strategy, ...]) -> Iterator[Draw]:
    users: dict[Key, list[Strategy]] = {}
    for strategy in strategies:
        for key in _own_keys(strategy, STOCK):
            users.setdefault(key, []).append(strategy)
    for key in sorted(users, key=lambda key: (key[1], key[2])):
        names = tuple(sorted((one.name for one in users[key]), key=natural_key))
        yield Draw(_largest(users[key]), key, names)


def _pool_draws(strategies: tuple[Strategy, ...], size: int) -> Iterator[Draw]:
    ordered = sorted(strategies, key=lambda one: natural_key(one.name))
    names = tuple(one.name for one in ordered)
    shares = tuple(one.samples / size for one in ordered)
    owner = _largest(ordered)
    for number in range(1, size + 1):
        yield Draw(owner, (STOCK, number, 1), names, shares)


def _largest(users: list[Strategy]) -> Strategy:
    return min(users, key=lambda one: (-one.calls, _RANKS[one.role], natural_key(one.name)))


def pool_size(strategies: tuple[Strategy, ...]) -> int:
    """The smallest pool from which any two strategies can draw disjoint subsets."""
    return sum(sorted((one.samples for one in strategies), reverse=True)[:2])


def rests_on(experiment: Experiment, strategy: Strategy) -> dict[int, Key]:
    """The calls that a strategy's answer rests on, by number within the strategy, from 1.

    In a pool any of the draws may be in a subset: all of them, by their number in the pool.
    """
    if experiment.sampling.plan == "pool":
        return {draw.sample: draw.key for draw in draws(experiment)}
    stock = strategy.name if experiment.sampling.plan == "independent" else STOCK
    return dict(enumerate(_own_keys(strategy, stock), start=1))


def calls_per_block(experiment: Experiment) -> dict[str, int]:
    """How many calls of a block are each strategy's own; strategies that only share others' are left out."""
    counts: dict[str, int] = {}
    for draw in draws(experiment):
        counts[draw.owner.name] = counts.get(draw.owner.name, 0) + 1
    return {one.name: counts[one.name] for one in experiment.strategies if one.name in counts}


def shared_calls(one: Strategy, other: Strategy) -> int:
    """How many calls the answers of two strategies both rest on under `nested`."""
    return len(set(_own_keys(one, STOCK)) & set(_own_keys(other, STOCK)))


def margins_decide(experiment: Experiment) -> bool:
    """True where a pair of 0/1 scores says the same whether or not its two answers share draws."""
    chosen = experiment.eval
    return chosen.ties == "half" and chosen.estimator != "davidson" and chosen.aggregation == "pooled"


def luck_cancels(experiment: Experiment, binary: bool) -> bool:
    """True where comparisons vary less than those of independent draws.

    So do answers of one run that share draws, and means over a pool. `binary`: all graders give 0 or 1 only.
    """
    plan = experiment.sampling.plan
    return plan == "pool" or (plan == "nested" and binary and margins_decide(experiment))


def with_plan(experiment: Experiment, plan: str, *, within: bool) -> Experiment | None:
    """The experiment under the plan `nested` or `pool`; None where it does not fit it.

    `within` says that answers of one run may meet; else `nested` needs a second run.
    """
    sampling = experiment.sampling
    if plan == "nested":
        if not within and sampling.runs < 2:
            return None
        return replace(experiment, sampling=replace(sampling, plan="nested", pool_size=None))
    if any(one.rounds > 1 for one in experiment.strategies):
        return None
    size = pool_size(experiment.strategies)
    return replace(experiment, sampling=replace(sampling, plan="pool", pool_size=size))
