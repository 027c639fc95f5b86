"""The verdict of a sentence is that of its whole interval, by the digits that it prints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elometer.rating.economics import Curvature
from elometer.rating.fit import FitOptions, fit
from elometer.rating.reading import RecordReader
from elometer.rating.result import StrategyFit
from elometer.rating.returns import sentences


def row(low: float | None, high: float | None) -> StrategyFit:
    reader = RecordReader()
    reader.add_jsonl(b'["sample_1","sample_2"]\n["sample_2","sample_1"]\n["sample_2","sample_1"]\n')
    last = fit(reader.finish()).strategies[-1]
    return replace(
        last,
        compared_with="sample_1",
        elo_per_doubling=60.0,
        elo_per_doubling_lo=low,
        elo_per_doubling_hi=high,
        tokens_per_task_run=100.0,
    )


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (20.0, 100.0, ", below the 120.4"),
        (20.0, 120.3, ", below the 120.4"),
        (20.0, 120.41, ", not told apart from the 120.4"),  # 120.412 is the reference: both read 120.4
        (20.0, 150.0, ", not told apart from the 120.4"),
        (120.42, 150.0, ", not told apart from the 120.4"),
        (120.6, 150.0, ", above the 120.4"),
    ],
)
def test_below_only_where_the_whole_interval_is(low: float, high: float, verdict: str) -> None:
    (said,) = sentences(True, (row(low, high),), None, None, FitOptions(), ())[:1]
    assert verdict in said


def test_an_open_end_has_no_verdict() -> None:
    said = sentences(True, (row(None, 100.0),), None, None, FitOptions(), ())[0]
    assert "not bounded" in said
    assert "below" not in said


@pytest.mark.parametrize(
    ("low", "high", "p", "verdict"),
    [
        (-9.0, -1.0, 0.01, "diminish faster"),
        (-9.0, 0.4, 0.04, "no departure"),  # one-sided p, two-sided interval: the interval is what is shown
        (-3.0, 9.0, 0.80, "no departure"),
        (0.5, 9.0, 0.99, "grow faster"),
    ],
)
def test_the_bend_is_judged_by_the_interval_beside_it(
    low: float, high: float, p: float, verdict: str
) -> None:
    bend = Curvature((low + high) / 2, low, high, p, 5)
    said = " ".join(sentences(True, (row(20.0, 150.0),), bend, None, FitOptions(), ()))
    assert verdict in said
