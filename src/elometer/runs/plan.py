"""Blocks and calls in their random order, and what a plan costs and can show."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from elometer.runs.spec import Experiment, Strategy
from elometer.runs.tasks import Task


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


def call_order(experiment: Experiment, block: Block) -> list[tuple[Strategy, int]]:
    """The calls of a block as (strategy, sample from 1).

    Each strategy's samples are spread evenly over the block from a seeded random offset, so that a drift of
    the server within the block meets all strategies alike.
    """
    calls = []
    for strategy in experiment.strategies:
        offset = _draw(experiment.seed, "call", block.task, block.run, strategy.name)
        for sample in range(1, strategy.samples + 1):
            calls.append(((sample - 1 + offset) / strategy.samples, strategy.name, sample, strategy))
    calls.sort(key=lambda call: call[:3])
    return [(strategy, sample) for _place, _name, sample, strategy in calls]


def calls_per_block(experiment: Experiment) -> dict[str, int]:
    """How many calls each strategy makes in a block."""
    return {strategy.name: strategy.samples for strategy in experiment.strategies}
