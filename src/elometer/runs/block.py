"""From the answers of a block to what became of each strategy: selection, then grading."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from elometer.runs.graders import Grade, grade, grade_with, is_binary, normalise
from elometer.runs.journal import Outcome, OutcomeName, Sample
from elometer.runs.sharing import Key, rests_on
from elometer.runs.spec import Experiment
from elometer.runs.strategies import SampleAnswer, Strategy, sample_seed, select
from elometer.runs.tasks import Task


class Grading:
    """Settles strategies; what takes child processes runs beside the event loop, a few at a time."""

    def __init__(self, experiment: Experiment, at_once: int | None = None) -> None:
        self._experiment = experiment
        self._places = asyncio.Semaphore(at_once or os.cpu_count() or 1)

    async def settle(
        self, task: Task, run: int, block: int, results: Mapping[Key, Sample | OutcomeName]
    ) -> list[Outcome]:
        """The outcomes of a block from what became of its calls, in the order of its strategies.

        A call that several strategies rest on and that has no answer leaves each of them without an outcome.
        """
        if self._experiment.sampling.plan == "pool":
            return await self._settle_pool(task, run, block, results)
        waiting = []
        for strategy in self._experiment.strategies:
            samples, missing = _answers(rests_on(self._experiment, strategy), results)
            waiting.append(self._settle(task, run, block, strategy, samples, missing))
        return list(await asyncio.gather(*waiting))

    async def _settle_pool(
        self, task: Task, run: int, block: int, results: Mapping[Key, Sample | OutcomeName]
    ) -> list[Outcome]:
        """Every draw is graded once; then strategies take their subsets."""
        experiment = self._experiment
        samples, missing = _answers({key[1]: key for key in results}, results)
        unscored = [
            _unscored(experiment, task, run, block, one, len(samples), missing)
            for one in experiment.strategies
        ]
        if missing is not None:
            return unscored
        answers = [_answer(task, number, sample) for number, sample in sorted(samples.items())]
        graded = await self._each(
            [partial(grade, task, answer.extracted, answer.text) for answer in answers], slow=task.grader.slow
        )
        verified = None
        verify = task.verify
        if verify is not None and any(one.select == "verifier" for one in experiment.strategies):
            no_answer = Grade(-math.inf, "no_answer")
            verified = await self._each(
                [
                    (lambda: no_answer)
                    if answer.extracted is None
                    else partial(grade_with, verify, answer.extracted)
                    for answer in answers
                ],
                slow=verify.slow,
            )
        named = [
            (one, _name(one, answer, samples[answer.sample]))
            for one, answer in zip(graded, answers, strict=True)
        ]
        return await asyncio.to_thread(_from_pool, experiment, unscored, answers, named, verified)

    async def _each(self, jobs: Sequence[Callable[[], Grade]], *, slow: bool) -> list[Grade]:
        """Each grade; those that take child processes beside the loop, a few at a time."""
        if not slow:
            return [job() for job in jobs]

        async def beside(job: Callable[[], Grade]) -> Grade:
            async with self._places:
                return await asyncio.to_thread(job)

        return list(await asyncio.gather(*map(beside, jobs)))

    async def _settle(
        self,
        task: Task,
        run: int,
        block: int,
        strategy: Strategy,
        samples: Mapping[int, Sample],
        missing: OutcomeName | None,
    ) -> Outcome:
        """As `settle`."""
        prepared = _prepare(self._experiment, task, run, block, strategy, samples, missing)
        if isinstance(prepared, Outcome):
            return prepared
        if not (task.grader.slow or (strategy.select == "verifier" and task.verify and task.verify.slow)):
            return prepared()
        async with self._places:
            return await asyncio.to_thread(prepared)


def _from_pool(
    experiment: Experiment,
    unscored: Sequence[Outcome],
    answers: Sequence[SampleAnswer],
    graded: Sequence[tuple[Grade, OutcomeName]],
    verified: Sequence[Grade] | None,
) -> list[Outcome]:
    """As `pool_outcomes`, whose first import loads numpy: not in the loop's thread."""
    from elometer.runs.pool import pool_outcomes

    return pool_outcomes(experiment, unscored, answers, graded, verified)


def _answers(
    keys: Mapping[int, Key], results: Mapping[Key, Sample | OutcomeName]
) -> tuple[dict[int, Sample], OutcomeName | None]:
    """The answers of some calls by number, and why one is not there."""
    samples: dict[int, Sample] = {}
    missing: OutcomeName | None = None
    for number, key in keys.items():
        result = results[key]
        if isinstance(result, Sample):
            samples[number] = result
        else:
            missing = result
    return samples, missing


