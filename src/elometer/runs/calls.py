"""The calls of a block: what is asked, and what it may cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from elometer.core.attempt import Attempt, Call, Message
from elometer.runs.canary import canary_calls
from elometer.runs.graders import without_thought
from elometer.runs.plan import Block, block_order, call_order
from elometer.runs.sharing import Draw, Key
from elometer.runs.spec import Experiment
from elometer.runs.strategies import call_id, sample_seed
from elometer.runs.tasks import Task

DEFAULT_MAX_TOKENS = 1024
# Running text gives fewer than one token for two bytes with the tokenizers in use; a bound, not a count.
TOKENS_PER_BYTE = 0.5
TOKENS_PER_MESSAGE = 16
# What a round sees beside the task and the last answer. It is the same for all tasks and knows no truth.
REVIEW = (
    "Review your answer above. Check that it answers the question as it was asked, and go through its steps "
    "one by one. Correct what is wrong; keep what is right. Then give your complete final answer once more, "
    "in the form that was asked for."
)
# A protocol may refuse an empty turn, and a model must be able to see that nothing came.
NO_ANSWER_TURN = "(no answer)"


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
    forced: tuple[str, ...] | None = None
    warned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call stands: its block, what it draws, and its position in the block.

    `call_id` is the name of the call, the same in every start.
    """

    block: Block
    draw: Draw
    position: int
    call_id: str

    @property
    def before(self) -> Key | None:
        """The call whose answer this one revises; None for a first round."""
        stock, sample, number = self.draw.key
        return (stock, sample, number - 1) if number > 1 else None


def places(experiment: Experiment, block: Block) -> list[Place]:
    """The calls of a block in the order in which they are queued; rounds of one answer stand in order."""
    found = []
    for position, draw in enumerate(call_order(experiment, block)):
        stock, sample, number = draw.key
        name = call_id(experiment.experiment_id, block.task, block.run, stock, number, sample)
        found.append(Place(block, draw, position, name))
    return found


def turns(task: Task, last_answer: str | None) -> tuple[Message, ...]:
    """What is asked: the task; in later rounds also the last answer and the instruction to review it.

    Earlier answers and the reasoning before an answer are left out, so the prompt stops growing after the
    second round.
    """
    if last_answer is None:
        return task.messages
    shown = without_thought(last_answer).strip() or NO_ANSWER_TURN
    return (*task.messages, Message("assistant", shown), Message("user", REVIEW))


def call_at(
    experiment: Experiment, task: Task, place: Place, facts: StartFacts, last_answer: str | None = None
) -> Call:
    """The request at a place; `call_id` and seed depend on the experiment alone, never on the start."""
    block, draw = place.block, place.draw
    return Call(
        call_id=place.call_id,
        experiment_id=experiment.experiment_id,
        run_id=facts.run_id,
        strategy=draw.owner.name,
        task=block.task,
        run=block.run,
        phase="revise" if draw.round > 1 else "sample",
        model=experiment.agent.model,
        messages=turns(task, last_answer),
        protocol=experiment.agent.protocol,
        system=experiment.agent.system,
        params=experiment.agent.params,
        seed=sample_seed(experiment.seed, block.task, block.run, *draw.key),
        sample=draw.sample,
        round=draw.round,
        block=block.index,
        position=place.position,
        profile=facts.profile,
        tool=facts.tool,
        key_fp=facts.key_fp,
        origin=facts.origin,
        used_by=draw.used_by,
        use_share=draw.use_share,
    )


def all_calls(experiment: Experiment, tasks: Sequence[Task], facts: StartFacts) -> Iterator[Call]:
    """Every call of an experiment as its labels tell it; what later rounds say is not known here."""
    known = {task.id: task for task in tasks}
    order = block_order(experiment, tasks)
    yield from canary_calls(experiment, len(order), facts)
    for block in order:
        for place in places(experiment, block):
            yield call_at(experiment, known[block.task], place, facts)


def worst_case(call: Call) -> int:
    """Tokens that one attempt may cost at most: a bound on the prompt, and the output limit."""
    texts = [message.content for message in call.messages]
    size = sum(len(text.encode()) for text in (*texts, call.system or ""))
    prompt = math.ceil(size * TOKENS_PER_BYTE) + TOKENS_PER_MESSAGE * (len(texts) + 1)
    return prompt + output_limit(call)


def output_limit(call: Call) -> int:
    """Tokens that an answer may have: as the call asks, else what is assumed of the server."""
    return int(
        call.params.get("max_tokens") or call.params.get("max_completion_tokens") or DEFAULT_MAX_TOKENS
    )


def book_charge(attempt: Attempt, worst: int) -> int:
    """`budget_charge`; the line carries it where no count tells it, so that ledgers give the account."""
    charge = budget_charge(attempt, worst)
    if attempt.total_tokens is None:
        attempt.reserved_tokens = charge or None
    return charge


def budget_charge(attempt: Attempt, worst: int) -> int:
    """Tokens to book against the budget: the count where known, the worst case where it may be billed.

    Also where no status ever came: a server that was not waited for any longer may have worked all the same.
    """
    if attempt.total_tokens is not None:
        return attempt.total_tokens
    return 0 if attempt.billed == "no" else worst
