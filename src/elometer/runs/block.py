"""From the answers of a block to what became of each strategy: selection, then grading."""

from __future__ import annotations

from collections.abc import Mapping

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
    common = {
        "experiment_id": experiment.experiment_id,
        "task": task.id,
        "run": run,
        "strategy": strategy.name,
        "block": block,
        "samples": len(samples),
    }
    if missing is not None or len(samples) < strategy.samples:
        return Outcome(**common, outcome=missing or "infra_error", score=None)
    answers = [_answer(task, number, sample) for number, sample in sorted(samples.items())]
    chosen = select(
        strategy,
        answers,
        rng_seed=sample_seed(experiment.seed, task.id, run, strategy.name, 0),
        grade=lambda answer: grade(task, answer.extracted, answer.text).score,
    )
    if chosen.sample is None:
        return _outcome(common, grade(task, None, ""), answers[0], samples, tied=False)
    answer = next(item for item in answers if item.sample == chosen.sample)
    result = grade(task, answer.extracted, answer.text)
    return _outcome(common, result, answer, samples, tied=chosen.tie)


def _answer(task: Task, number: int, sample: Sample) -> SampleAnswer:
    extracted = extract(task, sample.text)
    return SampleAnswer(
        sample=number,
        text=sample.text,
        extracted=extracted,
        vote_key=None if extracted is None else normalise(task, extracted),
        finish=sample.attempt.finish_class,
    )


def _outcome(
    common: Mapping[str, object],
    result: Grade,
    answer: SampleAnswer,
    samples: Mapping[int, Sample],
    *,
    tied: bool,
) -> Outcome:
    status = samples[answer.sample].attempt.status
    name: OutcomeName = result.status
    if result.status in ("wrong", "no_answer"):
        if status in ("refused", "filtered"):
            name = "refusal"
        elif answer.finish == "length" and answer.extracted is None:
            name = "truncated"
    score = None if name == "grader_error" else result.score
    return Outcome(
        **common,  # type: ignore[arg-type]
        outcome=name,
        score=score,
        answer=answer.extracted,
        sample=answer.sample,
        tied_vote=tied,
        detail=result.detail,
    )
