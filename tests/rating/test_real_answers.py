"""1,296 answers of two small models (SmolLM2 135M, Gemma 3 270M; 36 short-answer tasks, 8 samples each).

Recorded once against servers on loopback (2026); the expected values were published with the recording, by a
program of its own: a vote over m samples drawn 100 times a task from the 8 by a seeded generator, Elo by 2,000
steps of minorisation, its mean at 1000. The draws are repeated here, the rest comes out of pairs and tasks.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from elometer.rating.fit import FitOptions, FitResult, TokenUse, fit
from elometer.rating.records import PairRecord, RecordSet

ROWS = Path(__file__).parents[1] / "fixtures" / "answers" / "small_models.rows.json.gz"
VOTES = (1, 2, 4, 8)
MODELS = ("smollm2-135m", "gemma270m")
PROMPTS = ("zero", "few")
# accuracy, tokens per task, Elo among all twenty
PUBLISHED = {
    "smollm2-135m/zero/greedy": (0.583, 53.2, 1074.0),
    "gemma270m/few/vote_8": (0.488, 484.4, 1039.8),
    "smollm2-135m/few/vote_8": (0.478, 818.8, 1035.9),
    "smollm2-135m/few/greedy": (0.472, 101.0, 1034.1),
    "gemma270m/few/greedy": (0.472, 60.3, 1034.1),
    "smollm2-135m/few/vote_4": (0.437, 409.4, 1021.5),
    "gemma270m/few/vote_4": (0.419, 242.2, 1015.2),
    "smollm2-135m/few/sample_1": (0.402, 102.4, 1009.5),
    "smollm2-135m/few/vote_2": (0.399, 204.7, 1008.4),
    "gemma270m/zero/greedy": (0.389, 23.5, 1004.7),
    "smollm2-135m/zero/vote_8": (0.368, 448.3, 997.3),
    "gemma270m/few/vote_2": (0.352, 121.1, 991.9),
    "gemma270m/few/sample_1": (0.351, 60.5, 991.6),
    "smollm2-135m/zero/vote_4": (0.328, 224.2, 983.5),
    "smollm2-135m/zero/vote_2": (0.321, 112.1, 981.0),
    "smollm2-135m/zero/sample_1": (0.321, 56.0, 980.7),
    "gemma270m/zero/vote_8": (0.304, 196.2, 974.8),
    "gemma270m/zero/vote_4": (0.234, 98.1, 950.2),
    "gemma270m/zero/vote_2": (0.198, 49.0, 937.1),
    "gemma270m/zero/sample_1": (0.192, 24.5, 934.8),
}
GAIN = {  # vote_4 less sample_1 with its 95 % bootstrap interval over tasks
    ("smollm2-135m", "few"): (0.029, 0.009, 0.053),
    ("gemma270m", "few"): (0.080, 0.046, 0.117),
    ("gemma270m", "zero"): (0.048, 0.021, 0.078),
}


@cache
def answers() -> list[dict]:
    return json.loads(gzip.decompress(ROWS.read_bytes()))


def key(text: str) -> str:
    return re.sub(r"[^\w ]", "", text.lower()).strip()


@cache
def scores() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Per competitor, (36,) chances of a right answer and tokens."""
    rng = random.Random(1)
    chance: dict[str, np.ndarray] = {}
    tokens: dict[str, np.ndarray] = {}
    by_cell: dict[tuple[str, str, int], list[dict]] = {}
    for row in answers():
        by_cell.setdefault((row["model"], row["prompt"], row["task"]), []).append(row)
    for model in MODELS:
        for prompt in PROMPTS:
            for task in range(36):
                cell = by_cell[model, prompt, task]
                greedy = next(row for row in cell if row["temp"] == 0)
                samples = [row for row in cell if row["temp"] > 0]
                place = f"{model}/{prompt}/"

                def note(method: str, right: float, spent: float, place=place, task=task) -> None:
                    chance.setdefault(place + method, np.zeros(36))[task] = right
                    tokens.setdefault(place + method, np.zeros(36))[task] = spent

                note("greedy", float(greedy["right"]), greedy["p"] + greedy["c"])
                each = sum(row["p"] + row["c"] for row in samples) / 8
                for size in VOTES:
                    method = "sample_1" if size == 1 else f"vote_{size}"
                    note(method, drawn_votes(rng, samples, size), size * each)
    return chance, tokens


def drawn_votes(rng: random.Random, samples: list[dict], size: int) -> float:
    hits = 0
    for _draw in range(100):
        chosen = rng.sample(samples, size)
        votes = Counter(key(row["text"]) for row in chosen)
        most = max(votes.values())
        won = rng.choice([text for text in votes if votes[text] == most])
        hits += next(row["right"] for row in chosen if key(row["text"]) == won)
    return hits / 100


