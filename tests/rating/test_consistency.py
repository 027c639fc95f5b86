"""Preferences in a circle and the worth of being shown first: told where they are, silent where they are not."""

from __future__ import annotations

import math

import numpy as np
import published
import pytest

from elometer.core.errors import UsageError
from elometer.rating.fit import FitOptions, fit
from elometer.rating.records import PairRecord, RecordSet
from elometer.rating.tokens import TokenUse


def record(task: str, run: int, a: str, b: str, outcome: str, weight: float = 1.0) -> PairRecord:
    winner, loser = {"a": (a, b), "b": (b, a), "tie": (None, None)}[outcome]
    return PairRecord(
        experiment_id="x", task=task, run=run, winner=winner, loser=loser, a=a, b=b, outcome=outcome, weight=weight
    )  # fmt: skip


def codes(records: RecordSet, options: FitOptions | None = None) -> dict[str, str]:
    return {each.code: each.message for each in fit(records, None, options).warnings}


def of_three(won: int, of: int, tasks: int) -> RecordSet:
    """rock beats scissors, scissors paper, paper rock, each in `won` of `of` games of each task."""
    return RecordSet.from_records(
        record(f"t{t}", g, a, b, "a" if g < won + (t % 3 - 1) else "b")
        for t in range(tasks)
        for a, b in (("rock", "scissors"), ("scissors", "paper"), ("paper", "rock"))
        for g in range(of)
    )


def test_a_circle_beyond_chance_is_told() -> None:
    told = codes(of_three(14, 20, 12))
    assert told["intransitive"].startswith("paper beats rock, rock beats scissors and scissors beats paper, ")


@pytest.mark.parametrize(("won", "of", "tasks"), [(11, 20, 3), (14, 20, 2), (3, 4, 3)])
def test_a_circle_that_chance_explains_is_not(won: int, of: int, tasks: int) -> None:
    assert "intransitive" not in codes(of_three(won, of, tasks))


def test_tasks_that_happen_to_agree_make_nothing_sure() -> None:
    """Two games in each of three tasks, all the same way: no spread between tasks, and six games."""
    lines = [
        record(f"t{t}", g, a, b, "a")
        for t in range(3)
        for a, b in (("rock", "scissors"), ("scissors", "paper"), ("paper", "rock"))
        for g in range(2)
    ]
    assert "intransitive" not in codes(RecordSet.from_records(lines))
    heavy = [record(e.task, e.run, e.a, e.b, "a", weight=1000.0) for e in lines]
    assert "intransitive" not in codes(RecordSet.from_records(heavy))


def test_circles_are_seldom_seen_where_all_are_equal() -> None:
    rng = np.random.default_rng(5)
    names = [f"s{k}" for k in range(6)]
    seen = 0
    for _repeat in range(60):
        seen += "intransitive" in codes(
            RecordSet.from_records(
                record(f"t{t}", 1, names[i], names[j], "ab"[int(rng.integers(2))])
                for t in range(15)
                for i in range(6)
                for j in range(i)
            )
        )
    assert seen <= 3  # 5 % at most; three comparisons must all be sure, so that it is nearly never


def baseball() -> list[PairRecord]:
    return [
        record("season", at, home, away, outcome)
        for at, (home, away, won, lost) in enumerate(published.BASEBALL)
        for outcome in "a" * won + "b" * lost
    ]


def test_the_home_effect_of_baseball_is_told() -> None:
    """+0.302 logits, SE 0.131 (Agresti), are 52.5 and 22.7 Elo; with Firth's penalty (brglm) 0.294 or 51.1."""
    records = RecordSet.from_records(baseball())
    plain = codes(records, FitOptions(estimator="mle"))
    assert plain["position_effect"].startswith("Being shown first is worth +53 Elo (SE 23)")
    assert codes(records)["position_effect"].startswith("Being shown first is worth +51 Elo (SE 23)")
    assert "position_effect" not in codes(records, FitOptions(position=True))


def test_bare_pairs_list_the_winner_first_and_say_nothing_of_position() -> None:
    lines = [(e.winner, e.loser) for e in baseball()]
    assert not {"position_effect", "position_imbalance"} & set(codes(RecordSet.from_pairs(lines)))
    from elometer.rating.reading import RecordReader

    reader = RecordReader()
    reader.add_jsonl(b"".join(b'["%s","%s"]\n' % (w.encode(), x.encode()) for w, x in lines))
    assert not {"position_effect", "position_imbalance"} & set(codes(reader.finish()))


