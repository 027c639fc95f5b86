"""Preferences in a circle and the worth of being shown first: told where they are, silent where they are not."""

from __future__ import annotations

import math

import numpy as np
import published
import pytest

from elometer.core.errors import UsageError
from elometer.rating.fit import FitOptions, fit, text_table
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
    assert "x (80 %)" in told["position_imbalance"]
    assert "y (20 %)" in told["position_imbalance"]
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
    assert told["dominant_task"] == "Task t0 holds 64 % of the weight and decides the result."
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


def of_two_tasks() -> RecordSet:
    """a wins one of ten games of t1 and ties nine, and wins four of ten of t2.

    Ties half: a scores 0.55 and 0.4 of two tasks of equal weight, less than half of them. Dropped: 1 and 0.4,
    more than half. Davidson's order of two is that of their decisive wins, 0.1 + 0.4 against 0.6.
    """
    outcomes = {"t1": ["a"] + ["tie"] * 9, "t2": ["a"] * 4 + ["b"] * 6}
    return RecordSet.from_records(
        record(task, g, "x", "y", outcome) for task in outcomes for g, outcome in enumerate(outcomes[task])
    )


def test_an_order_that_hangs_on_ties_is_told() -> None:
    told = codes(of_two_tasks())["order_depends_on_ties"]
    assert told == "The order turns with ties counted otherwise, none of it resolved: y over x (dropped)."
    dropped = codes(of_two_tasks(), FitOptions(ties="drop"))["order_depends_on_ties"]
    assert dropped.endswith("x over y (half, by Davidson).")
    assert codes(of_two_tasks(), FitOptions(ties="davidson"))["order_depends_on_ties"].endswith("(dropped).")
    assert "order_depends_on_ties" in codes(of_two_tasks(), FitOptions(estimator="mle"))


def test_an_order_that_no_tie_turns_is_not() -> None:
    lines = [record(f"t{t}", g, "x", "y", ("a", "tie", "b", "a")[g]) for t in range(6) for g in range(4)]
    assert "order_depends_on_ties" not in codes(RecordSet.from_records(lines))
    level = [record(f"t{t}", g, "x", "y", ("a", "tie", "b")[g]) for t in range(6) for g in range(3)]
    assert "order_depends_on_ties" not in codes(RecordSet.from_records(level))


def test_an_order_that_is_resolved_and_turns_is_told_without_reserve() -> None:
    """Half: y leads in twenty tasks, 0.45 in every second one against 0.7. Dropped: x leads, 1 and 0.3."""
    lines = []
    for t in range(20):
        outcomes = ["a"] + ["tie"] * 9 if t % 2 else ["a"] * 3 + ["b"] * 7
        lines += [record(f"t{t:02}", g, "x", "y", outcome) for g, outcome in enumerate(outcomes)]
    told = codes(RecordSet.from_records(lines))["order_depends_on_ties"]
    assert told == "The order turns with ties counted otherwise: y over x (dropped)."


def test_the_design_effect_of_two_strategies_in_closed_form() -> None:
    """θ = ln p / (1 − p): clustered T / (T − 1) Σ (won_t − n_t p)², independent n p (1 − p), over the same."""
    won, of = [9, 1, 3, 2, 12], [12, 3, 10, 4, 21]
    lines = [
        record(f"t{t}", g, "sample_1", "sample_2", "a" if g < won[t] else "b")
        for t in range(5)
        for g in range(of[t])
    ]
    result = fit(RecordSet.from_records(lines), None, FitOptions(estimator="mle", task_weight="records"))
    p = sum(won) / sum(of)
    clustered = 5 / 4 * sum((w - n * p) ** 2 for w, n in zip(won, of, strict=True))
    effect = clustered / (sum(of) * p * (1 - p))
    assert result.design is not None
    assert result.design.effects == (pytest.approx(effect, rel=1e-9),)
    assert (result.design.largest_task, result.design.largest_share) == ("t4", 21 / 50)
    text = text_table(result, width=200)
    assert f"task t4 holds 42 % of the weight. Design effect of ΔElo {effect:.2f}:" in text
    assert fit(RecordSet.from_records(lines)).design is None


def test_ties_enter_the_design_effect_as_records_of_half_a_win() -> None:
    """Σ (y − p)² with y = 1, ½ and 0."""
    rows = [(5, 3, 1), (1, 4, 4), (2, 2, 0), (6, 1, 2)]
    lines = [
        record(f"t{t}", g, "sample_1", "sample_2", outcome)
        for t, row in enumerate(rows)
        for g, outcome in enumerate(["a"] * row[0] + ["tie"] * row[1] + ["b"] * row[2])
    ]
    result = fit(RecordSet.from_records(lines), None, FitOptions(estimator="mle", task_weight="records"))
    scores = [[1.0] * a + [0.5] * tie + [0.0] * b for a, tie, b in rows]
    p = sum(map(sum, scores)) / sum(map(len, scores))
    clustered = 4 / 3 * sum((sum(s) - len(s) * p) ** 2 for s in scores)
    alone = sum((y - p) ** 2 for s in scores for y in s)
    assert result.design is not None
    assert result.design.effects == (pytest.approx(clustered / alone, rel=1e-9),)