def fitted(
    names: list[str], options: FitOptions | None = None, exact: dict[str, np.ndarray] | None = None
) -> FitResult:
    """Pairs of independent draws: their expected outcome as weights of a win, a loss and a tie."""
    drawn, tokens = scores()
    chance = exact or drawn
    records = []
    for task in range(36):
        for a, b in itertools.combinations(names, 2):
            x, y = chance[a][task], chance[b][task]
            weights = {"a": x * (1 - y), "b": y * (1 - x), "tie": x * y + (1 - x) * (1 - y)}
            for outcome, weight in weights.items():
                records.append(
                    PairRecord(
                        experiment_id="answers",
                        task=str(task),
                        run=1,
                        winner=None,
                        loser=None,
                        a=a,
                        b=b,
                        outcome=outcome,
                        weight=weight,
                    )
                )
    charged = {(name, str(t), 1): tokens[name][t] for t in range(36) for name in names}
    use = TokenUse(charged, {name: int(tokens[name].sum()) for name in names})
    return fit(RecordSet.from_records(records), use, options)


def ladder_of(model: str, prompt: str) -> list[str]:
    return [f"{model}/{prompt}/{method}" for method in ("sample_1", "vote_2", "vote_4", "vote_8")]


def test_all_twenty_competitors() -> None:
    chance, _tokens = scores()
    result = fitted(list(chance), FitOptions(estimator="mle"))
    mean = np.mean([row.elo for row in result.strategies])
    for row in result.strategies:
        accuracy, tokens, elo = PUBLISHED[row.strategy]
        assert chance[row.strategy].mean() == pytest.approx(accuracy, abs=5.1e-4)
        assert row.tokens_per_task_run == pytest.approx(tokens, abs=0.06)
        assert row.elo - mean + 1000 == pytest.approx(elo, abs=0.06)


@cache
def exact_votes(model: str, prompt: str, size: int) -> np.ndarray:
    """(36,) the chance over all ways to draw, votes that tie sharing it: what endless draws would give."""
    chance = np.zeros(36)
    for task in range(36):
        samples = [
            row
            for row in answers()
            if (row["model"], row["prompt"], row["task"]) == (model, prompt, task) and row["temp"] > 0
        ]
        total = []
        for chosen in itertools.combinations(samples, size):
            votes = Counter(key(row["text"]) for row in chosen)
            top = [text for text, n in votes.items() if n == max(votes.values())]
            first = [next(row["right"] for row in chosen if key(row["text"]) == text) for text in top]
            total.append(sum(first) / len(top))
        chance[task] = np.mean(total)
    return chance


@pytest.mark.parametrize("which", list(GAIN))
def test_gains_of_four_votes_are_resolved(which: tuple[str, str]) -> None:
    """A win less a loss is, in expectation, the difference of the two chances."""
    gain, low, high = GAIN[which]
    single, _two, four, _eight = ladder_of(*which)
    chance = {single: exact_votes(*which, 1), four: exact_votes(*which, 4)}
    result = fitted([single, four], FitOptions(anchor=single), chance)
    wins = result.records.wins
    by_task = wins[:, 1, 0] - wins[:, 0, 1]
    # The published gains rest on 100 random draws a task, which leaves them an error of 0.008.
    assert by_task.mean() == pytest.approx(gain, abs=0.008)
    rng = np.random.default_rng(1)
    found = np.quantile(by_task[rng.integers(0, 36, (20_000, 36))].mean(axis=1), [0.025, 0.975])
    assert found == pytest.approx([low, high], abs=0.008)
    row = result.row(four)
    assert row.gain_lo > 0
    # Near one half a gap of d in score is 4 d logits, and a gain of g in accuracy a score of (1 + g) / 2.
    assert row.gain == pytest.approx(173.7178 * 2 * by_task.mean(), abs=0.5)


def test_what_four_zero_shot_votes_of_the_smaller_model_gain_is_not_resolved() -> None:
    single, _two, four, _eight = ladder_of("smollm2-135m", "zero")
    row = fitted([single, four], FitOptions(anchor=single)).row(four)
    assert row.gain_lo < 0 < row.gain_hi


def test_what_is_resolved_between_neighbours_and_what_tokens_buy() -> None:
    names = [name for name in ladder_of("gemma270m", "few") if "vote" in name]
    result = fitted(names)
    two, four, eight = result.strategies
    assert (two.compared_with, four.compared_with, eight.compared_with) == (None, names[0], names[1])
    assert four.resolved
    assert eight.resolved
    assert eight.elo_per_doubling < 120
    assert four.marginal_per_1k_task_run > eight.marginal_per_1k_task_run > 0
    assert four.marginal_lo > 0
