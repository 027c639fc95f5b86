"""What an attempt costs the day's budget, from the table of what vendors bill: unknown is never nothing."""

from __future__ import annotations

from typing import Any

import pytest

from elometer.core.attempt import Attempt
from elometer.runs.calls import book_charge, budget_charge

WORST = 300


def attempt(**fields: Any) -> Attempt:
    return Attempt(experiment_id="e", strategy="sample_1", task="t", run=1, model="m", timestamp="", **fields)


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"status": "ok", "http_status": 200, "total_tokens": 42, "billed": "yes"}, 42),
        ({"status": "ok", "http_status": 200, "total_tokens": None, "billed": "yes"}, WORST),
        # Refused before the model ran.
        ({"status": "error", "error_class": "bad_key", "http_status": 401, "billed": "no"}, 0),
        ({"status": "error", "error_class": "rate_limit", "http_status": 429, "billed": "no"}, 0),
        ({"status": "error", "error_class": "net_refused", "billed": "no"}, 0),
        # A cut stream: the estimate.
        ({"status": "error", "error_class": "net_reset", "http_status": 200, "total_tokens": 30, "billed": "unknown"}, 30),
        # The upstream may finish and bill.
        ({"status": "error", "error_class": "server_error", "http_status": 500, "billed": "unknown"}, WORST),
        ({"status": "error", "error_class": "timeout_upstream", "http_status": 504, "billed": "unknown"}, WORST),
        ({"status": "error", "error_class": "net_timeout_read", "prompt_tokens": 20, "billed": "unknown"}, WORST),
        ({"status": "error", "error_class": "net_reset", "billed": "unknown"}, WORST),
        ({"status": "cancelled", "prompt_tokens": 20, "billed": "unknown"}, WORST),
    ],
)  # fmt: skip
def test_charge(fields: dict[str, Any], tokens: int) -> None:
    assert budget_charge(attempt(**fields), WORST) == tokens


def test_a_line_carries_its_charge_only_where_no_count_tells_it() -> None:
    counted, refused, unknown = attempt(total_tokens=42), attempt(billed="no"), attempt(billed="unknown")
    assert [book_charge(line, WORST) for line in (counted, refused, unknown)] == [42, 0, WORST]
    assert [line.reserved_tokens for line in (counted, refused, unknown)] == [None, None, WORST]
    assert [line.spent_tokens for line in (counted, refused, unknown)] == [42, 0, WORST]
