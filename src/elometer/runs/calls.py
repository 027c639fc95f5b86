"""The calls of a block: what is asked, what it may cost, and the line of one that nobody saw come back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from elometer.core.attempt import Attempt, Call
from elometer.runs import events as ev
from elometer.runs.plan import Block
from elometer.runs.spec import Experiment
from elometer.runs.strategies import Strategy, call_id, sample_seed
from elometer.runs.tasks import Task

DEFAULT_MAX_TOKENS = 1024
# Running text gives fewer than one token for two bytes with the tokenizers in use; a bound, not a count.
TOKENS_PER_BYTE = 0.5
TOKENS_PER_MESSAGE = 16


@dataclass(frozen=True, slots=True)
class StartFacts:
    """What a start knows beside its experiment; goes into its first event and its ledger lines."""

    run_id: str
    origin: str
    pid: int
    host: str
    gateway: str
    key_label: str
    key_fp: str
    profile: str | None = None
    tool: str = "openai-compatible"


def sample_call(
    experiment: Experiment,
    task: Task,
    block: Block,
    strategy: Strategy,
    number: int,
    position: int,
    facts: StartFacts,
) -> Call:
    """The request of one sample; `call_id` and seed depend on the experiment alone, never on the start."""
    return Call(
        call_id=call_id(experiment.experiment_id, block.task, block.run, strategy.name, 1, number),
        experiment_id=experiment.experiment_id,
        run_id=facts.run_id,
        strategy=strategy.name,
        task=block.task,
        run=block.run,
        phase="sample",
        model=experiment.agent.model,
        messages=task.messages,
        protocol=experiment.agent.protocol,
        system=experiment.agent.system,
        params=experiment.agent.params,
        seed=sample_seed(experiment.seed, block.task, block.run, strategy.name, number),
        sample=number,
        round=1,
        block=block.index,
        position=position,
        profile=facts.profile,
        tool=facts.tool,
        key_fp=facts.key_fp,
        origin=facts.origin,
    )


def worst_case(call: Call) -> int:
    """Tokens that one attempt may cost at most: a bound on the prompt, and the output limit."""
    texts = [message.content for message in call.messages]
    size = sum(len(text.encode()) for text in (*texts, call.system or ""))
    prompt = math.ceil(size * TOKENS_PER_BYTE) + TOKENS_PER_MESSAGE * (len(texts) + 1)
    limit = call.params.get("max_tokens") or call.params.get("max_completion_tokens")
    return prompt + int(limit or DEFAULT_MAX_TOKENS)


def budget_charge(attempt: Attempt, worst: int) -> int:
    """Tokens to book against the budget: the count where known, the worst case where it may be billed."""
    if attempt.total_tokens is not None:
        return attempt.total_tokens
    return worst if attempt.billed != "no" and attempt.http_status is not None else 0


def lost_attempt(call: Call, event: ev.CallSent) -> Attempt:
    """The ledger line of an attempt that was on the wire when its start died: nobody knows what it cost."""
    return Attempt(
        experiment_id=call.experiment_id,
        strategy=call.strategy,
        task=call.task,
        run=call.run,
        model=call.model,
        timestamp=event.at,
        run_id=call.run_id,
        call_id=call.call_id,
        attempt=event.attempt,
        phase=call.phase,
        sample=call.sample,
        round=call.round,
        block=call.block,
        position=call.position,
        profile=call.profile,
        tool=call.tool,
        key_fp=call.key_fp,
        origin=call.origin,
        model_requested=call.model,
        status="cancelled",
        error_class="process_died",
        error_message="the start ended while this attempt was on the wire",
        billed="unknown",
        stream=call.stream,
        seed=call.seed,
    )
