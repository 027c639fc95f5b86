"""When an attempt is made again: pure decisions, the loop is in wire.client."""

from __future__ import annotations

from dataclasses import dataclass

from elometer.wire.failures import Failure


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long. Times in seconds.

    `infra`: tries after the first for failures of infrastructure. `backoff`: first and longest wait of those.
    Refusals for load are not counted: the gate spaces them, and `deadline_s` (from the call's first attempt)
    ends them. A server that asks for more than `longest_wait_s` is not waited for.
    """

    infra: int = 4
    backoff: tuple[float, float] = (1.0, 60.0)
    deadline_s: float = 1800.0
    longest_wait_s: float = 120.0

    def backoff_s(self, tries: int, draw: float) -> float:
        """Full jitter: a uniform draw in [0, 1) of the doubled and capped wait."""
        first, longest = self.backoff
        return float(draw * min(longest, first * 2.0 ** min(tries, 30)))


@dataclass(frozen=True, slots=True)
class Decision:
    """`again`: try once more after `wait_s` seconds of our own (the gate adds its wait); `why`: why not."""

    again: bool
    wait_s: float = 0.0
    why: str = ""


def decide(
    policy: RetryPolicy, failure: Failure, *, infra_used: int, elapsed_s: float, draw: float
) -> Decision:
    """Whether a failed attempt is made again.

    `infra_used`: retries already spent on infrastructure; `elapsed_s`: since the call's first attempt began.
    """
    if not failure.retry:
        return Decision(False, why="not retryable")
    asked = failure.retry_after_s or 0.0
    if failure.wait != "slot" and asked > policy.longest_wait_s:
        return Decision(False, why="retry_after")
    if failure.wait == "backoff":
        if infra_used >= policy.infra:
            return Decision(False, why="retries used up")
        wait = max(asked, policy.backoff_s(infra_used, draw))
    else:
        wait = 0.0
    pause = wait if failure.wait == "backoff" else (asked if failure.wait == "gate" else 0.0)
    if elapsed_s + pause > policy.deadline_s:
        return Decision(False, why="deadline")
    return Decision(True, wait_s=wait)