def settle(
    experiment: Experiment,
    task: Task,
    run: int,
    block: int,
    strategy: Strategy,
    samples: Mapping[int, Sample],
    *,
    missing: OutcomeName | None = None,
) -> Outcome:
    """The outcome of one strategy in one block.

    `missing` says why an answer is not there; then nothing is scored, since a strategy with fewer samples
    than it is named for is another strategy.
    """
    prepared = _prepare(experiment, task, run, block, strategy, samples, missing)
    return prepared if isinstance(prepared, Outcome) else prepared()


def _prepare(
    experiment: Experiment,
    task: Task,
    run: int,
    block: int,
    strategy: Strategy,
    samples: Mapping[int, Sample],
    missing: OutcomeName | None,
) -> Outcome | partial[Outcome]:
    """The outcome where nothing is to be graded, else what is left to do.

    Patterns are matched here, since only the main thread can interrupt one that backtracks without end.
    """
    unscored = _unscored(experiment, task, run, block, strategy, len(samples), missing)
    if missing is not None or len(samples) < strategy.calls:
        return unscored
    if strategy.rounds > 1:
        # The last answer stands for the strategy; earlier rounds are what it cost to get there.
        samples = {strategy.rounds: samples[strategy.rounds]}
    answers = [_answer(task, number, sample) for number, sample in sorted(samples.items())]
    seed = sample_seed(experiment.seed, task.id, run, strategy.name, 0)
    return partial(_decide, task, strategy, samples, answers, seed, unscored)


def _unscored(
    experiment: Experiment,
    task: Task,
    run: int,
    block: int,
    strategy: Strategy,
    samples: int,
    missing: OutcomeName | None,
) -> Outcome:
    """An outcome before anything is chosen or graded."""
    return Outcome(
        experiment_id=experiment.experiment_id,
        task=task.id,
        run=run,
        strategy=strategy.name,
        block=block,
        samples=samples,
        outcome=missing or "infra_error",
        score=None,
        graded=None if is_binary(task.grader) else "score",
    )


def _decide(
    task: Task,
    strategy: Strategy,
    samples: Mapping[int, Sample],
    answers: Sequence[SampleAnswer],
    seed: int,
    unscored: Outcome,
) -> Outcome:
    verified = _Verified(task)
    chosen = select(
        strategy,
        answers,
        rng_seed=seed,
        grade=lambda answer: grade(task, answer.extracted, answer.text).score,
        verify=verified.score,
    )
    if verified.useless:
        return replace(unscored, outcome="grader_error", detail=f"verify: {verified.fault}")
    kept = next((item for item in answers if item.sample == chosen.sample), answers[0])
    result = grade(task, kept.extracted, kept.text)
    return replace(
        unscored,
        outcome=_name(result, kept, samples[kept.sample]),
        score=None if result.status == "grader_error" else result.score,
        answer=kept.extracted,
        sample=chosen.sample,
        tied_vote=chosen.tie,
        detail=result.detail,
        isolation=result.isolation,
    )


class _Verified:
    """What a task's visible `verify` says of answers.

    An answer on which it fails or does not end is not chosen before another one; where it fails on all of
    them it chose nothing, and the strategy has no outcome.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._asked = self._failed = 0
        self.fault = ""

    def score(self, answer: SampleAnswer) -> float:
        """The score of an answer; minus infinity for none and for a failure."""
        if self._task.verify is None or answer.extracted is None:
            return -math.inf
        self._asked += 1
        found = grade_with(self._task.verify, answer.extracted)
        if found.status == "grader_error":
            self._failed += 1
            self.fault = found.detail
            return -math.inf
        return found.score

    @property
    def useless(self) -> bool:
        """True where it was asked and never answered."""
        return self._asked > 0 and self._failed == self._asked


def _answer(task: Task, number: int, sample: Sample) -> SampleAnswer:
    return SampleAnswer(
        sample=number,
        text=sample.text,
        extracted=sample.extracted,
        vote_key=None if sample.extracted is None else normalise(task, sample.extracted),
        finish=sample.attempt.finish_class,
    )


def _name(result: Grade, kept: SampleAnswer, sample: Sample) -> OutcomeName:
    """A wrong answer that the token limit or the model itself prevented is called by that cause."""
    if result.status in ("wrong", "no_answer"):
        if sample.attempt.status in ("refused", "filtered"):
            return "refusal"
        if kept.finish == "length" and kept.extracted is None:
            return "truncated"
    return result.status
