"""The plan `pool`: what became of each strategy over many subsets of the draws of one task-run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from msgspec.structs import replace

from elometer.core.natural import natural_key
from elometer.rating.redraws import NO_VOTE, Pool, Rule, judged, win_shares
from elometer.runs.graders import Grade
from elometer.runs.journal import Outcome, OutcomeName
from elometer.runs.spec import Experiment
from elometer.runs.strategies import SampleAnswer, sample_seed


def pool_outcomes(
    experiment: Experiment,
    unscored: Sequence[Outcome],
    answers: Sequence[SampleAnswer],
    grades: Sequence[tuple[Grade, OutcomeName]],
    verified: Sequence[Grade] | None,
) -> list[Outcome]:
    """The outcomes of a block whose draws all have an answer, in the order of `unscored`.

    `score` is the mean over redraws, `answer`, `sample` and `outcome` are of the first of them. `against`
    holds the shares of redraws won and lost against each strategy that stands later in natural order.
    """
    checks = [math.nan if one.status == "grader_error" else one.score for one in verified or ()]
    asked = [check for check, answer in zip(checks, answers, strict=False) if answer.extracted is not None]
    useless = bool(asked) and all(map(math.isnan, asked))
    pool = Pool(
        votes=_codes([answer.vote_key for answer in answers]),
        scores=np.array([math.nan if one.status == "grader_error" else one.score for one, _name in grades]),
        verified=np.array([-math.inf if math.isnan(check) else check for check in checks]),
    )
    rules = {
        one.name: Rule(one.samples, one.select)
        for one in experiment.strategies
        if not (one.select == "verifier" and useless)
    }
    found = {}
    for outcome in unscored:
        place = (experiment.seed, outcome.task, outcome.run)
        if outcome.strategy not in rules:
            fault = next(one.detail for one in verified or () if one.status == "grader_error")
            found[outcome.strategy] = replace(outcome, outcome="grader_error", detail=f"verify: {fault}")
            continue
        kept = judged(pool, rules[outcome.strategy], sample_seed(*place, outcome.strategy, 0))
        grade, _name = grades[kept.first]
        found[outcome.strategy] = replace(
            outcome,
            outcome="grader_error" if kept.mean_score is None else _judgement(grades, kept.first),
            score=kept.mean_score,
            answer=answers[kept.first].extracted,
            sample=answers[kept.first].sample,
            tied_vote=kept.tied,
            detail=grade.detail,
            isolation=grade.isolation,
            against={},
        )
    _compare(experiment, pool, rules, found)
    return [found[outcome.strategy] for outcome in unscored]


def _compare(
    experiment: Experiment, pool: Pool, rules: Mapping[str, Rule], found: Mapping[str, Outcome]
) -> None:
    """Enter into each outcome how its strategy fared against those that stand later in natural order."""
    for one, other in combinations(sorted(rules, key=natural_key), 2):
        outcome = found[one]
        shares = win_shares(
            pool,
            rules[one],
            rules[other],
            sample_seed(experiment.seed, outcome.task, outcome.run, f"{one}|{other}", 0),
            tie_epsilon=experiment.eval.tie_epsilon,
        )
        if shares is not None and outcome.against is not None:
            outcome.against[other] = shares


def _judgement(grades: Sequence[tuple[Grade, OutcomeName]], kept: int) -> OutcomeName:
    """The name for a kept draw; a grader that failed on this one says nothing of the others, which count."""
    grade, name = grades[kept]
    return "wrong" if grade.status == "grader_error" else name


def _codes(keys: Sequence[str | None]) -> np.ndarray:
    codes = {key: code for code, key in enumerate(sorted({key for key in keys if key is not None}))}
    return np.array([NO_VOTE if key is None else codes[key] for key in keys], dtype=np.int64)


def shares_of(one: Outcome, other: Outcome) -> tuple[float, float] | None:
    """How often `one` won and lost against `other` in redraws; None where they were not compared."""
    if one.against and other.strategy in one.against:
        return one.against[other.strategy]
    if other.against and one.strategy in other.against:
        lost, won = other.against[one.strategy]
        return won, lost
    return None
