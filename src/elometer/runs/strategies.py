"""Strategies at work: names and seeds of calls, and the rule that keeps one of several samples."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from elometer.runs.spec import Strategy

__all__ = ["SampleAnswer", "Selection", "Strategy", "call_id", "sample_seed", "select"]


@dataclass(frozen=True, slots=True)
class SampleAnswer:
    """One sample as a selection rule sees it: `extracted` and `vote_key` are None where it gave no answer."""

    sample: int
    text: str
    extracted: str | None
    vote_key: str | None
    finish: str | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """The sample that was kept; None where no sample gave an answer.

    `tie` tells that the vote was even and a seeded draw among the tied decided. `votes` counts each vote key.
    """

    sample: int | None
    tie: bool = False
    votes: dict[str, int] = field(default_factory=dict)


def _digest(domain: bytes, *parts: object) -> bytes:
    """16 bytes of BLAKE2b over the parts and their lengths, so that no two lists coincide."""
    text = "".join([f"{len(part)}:{part}," for part in map(str, parts)])
    return hashlib.blake2b(text.encode(), digest_size=16, person=domain).digest()


def sample_seed(exp_seed: int, task: str, run: int, strategy: str, sample: int, round: int = 1) -> int:
    """The seed of one call: BLAKE2b over its place, 31 bits, from 1, so that every server takes it.

    It depends on the place alone, never on the order of calls, so a resumed start sends the same seeds. Where
    strategies share draws, `strategy` is the name of their common stock.
    """
    later = (round,) if round > 1 else ()
    digest = _digest(b"elometer-sample", exp_seed, task, run, strategy, sample, *later)
    return (int.from_bytes(digest[:4], "big") >> 1) or 1


def call_id(experiment_id: str, task: str, run: int, strategy: str, round: int, sample: int) -> str:
    """The name of a logical call: `c` and 16 hex digits that follow from its place."""
    return "c" + _digest(b"elometer-call", experiment_id, task, run, strategy, round, sample)[:8].hex()


def select(
    strategy: Strategy,
    answers: Sequence[SampleAnswer],
    *,
    rng_seed: int,
    grade: Callable[[SampleAnswer], float] | None = None,
    verify: Callable[[SampleAnswer], float] | None = None,
) -> Selection:
    """Keep one sample by the strategy's rule. Only `oracle` may look at grades, `verifier` at what `verify`
    says of an answer; among equal ones the first is kept, which is as good as any of independent draws.

    `auto` is `majority`: loading the tasks has made sure that there are answers to vote on. `first` and
    `random` keep their sample whether or not it gave an answer, since a control must not choose.
    """
    match strategy.select:
        case "majority" | "auto":
            return _majority(answers, rng_seed)
        case "first":
            return Selection(answers[0].sample)
        case "random":
            return Selection(random.Random(rng_seed).choice(answers).sample)
        case "oracle":
            if grade is None:
                raise ValueError("oracle needs the grade of each answer")
            return Selection(max(answers, key=lambda answer: (grade(answer), -answer.sample)).sample)
        case "verifier":
            if verify is None:
                raise ValueError("verifier needs the task's verify")
            return Selection(max(answers, key=lambda answer: (verify(answer), -answer.sample)).sample)
        case rule:
            raise ValueError(f"no selection rule {rule}")


def _majority(answers: Sequence[SampleAnswer], rng_seed: int) -> Selection:
    """Vote on answers, not on verdicts; the winner is represented by its first sample."""
    votes: dict[str, int] = {}
    for answer in answers:
        if answer.vote_key is not None:
            votes[answer.vote_key] = votes.get(answer.vote_key, 0) + 1
    if not votes:
        return Selection(None)
    most = max(votes.values())
    # Sorted, so that the draw does not depend on which sample came first.
    tied = sorted(key for key, count in votes.items() if count == most)
    winner = tied[0] if len(tied) == 1 else random.Random(rng_seed).choice(tied)
    kept = min(answer.sample for answer in answers if answer.vote_key == winner)
    return Selection(kept, len(tied) > 1, votes)
