"""The closed forms against brute force, hand calculation and simulation."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.gateway.demo.experiment import EXTRACT, MAX_TOKENS, SYSTEM
from elometer.gateway.demo.speech import ANSWER_MARK, answer, expected_completion_tokens
from elometer.gateway.demo.tasks import ShortTask, continuous_tasks, short_tasks, unknown_task
from elometer.gateway.demo.tokenizer import count, pieces, prompt_tokens
from elometer.gateway.demo.truth import (
    ELO_PER_DOUBLING,
    expected_elo,
    majority_accuracy,
    mean_accuracy,
    oracle_win_probability,
    strategy_truths,
    true_accuracy,
)


def task_with(probabilities: tuple[float, ...], silent: float) -> ShortTask:
    answers = tuple(str(number) for number in range(len(probabilities)))
    return ShortTask(0, "t", "t", "?", answers, probabilities, silent, {"type": "exact"})


def brute_force(task: ShortTask, k: int) -> float:
    """Every sequence of k replies, one by one."""
    replies = [(None, task.silent)]
    replies += [
        (text, (1 - task.silent) * p) for text, p in zip(task.answers, task.probabilities, strict=True)
    ]
    total = 0.0
    for sequence in itertools.product(replies, repeat=k):
        votes = Counter(text for text, _ in sequence if text is not None)
        if not votes:
            continue
        best = max(votes.values())
        tied = [text for text, number in votes.items() if number == best]
        if task.right in tied:
            total += math.prod(weight for _, weight in sequence) / len(tied)
    return total


def drawn_vote(task: ShortTask, first_seed: int, k: int) -> float:
    """The score of a vote over the model's own texts, ties shared out evenly."""
    texts = [answer(task, first_seed + sample) for sample in range(k)]
    votes = Counter(text.partition(ANSWER_MARK)[2] for text in texts if ANSWER_MARK in text)
    if not votes:
        return 0.0
    best = max(votes.values())
    tied = [text for text, number in votes.items() if number == best]
    return (task.right in tied) / len(tied)


@settings(max_examples=40)
@given(
    weights=st.lists(st.floats(0.02, 1), min_size=2, max_size=4),
    silent=st.floats(0, 0.9),
    k=st.integers(1, 5),
)
def test_majority_accuracy_equals_brute_force(weights: list[float], silent: float, k: int) -> None:
    task = task_with(tuple(weight / sum(weights) for weight in weights), silent)
    assert majority_accuracy(task, k) == pytest.approx(brute_force(task, k), abs=1e-12)


def test_hand_calculated_votes() -> None:
    p, s = 0.6, 0.2
    plain, silent = task_with((p, 0.4), 0.0), task_with((p, 0.4), s)
    assert majority_accuracy(plain, 1) == pytest.approx(p)
    # With a fair tie-break a vote of two is exactly as good as one answer…
    assert majority_accuracy(plain, 2) == pytest.approx(p)
    assert majority_accuracy(plain, 3) == pytest.approx(p**3 + 3 * p**2 * (1 - p))
    # …and better by the replies that say nothing, where there are such.
    assert majority_accuracy(silent, 1) == pytest.approx((1 - s) * p)
    assert majority_accuracy(silent, 2) == pytest.approx((1 - s**2) * p)


@pytest.mark.parametrize("k", [1, 4, 16])
def test_simulated_votes_agree_with_the_closed_form(k: int) -> None:
    tasks = short_tasks(11, 20)
    repeats = 40
    scores = [drawn_vote(task, 1000 * turn, k) for task in tasks for turn in range(repeats)]
    expected = mean_accuracy(tasks, k)
    error = math.sqrt(sum(majority_accuracy(t, k) * (1 - majority_accuracy(t, k)) for t in tasks) * repeats)
    assert abs(fmean(scores) - expected) < 4 * error / len(scores)


def test_one_sample_is_right_as_often_as_stated() -> None:
    task = short_tasks(3, 4)[3]
    n = 4000
    right = sum(answer(task, sample).endswith(ANSWER_MARK + task.right) for sample in range(n))
    p = (1 - task.silent) * task.probabilities[0]
    assert abs(right / n - p) < 4 * math.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize("seed", range(12))
def test_a_vote_helps_on_most_tasks_and_hurts_on_some(seed: int) -> None:
    tasks = short_tasks(seed, 20)
    helped = sum(majority_accuracy(task, 16) > majority_accuracy(task, 1) for task in tasks)
    hurt = sum(majority_accuracy(task, 16) < majority_accuracy(task, 1) - 0.02 for task in tasks)
    assert helped >= 14
    assert 1 <= hurt <= 5
    for task in tasks:
        assert math.fsum(task.probabilities) == pytest.approx(1)
        assert len(task.probabilities) == len(task.answers) >= 4
        assert min(task.probabilities) > 0


