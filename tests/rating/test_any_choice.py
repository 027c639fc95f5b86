"""Any records under any choice: a fit whose every face can be written, or an error in three lines."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.core.errors import UsageError
from elometer.rating.details import details, details_json, details_text
from elometer.rating.fit import csv_text, fit, fit_json, text_table
from elometer.rating.options import FitOptions
from elometer.rating.records import PairRecord, RecordSet
from elometer.rating.tokens import TokenUse

NAMES = ("sample_1", "sample_2", "sample_4", "random_2", "other")
GAMES = st.tuples(
    st.integers(0, 3),
    st.integers(1, 2),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from(("a", "b", "tie")),
    st.sampled_from((1.0, 1.0, 0.0, 2.5)),
)
CHOICES = st.fixed_dictionaries(
    {
        "estimator": st.sampled_from(("firth", "mle", "davidson")),
        "ties": st.sampled_from(("half", "drop", "davidson")),
        "aggregation": st.sampled_from(("pooled", "pooled", "per-task", "per-task-standardised")),
        "position": st.booleans(),
        "task_weight": st.sampled_from(("equal", "records")),
        "generalise": st.sampled_from(("tasks", "runs")),
        "profile_as_elo": st.booleans(),
    }
)


def record(game: tuple[int, int, str, str, str, float]) -> PairRecord:
    task, run, a, b, outcome, weight = game
    winner, loser = {"a": (a, b), "b": (b, a), "tie": (None, None)}[outcome]
    return PairRecord(
        experiment_id="x", task=f"t{task}", run=run, winner=winner, loser=loser, a=a, b=b, outcome=outcome,
        weight=weight,
    )  # fmt: skip


@settings(max_examples=100)
@given(st.lists(GAMES, min_size=1, max_size=40), CHOICES, st.booleans())
def test_any_choice_fits_or_says_why(games: list[Any], choices: dict[str, Any], priced: bool) -> None:
    lines = [record(game) for game in games if game[2] != game[3]]
    use = None
    if priced:
        charged = {
            (name, line.task, line.run): 100.0 * (1 + NAMES.index(name))
            for line in lines
            for name in (line.a, line.b)
        }
        use = TokenUse(charged, dict.fromkeys(NAMES, 5000))
    try:
        result = fit(RecordSet.from_records(lines), use, FitOptions(**choices))
    except UsageError as error:
        assert error.message
        return
    json.dumps(fit_json(result), allow_nan=False)
    assert csv_text(result).count("\n") == 1 + len(result.strategies)
    views = details(result)
    json.dumps(details_json(views), allow_nan=False)
    for text in (text_table(result, width=80), details_text(result, views, width=80)):
        assert "nan" not in text.replace("-nan", "nan").lower().split()
        assert max(map(len, text.splitlines())) <= 80
    for row in result.strategies:
        if not row.identified:
            assert row.elo_lo is None
            assert not row.resolved or row.delta_bounded