def test_who_is_shown_first_too_often_is_told() -> None:
    lines = [
        record(f"t{t}", g, *(("x", "y") if g < 8 else ("y", "x")), "ab"[(g + t) % 2])
        for t in range(12)
        for g in range(10)
    ]
    told = codes(RecordSet.from_records(lines))
    assert "x (80%)" in told["position_imbalance"]
    assert "y (20%)" in told["position_imbalance"]
    assert "position_effect" not in told
    even = [record(f"t{t}", g, *(("x", "y") if g % 2 else ("y", "x")), "ab"[t % 2]) for t in range(12) for g in range(10)]  # fmt: skip
    assert "position_imbalance" not in codes(RecordSet.from_records(even))


def test_a_strategy_of_few_tasks_among_many() -> None:
    lines = [record(f"t{t}", g, "x", "y", "ab"[(g + t) % 2]) for t in range(12) for g in range(6)]
    lines += [record(f"t{t}", g, "x", "late", "ab"[g % 2]) for t in range(4) for g in range(10)]
    told = codes(RecordSet.from_records(lines))
    assert told["few_tasks_of_strategy"] == "Compared in fewer than 5 tasks: late."
    assert "few_tasks_of_strategy" not in codes(RecordSet.from_records(lines[:72]))


def test_a_task_that_outweighs_all_others_by_its_weight() -> None:
    lines = [
        record(f"t{t}", g, "x", "y", "ab"[g % 2], 9.0 if t == 0 else 1.0) for t in range(6) for g in range(8)
    ]
    told = codes(RecordSet.from_records(lines), FitOptions(task_weight="records"))
    assert told["dominant_task"] == "Task t0 holds 64% of the weight and decides the result."
    assert "dominant_task" not in codes(RecordSet.from_records(lines))


def of_ten_tasks(*odd: str) -> RecordSet:
    """x wins nine of ten games against y in each task, but for the last ones, whose outcomes are given."""
    tasks = ["aaaaaaaaab"] * (10 - len(odd)) + list(odd)
    outcome = {"a": "a", "b": "b", "-": "tie"}
    return RecordSet.from_records(
        record(f"t{t}", g, "x", "y", outcome[letter])
        for t, task in enumerate(tasks)
        for g, letter in enumerate(task)
    )


def test_a_penalty_that_moves_a_gap_by_half_its_error() -> None:
    """ln 9 − ln (90.5 / 10.5) are 0.043 logits, 7.5 Elo.

    Where two tasks lie half a win off, influences are ± 0.5 / (100 · 0.9 · 0.1), the error is
    √(2 · 10 / 9) · 0.0556 = 0.083 and half of it less than that; where they lie a whole win off, it is more.
    """
    assert math.log(9) - math.log(90.5 / 10.5) == pytest.approx(0.0432, abs=1e-4)
    assert "penalty_moves" in codes(of_ten_tasks("aaaaaaaaa-", "aaaaaaaa-b"))
    assert "penalty_moves" not in codes(of_ten_tasks("aaaaaaaaaa", "aaaaaaaabb"))


def test_a_penalty_that_moves_a_gap_by_more_than_twenty_elo() -> None:
    """One loss in eight in each of two tasks: ln 7 plain, ln (14.5 / 2.5) with the penalty, 33 Elo apart."""
    lines = [record(f"t{t}", g, "x", "y", "b" if g == 0 else "a") for t in range(2) for g in range(8)]
    assert "penalty_moves" in codes(RecordSet.from_records(lines))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_tokens_that_are_no_number_are_refused(wrong: float) -> None:
    lines = [record(f"t{t}", 1, "x", "y", "ab"[t % 2]) for t in range(6)]
    charged = {(name, f"t{t}", 1): 100.0 for name in "xy" for t in range(6)} | {("y", "t3", 1): wrong}
    with pytest.raises(UsageError, match="y, task t3, run 1"):
        fit(RecordSet.from_records(lines), TokenUse(charged, {"x": 600, "y": 600}))