@pytest.mark.parametrize("seed", range(100))
def test_accuracy_rises_and_the_marginal_elo_falls_with_k(seed: int) -> None:
    truths = strategy_truths(short_tasks(seed, 20), system=SYSTEM)
    accuracies = [row.accuracy for row in truths]
    marginals = [row.marginal_elo_per_1k for row in truths[1:]]
    assert accuracies == sorted(accuracies)
    assert all(value is not None and value > 0 for value in marginals)
    assert marginals == sorted(marginals, reverse=True)
    assert true_accuracy(short_tasks(seed, 20)) == {row.strategy: row.accuracy for row in truths}


def test_elo_of_two_strategies_is_the_log_odds_of_their_score() -> None:
    score = 0.5 + (0.7 - 0.4) / 2
    assert expected_elo([0.4, 0.7]) == pytest.approx([1000, 1000 + 400 * math.log10(score / (1 - score))])


def test_elo_of_many_strategies_solves_the_score_equations() -> None:
    accuracies = [0.42, 0.5, 0.61, 0.7, 0.77]
    elos = expected_elo(accuracies)
    for mine, elo in zip(accuracies, elos, strict=True):
        wanted = sum(0.5 + (mine - other) / 2 for other in accuracies) - 0.5
        won = sum(1 / (1 + 10 ** ((other - elo) / 400)) for other in elos) - 0.5
        assert won == pytest.approx(wanted, abs=1e-10)


def test_expected_tokens_agree_with_what_is_said() -> None:
    task = short_tasks(5, 1)[0]
    n = 3000
    lengths = [count(answer(task, sample)) for sample in range(n)]
    deviation = math.sqrt(fmean((length - fmean(lengths)) ** 2 for length in lengths))
    assert len(set(lengths)) > 20
    assert abs(fmean(lengths) - expected_completion_tokens(task)) < 4 * deviation / math.sqrt(n)


def test_no_reply_reaches_the_token_limit_of_the_demo() -> None:
    tasks = [*short_tasks(1, 20), *continuous_tasks(1, 5)]
    assert max(count(answer(task, sample)) for task in tasks for sample in range(200)) < MAX_TOKENS


def test_best_of_twice_as_many_wins_two_thirds_of_the_time() -> None:
    assert oracle_win_probability(2, 1) == pytest.approx(2 / 3)
    assert pytest.approx(120.412, abs=5e-4) == ELO_PER_DOUBLING
    assert 400 * math.log10(oracle_win_probability(8, 4) / oracle_win_probability(4, 8)) == pytest.approx(
        ELO_PER_DOUBLING
    )


@pytest.mark.parametrize(("n", "m"), [(2, 1), (4, 1), (4, 2)])
def test_oracle_on_continuous_scores(n: int, m: int) -> None:
    wins = trials = 0
    for task in continuous_tasks(2, 20):
        scores = [
            task.closeness(float(answer(task, sample).partition(ANSWER_MARK)[2])) for sample in range(420)
        ]
        assert len(set(scores)) > 0.99 * len(scores)
        size = n + m
        for start in range(0, len(scores) - size + 1, size):
            wins += max(scores[start : start + n]) > max(scores[start + n : start + size])
            trials += 1
    p = oracle_win_probability(n, m)
    assert abs(wins / trials - p) < 4 * math.sqrt(p * (1 - p) / trials)


def test_answers_depend_on_the_labels_alone() -> None:
    task, other = short_tasks(9, 2)
    forward = [answer(task, sample) for sample in range(20)]
    backward = [answer(task, sample) for sample in reversed(range(20))]
    assert forward == backward[::-1]
    assert [answer(other, sample) for sample in range(20)] != forward
    assert [answer(short_tasks(10, 1)[0], sample) for sample in range(20)] != forward
    assert short_tasks(9, 30)[:2] == (task, other)


def test_the_extract_rule_finds_the_answer_or_nothing() -> None:
    import re

    task = short_tasks(4, 1)[0]
    for sample in range(300):
        text = answer(task, sample)
        found = re.search(EXTRACT, text)
        assert (found is None) == (ANSWER_MARK not in text)
        assert found is None or found[1] in task.answers


def test_prompts_are_unique() -> None:
    for seed in range(5):
        prompts = [task.prompt for task in (*short_tasks(seed, 200), *continuous_tasks(seed, 200))]
        assert len(set(prompts)) == 400


def test_an_unknown_prompt_is_answered_as_a_guess() -> None:
    text = next(
        text
        for sample in range(99)
        if ANSWER_MARK in (text := answer(unknown_task(0, "Pick A) or B)"), sample))
    )
    assert "simulation" in text
    assert text[-1] in "ABCD"


@given(st.text())
def test_tokens_joined_are_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert count(text) == len(pieces(text))


def test_hand_counted_tokens() -> None:
    assert pieces("ANSWER: 42") == ["ANSWER", ":", " 42"]
    assert pieces("reasoning ok.") == ["reason", "ing", " ok", "."]
    # two messages of 1 and 3 tokens, four tokens for each message, two for the conversation
    assert prompt_tokens(["Think", "2 + 2"]) == 1 + 3 + 2 * 4 + 2
