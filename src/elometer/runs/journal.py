"""What a start writes down beside the ledger: answers, and what became of each strategy in each block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from elometer.core.attempt import Attempt

OutcomeName = Literal[
    "ok",
    "wrong",
    "no_answer",
    "truncated",
    "refusal",
    "agent_timeout",
    "infra_error",
    "budget_stop",
    "grader_error",
    "judge_invalid",
    "cancelled",
]

# What a strategy brought about itself counts; what happened to it does not.
COUNTED: frozenset[str] = frozenset({"ok", "wrong", "no_answer", "truncated", "refusal", "agent_timeout"})


class Sample(msgspec.Struct, kw_only=True):
    """One answered call.

    It is on disk before its ledger line. `attempt` is that line, so that a start that died between the two
    books the answer it paid for instead of asking again.
    """

    call_id: str
    strategy: str | None
    task: str
    run: int
    sample: int | None
    text: str
    extracted: str | None = None
    attempt: Attempt


class Outcome(msgspec.Struct, kw_only=True):
    """What became of a strategy in a block.

    `score` is None where nothing can be compared; then the pair is left out. `sample` is the chosen one.
    `graded` is None where the task's grader can give 0 and 1 only. Under the plan `pool` the score is a mean
    over redraws, and `against` holds the shares of them won and lost against other strategies.
    """

    experiment_id: str
    task: str
    run: int
    strategy: str
    block: int
    outcome: OutcomeName
    score: float | None
    answer: str | None = None
    sample: int | None = None
    tied_vote: bool = False
    samples: int = 0
    detail: str = ""
    isolation: str = ""
    run_id: str = ""
    timestamp: str = ""
    graded: Literal["score"] | None = None
    against: dict[str, tuple[float, float]] | None = None

    @property
    def counted(self) -> bool:
        """True where the outcome enters pairs."""
        return self.outcome in COUNTED and self.score is not None


Line = TypeVar("Line")


def read_lines(path: Path, kind: type[Line]) -> Iterator[Line]:
    """The whole lines of a JSONL file as `kind`; lines that do not decode are skipped.

    A torn or damaged line is reported by `ledger verify` and the checks; here it means a call or an outcome
    that is not there, and the start makes it again.
    """
    if not path.exists():
        return
    decode = msgspec.json.Decoder(kind).decode
    with path.open("rb") as lines:
        for line in lines:
            try:
                yield decode(line.replace(b"\0", b""))
            except msgspec.DecodeError:
                continue


def latest_outcomes(path: Path) -> dict[tuple[str, int, str], Outcome]:
    """The last outcome of each (task, run, strategy): a later start fills what an earlier one left open."""
    return {(item.task, item.run, item.strategy): item for item in read_lines(path, Outcome)}
