"""A fit as JSON, CSV and text: the names that scripts rely on, and what is never printed."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from simulated import games, ladder, record_set

from elometer.rating.fit import FitOptions, FitResult, TokenUse, csv_text, fit, fit_json, text_table
from elometer.rating.records import RecordSet, read_records
from elometer.rating.table import table_from_csv, table_text

FIXTURES = Path(__file__).parents[1] / "fixtures" / "founding"
CSV_HEADER = (
    "strategy,total_tokens,elo,delta_elo,delta_token,marginal_elo_per_1k,"
    "k,role,tasks,runs,calls,tokens_per_task_run,marginal_per_1k_task_run,marginal_lo,marginal_hi,"
    "win_rate_vs_anchor,win_rate_round_robin,ties,excluded,elo_lo,elo_hi,delta_lo,delta_hi,resolved,elo_per_1k,"
    "elo_per_doubling,unused_token_share,estimated_token_share"
)
JSON_KEYS = [
    "experiment_id",
    "estimator",
    "ties",
    "aggregation",
    "identified",
    "components",
    "unbounded",
    "tasks",
    "comparisons",
    "tie_rate",
    "elo_base",
    "elo_scale",
    "anchor",
    "strategies",
    "warnings",
]
JSON_ROW = [
    "strategy",
    "theta",
    "se",
    "elo",
    "elo_lo",
    "elo_hi",
    "total_tokens",
    "delta_elo",
    "delta_lo",
    "delta_hi",
    "delta_token",
    "marginal_elo_per_1k",
    "marginal_lo",
    "marginal_hi",
    "elo_per_doubling",
    "win_rate_vs_anchor",
    "win_rate_round_robin",
    "resolved",
]


def result(**choices: object) -> FitResult:
    rng = np.random.default_rng(1)
    theta = 0.5 * np.arange(4) + 0.2 * rng.standard_normal((20, 4))
    charged = {
        (name, f"task-{t}", 1): 100.0 * 2**s + t for s, name in enumerate(ladder(4)) for t in range(20)
    }
    use = TokenUse(
        charged, {name: 3000 * 2**s for s, name in enumerate(ladder(4))}, dict.fromkeys(ladder(4), 20)
    )
    return fit(record_set(games(rng, theta, 6)), use, FitOptions(experiment_id="e", **choices))


def test_json_has_the_promised_keys_in_order_and_is_strict() -> None:
    made = fit_json(result())
    assert list(made)[: len(JSON_KEYS)] == JSON_KEYS
    for row in made["strategies"]:
        assert list(row)[: len(JSON_ROW)] == JSON_ROW
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert made["experiment_id"] == "e"
    assert made["anchor"] == "sample_1"
    assert made["components"] == [list(ladder(4))]
    assert made["strategies"][0]["elo"] == 1000.0


def test_csv_has_the_promised_columns_and_the_ledgers_totals() -> None:
    text = csv_text(result())
    assert text.splitlines()[0] == CSV_HEADER
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["strategy"] for row in rows] == list(ladder(4))
    assert [row["total_tokens"] for row in rows] == ["3000", "6000", "12000", "24000"]
    assert rows[0]["delta_elo"] == rows[0]["marginal_elo_per_1k"] == ""
    assert rows[2]["delta_token"] == "6000"
    assert float(rows[2]["marginal_elo_per_1k"]) == pytest.approx(float(rows[2]["delta_elo"]) / 6)
    assert rows[1]["resolved"] in ("true", "false")


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_text_keeps_to_its_width(width: int) -> None:
    lines = text_table(result(), width=width).splitlines()
    assert max(map(len, lines)) <= max(width, 66)
    assert "resolved?" in lines[0]
    assert "/1k" in lines[0]
    if width >= 80:
        assert "its interval" in lines[0]
    assert "perfect best-of-n" in " ".join(line.strip() for line in lines)


def test_a_standardised_profile_is_no_elo() -> None:
    made = result(aggregation="per-task-standardised")
    assert all(row.elo is None and row.delta_elo is None for row in made.strategies)
    assert "Elo" not in text_table(made).splitlines()[0]
    assert made.warnings[0].code == "standardised_profile"
    asked = result(aggregation="per-task-standardised", profile_as_elo=True)
    assert asked.strategies[-1].elo is not None
    assert asked.warnings[0].code == "standardised_profile"


def test_a_profile_of_equal_strategies_is_flat_and_no_nan() -> None:
    wins = np.full((3, 3, 3), 2.0) * (1 - np.eye(3))
    made = fit(record_set(wins), None, FitOptions(aggregation="per-task-standardised", profile_as_elo=True))
    assert [row.elo for row in made.strategies] == [1000.0] * 3


def test_mean_of_tasks_is_the_mean_of_unstandardised_fits() -> None:
    wins = np.zeros((2, 2, 2))
    wins[0, 1, 0], wins[0, 0, 1] = 7, 3
    wins[1, 1, 0], wins[1, 0, 1] = 2, 5
    made = fit(record_set(wins), None, FitOptions(aggregation="per-task"))
    expected = (np.log(7.5 / 3.5) + np.log(2.5 / 5.5)) / 2
    assert made.strategies[1].theta == pytest.approx(expected, abs=1e-8)
    spread = np.array([np.log(7.5 / 3.5), np.log(2.5 / 5.5)]).std(ddof=1) / np.sqrt(2)
    assert made.strategies[1].se == pytest.approx(spread, abs=1e-8)


def test_the_unbounded_have_no_price() -> None:
    records = read_records(FIXTURES / "records.jsonl")
    names = ("sample_1", "sample_2", "sample_4", "sample_8", "sample_16")
    use = TokenUse({(name, "x", 1): 10.0 * 2**s for s, name in enumerate(names)}, dict.fromkeys(names, 100))
    for row in fit(records, use).strategies[3:]:
        assert row.marginal_elo_per_1k is None
        assert row.marginal_per_1k_task_run is None
        assert row.elo_per_doubling is None
        assert row.elo_per_1k is None
        assert (row.delta_elo, row.delta_lo, row.delta_bounded) == (None, None, False)
        assert row.elo is not None  # finite by the penalty, and marked
    rows = list(csv.DictReader(io.StringIO(csv_text(fit(records, use)))))
    assert [row["delta_elo"] for row in rows] == ["", "0.0", "0.0", "", ""]


def test_founding_table() -> None:
    rows = table_from_csv(FIXTURES / "table.csv")
    assert [row.delta_elo for row in rows] == [None, 28, 16, 9, 5]
    marginal = [row.marginal_elo_per_1k for row in rows[1:]]
    assert [f"{value:.2f}" for value in marginal] == ["2.55", "0.73", "0.20", "0.06"]
    for value in ("2.55", "0.73", "0.20", "0.06", "28.0", "16.0", "9.0", "5.0"):
        assert value in table_text(rows)


def test_every_cell_of_the_csv_is_a_name_a_number_or_empty() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(result()))))
    words = {"strategy", "role", "resolved"}
    for row in rows:
        for name, value in row.items():
            assert name in words or value == "" or float(value) == float(value), (name, value)


def test_what_would_resolve_the_rest_is_printed() -> None:
    """T ((t + z) se / gap)² tasks, with t of T − 1 degrees at 97.5 % and z at 80 %, as scipy has them."""
    rng = np.random.default_rng(4)
    made = fit(record_set(games(rng, 0.1 * np.arange(2) + 0.5 * rng.standard_normal((15, 2)), 4)))
    row = made.row("sample_2")
    assert not row.resolved
    reach = stats.t.ppf(0.975, 14) + stats.norm.ppf(0.8)
    needed = math.ceil(15 * (reach * row.se / row.theta) ** 2)
    least = f"{reach * row.se * 400 / math.log(10):.0f}"
    text = text_table(made, width=200)
    said = f"in tasks: sample_2 {needed:,}. These tasks find steps of {least} Elo (80 %)."
    assert said in text
    assert "To resolve" not in text_table(fit(RecordSet.from_pairs([("sample_1", "sample_2")] * 5)))
