"""Canaries: the same question every so many blocks, so that a server which changes is seen to change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from elometer.core.attempt import Call, Message
from elometer.runs.spec import Experiment
from elometer.runs.strategies import call_id, sample_seed

if TYPE_CHECKING:
    from elometer.runs.calls import StartFacts

CANARY_TASK = "canary"
PROMPT = "Write the numbers from one to twenty as English words, separated by commas, and nothing else."


def canary_due(experiment: Experiment, block: int) -> bool:
    """Whether a canary goes out with the block of this index."""
    every = experiment.schedule.canary_every
    return every is not None and block % every == 0


def canary_call(experiment: Experiment, block: int, facts: StartFacts) -> Call:
    """The canary of a block: charged to no strategy, with one seed, at temperature 0 where one is set."""
    every = experiment.schedule.canary_every or 1
    number = block // every + 1
    params = dict(experiment.agent.params)
    if "temperature" in params:
        params["temperature"] = 0
    return Call(
        call_id=call_id(experiment.experiment_id, CANARY_TASK, number, "", 1, 1),
        experiment_id=experiment.experiment_id,
        run_id=facts.run_id,
        strategy=None,
        task=CANARY_TASK,
        run=number,
        phase="canary",
        model=experiment.agent.model,
        messages=(Message("user", PROMPT),),
        protocol=experiment.agent.protocol,
        system=experiment.agent.system,
        params=params,
        seed=sample_seed(experiment.seed, CANARY_TASK, 1, "", 1),
        sample=1,
        round=1,
        block=block,
        profile=facts.profile,
        tool=facts.tool,
        key_fp=facts.key_fp,
        origin=facts.origin,
    )


def canary_calls(experiment: Experiment, blocks: int, facts: StartFacts) -> Iterator[Call]:
    """All canaries of an experiment."""
    for block in range(blocks):
        if canary_due(experiment, block):
            yield canary_call(experiment, block, facts)
