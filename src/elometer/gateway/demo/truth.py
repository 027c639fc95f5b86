"""The known truth of the demo: closed forms for what a measurement on the demo gateway must find.

Let a reply be silent with probability s (no answer line, no vote) and otherwise give answer a with
probability p_a, a = 0 being the right one. A `sample_k` strategy takes the plurality of the votes of k
independent replies, with a uniformly random draw among tied answers, and is wrong when nobody votes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from elometer.gateway.demo.speech import answer, expected_completion_tokens
from elometer.gateway.demo.tasks import ContinuousTask, ShortTask, Task, continuous_tasks, short_tasks
from elometer.gateway.demo.tokenizer import prompt_tokens

__all__ = [
    "ELO_PER_DOUBLING",
    "ContinuousTask",
    "ShortTask",
    "StrategyTruth",
    "Task",
    "answer",
    "continuous_tasks",
    "expected_elo",
    "majority_accuracy",
    "mean_accuracy",
    "oracle_win_probability",
    "short_tasks",
    "strategy_truths",
    "true_accuracy",
]

K_VALUES = (1, 2, 4, 8, 16)
ELO_SCALE = 400.0
ELO_BASE = 1000.0
# The best of 2n beats the best of n of the same kind with probability 2/3: 400·log10(2) Elo.
ELO_PER_DOUBLING = ELO_SCALE * math.log10(2)

_Polynomial = list[list[float]]  # [votes][answers tied with the right one] -> weight


def majority_accuracy(task: ShortTask, k: int) -> float:
    """The exact probability that the plurality vote over k replies is right.

    Sums the multinomial distribution by the number of right votes c: the weight p^c / c! of the right answer
    times a product over the wrong ones, each a truncated exponential series with counts up to c, where a
    count of exactly c is one more tie; the silent replies are a factor without an upper bound; all times k!.
    """
    return _plurality(task.probabilities, task.silent, k)


@functools.lru_cache(maxsize=8192)
def _plurality(probabilities: tuple[float, ...], silent: float, k: int) -> float:
    speaking = 1 - silent
    right, *wrong = (speaking * probability for probability in probabilities)
    total = 0.0
    for votes in range(1, k + 1):
        others = _others(wrong, silent, votes, k - votes)
        weight = right**votes / math.factorial(votes)
        total += weight * sum(term / (1 + ties) for ties, term in enumerate(others))
    return total * math.factorial(k)


def _others(wrong: Sequence[float], silent: float, most: int, replies: int) -> list[float]:
    """By number of ties: the weight of all ways in which the other replies do not beat the right one."""
    series: _Polynomial = [[0.0] * (len(wrong) + 1) for _ in range(replies + 1)]
    for used in range(replies + 1):
        series[used][0] = silent**used / math.factorial(used)
    for probability in wrong:
        series = _times(series, probability, most)
    return series[replies]


def _times(series: _Polynomial, probability: float, most: int) -> _Polynomial:
    product: _Polynomial = [[0.0] * len(series[0]) for _ in series]
    for used, row in enumerate(series):
        for votes in range(min(most, len(series) - 1 - used) + 1):
            weight = probability**votes / math.factorial(votes)
            tied = votes == most
            for ties, term in enumerate(row):
                if term:
                    product[used + votes][ties + tied] += term * weight
    return product


def mean_accuracy(tasks: Sequence[ShortTask], k: int) -> float:
    """The expected score of `sample_k` by majority vote, each task with the same weight."""
    return math.fsum(majority_accuracy(task, k) for task in tasks) / len(tasks)


def true_accuracy(tasks: Sequence[ShortTask], k_values: Sequence[int] = K_VALUES) -> dict[str, float]:
    """The true accuracy of each strategy, by its name."""
    return {f"sample_{k}": mean_accuracy(tasks, k) for k in k_values}


@dataclass(frozen=True, slots=True)
class StrategyTruth:
    """What an endless measurement of one strategy would find.

    `tokens` are expected prompt and completion tokens of one (task, run); Elo is the half-win Bradley-Terry
    rating in the round robin of the strategies, the first one being at the base; `marginal_elo_per_1k` is per
    thousand further tokens of one (task, run). The differences are None for the first strategy.
    """

    strategy: str
    k: int
    accuracy: float
    tokens: float
    elo: float
    delta_elo: float | None
    marginal_elo_per_1k: float | None


def strategy_truths(
    tasks: Sequence[ShortTask], k_values: Sequence[int] = K_VALUES, *, system: str | None = None
) -> list[StrategyTruth]:
    """The closed forms of all strategies over the tasks, with the system text that every call carries."""
    accuracies = [mean_accuracy(tasks, k) for k in k_values]
    each = expected_call_tokens(tasks, system=system)
    elos = expected_elo(accuracies)
    truths: list[StrategyTruth] = []
    for k, accuracy, elo in zip(k_values, accuracies, elos, strict=True):
        tokens = k * each
        delta = elo - truths[-1].elo if truths else None
        marginal = None if delta is None else 1000 * delta / (tokens - truths[-1].tokens)
        truths.append(StrategyTruth(f"sample_{k}", k, accuracy, tokens, elo, delta, marginal))
    return truths


def expected_call_tokens(tasks: Sequence[Task], *, system: str | None = None) -> float:
    """Mean prompt and completion tokens of one call, each task with the same weight."""
    head = [system] if system else []
    each = (prompt_tokens([*head, task.prompt]) + expected_completion_tokens(task) for task in tasks)
    return math.fsum(each) / len(tasks)


def expected_elo(
    accuracies: Sequence[float], *, scale: float = ELO_SCALE, base: float = ELO_BASE
) -> list[float]:
    """Elo of strategies whose scores are independent given the task, with ties as half wins.

    The expected score of a against b is ½ + (A_a - A_b) / 2, so the Bradley-Terry ratings of the complete
    round robin are the only solution of "expected score of each = sum of logistic(θ_a - θ_b)" (Zermelo 1929),
    found by Newton steps on one strategy at a time. The first strategy is the anchor.
    """
    size = len(accuracies)
    scores = [math.fsum(0.5 + (mine - other) / 2 for other in accuracies) - 0.5 for mine in accuracies]
    theta = [0.0] * size
    for _ in range(200):
        largest = 0.0
        for index in range(size):
            wins = [
                1 / (1 + math.exp(theta[other] - theta[index])) for other in range(size) if other != index
            ]
            step = (
                (scores[index] - math.fsum(wins)) / math.fsum(win * (1 - win) for win in wins)
                if wins
                else 0.0
            )
            theta[index] += step
            largest = max(largest, abs(step))
        if largest < 1e-13:
            break
    return [base + scale / math.log(10) * (value - theta[0]) for value in theta]


def oracle_win_probability(n: int, m: int) -> float:
    """The probability that the best of n continuous scores beats the best of m others: n / (n + m).

    By symmetry the largest of the n + m scores is equally likely to be any of them.
    """
    return n / (n + m)
