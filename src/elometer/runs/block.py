"""From the answers of a block to what became of each strategy: selection, then grading."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from elometer.runs.graders import Grade, extract, grade, normalise
from elometer.runs.journal import Outcome, OutcomeName, Sample
from elometer.runs.spec import Experiment
from elometer.runs.strategies import SampleAnswer, Strategy, sample_seed, select
from elometer.runs.tasks import Task


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
    unscored = Outcome(
        experiment_id=experiment.experiment_id,
        task=task.id,
        run=run,
        strategy=strategy.name,
        block=block,
        samples=len(samples),
        outcome=missing or "infra_error",
        score=None,
    )
    if missing is not None or len(samples) < strategy.calls:
        return unscored
    if strategy.rounds > 1:
        # The last answer stands for the strategy; earlier rounds are what it cost to get there.
        samples = {strategy.rounds: samples[strategy.rounds]}
    answers = [_answer(task, number, sample) for number, sample in sorted(samples.items())]
    chosen = select(
        strategy,
        answers,
        rng_seed=sample_seed(experiment.seed, task.id, run, strategy.name, 0),
        grade=lambda answer: grade(task, answer.extracted, answer.text).score,
    )
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
    )


def _answer(task: Task, number: int, sample: Sample) -> SampleAnswer:
    extracted = extract(task, sample.text)
    return SampleAnswer(
        sample=number,
        text=sample.text,
        extracted=extracted,
        vote_key=None if extracted is None else normalise(task, extracted),
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
