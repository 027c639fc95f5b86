"""The views behind a fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from elometer.rating.details import details, details_json, details_text
from elometer.rating.fit import TokenUse, fit
from elometer.rating.pairs import BlockScores, pair_blocks
from elometer.rating.records import RecordSet, read_records

FOUNDING = Path(__file__).parents[1] / "fixtures" / "founding" / "records.jsonl"


def scored(tasks: int = 12, runs: int = 2) -> RecordSet:
    rng = np.random.default_rng(6)
    made = [
        BlockScores(
            f"t{t}",
            r,
            t * runs + r,
            {"sample_1": float(rng.random() < 0.4), "sample_2": float(rng.random() < 0.6), "sample_4": 1.0},
        )
        for t in range(tasks)
        for r in range(runs)
    ]
    return RecordSet.from_records(pair_blocks("e", made))


def test_a_task_by_itself() -> None:
    made = [
        BlockScores("a", 1, 1, {"sample_1": 0.0, "sample_2": 1.0, "sample_4": 1.0}),
        BlockScores("a", 2, 2, {"sample_1": 1.0, "sample_2": None, "sample_4": 0.0}),
        BlockScores("b", 1, 3, {"sample_1": 0.0, "sample_2": 1.0}),
    ]
    charged = {("sample_1", "a", 1): 10.0, ("sample_1", "a", 2): 30.0, ("sample_2", "a", 1): 50.0}
    result = fit(RecordSet.from_records(pair_blocks("e", made)), TokenUse(charged, {}))
    first, second = details(result).tasks
    assert (first.task, first.comparisons, first.tie_rate) == ("a", 4, 0.25)
    assert first.win_rates == (pytest.approx(1 / 3), 0.75, 0.5)
    assert first.tokens == (20.0, 50.0, None)
    assert second.win_rates == (0.0, 1.0, None)


def test_views_are_strict_json_and_readable() -> None:
    result = fit(scored())
    views = details(result)
    assert json.loads(json.dumps(details_json(views), allow_nan=False))
    text = details_text(result, views)
    assert len(views.without_one) == 2
    for each in views.without_one:
        assert each.low <= each.delta <= each.high
    for words in (
        "any one task left out",
        "ties dropped",
        "P(row better than column)",
        "Tasks that move",
        "second half",
    ):
        assert words in text
    assert views.better[2][0] > 0.9
    assert views.ranks[2][0] == 1
    assert views.sensitivity[0].elo == tuple(row.elo for row in result.strategies)


def test_what_is_not_bounded_is_in_no_view() -> None:
    result = fit(read_records(FOUNDING))
    views = details(result)
    assert views.better[4][0] is None
    assert all(each.elo[3:] == (None, None) for each in views.sensitivity)
    assert views.influence == ()
    assert "618" not in details_text(result, views)
