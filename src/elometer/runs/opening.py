"""The first events of a start: what it is, and what earlier starts of the experiment left done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from elometer.boundary.account import KeyAccount
from elometer.core.clock import timestamp
from elometer.runs import events as ev
from elometer.runs.calls import StartFacts
from elometer.runs.journal import COUNTED, Outcome
from elometer.runs.plan import Block
from elometer.runs.resume import Past
from elometer.runs.sharing import calls_per_block
from elometer.runs.spec import Experiment

# A grader that crashes will crash again on the same answer: only a new grader changes this outcome.
SETTLED = COUNTED | {"grader_error"}


def opening(
    experiment: Experiment,
    order: Sequence[Block],
    past: Past,
    facts: StartFacts,
    *,
    cap: int,
    account: KeyAccount,
) -> Iterator[ev.AnyEvent]:
    """StartOpened, then the sums of earlier starts, then their finished blocks."""
    strategies = experiment.agent.strategies
    done = [block for block in order if finished(experiment, past, block)]
    yield ev.StartOpened(
        at=timestamp(),
        run_id=facts.run_id,
        experiment_id=experiment.experiment_id,
        origin=facts.origin,
        pid=facts.pid,
        host=facts.host,
        gateway=facts.gateway,
        protocol=experiment.agent.protocol,
        model=experiment.agent.model,
        strategies=tuple(item.name for item in strategies),
        tasks=len({block.task for block in order}),
        runs=experiment.sampling.runs,
        blocks=len(order),
        calls_per_block=calls_per_block(experiment),
        sampling_plan=experiment.sampling.plan,
        max_concurrency=cap,
        budget_tokens=account.budget,
        spent_today=account.spent,
        key_label=facts.key_label,
        key_fp=facts.key_fp,
        seed=experiment.seed,
        resumed=not past.empty,
        blocks_done=len(done),
        forced=facts.forced,
        warned=facts.warned,
        key_concurrency=account.most_permits,
    )
    for strategy, sums in past.booked.items():
        yield ev.Restored(
            at=timestamp(),
            strategy=strategy,
            calls=sums.calls,
            attempts_failed=sums.failed_attempts,
            prompt_tokens=sums.prompt_tokens,
            completion_tokens=sums.completion_tokens,
        )
    for block in done:
        outcomes = [past.outcomes[block.task, block.run, item.name] for item in strategies]
        yield block_ended(block, outcomes, restored=True)


def block_ended(block: Block, outcomes: Sequence[Outcome], *, restored: bool = False) -> ev.BlockEnded:
    """The event of a block whose outcomes are on disk."""
    return ev.BlockEnded(
        at=timestamp(),
        block=block.index,
        task=block.task,
        run=block.run,
        outcomes={item.strategy: item.outcome for item in outcomes},
        scores={item.strategy: item.score for item in outcomes},
        restored=restored,
    )


def finished(experiment: Experiment, past: Past, block: Block) -> bool:
    """True where every strategy of the block has an outcome that no further call would change."""
    found = (past.outcomes.get((block.task, block.run, item.name)) for item in experiment.agent.strategies)
    return all(outcome is not None and outcome.outcome in SETTLED for outcome in found)
