"""A line per use: the sums of an expanded ledger, read again by whatever reads ledgers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elometer.core.errors import UsageError
from elometer.jobs.ledger import add, export
from elometer.ledger.charged import token_sums
from elometer.ledger.expand import uses


def line(**more: Any) -> dict[str, Any]:
    return {
        "experiment_id": "e", "strategy": "sample_2", "task": "t", "run": 1, "model": "m",
        "prompt_tokens": 100, "completion_tokens": 25, "total_tokens": 125,
        "timestamp": "2026-11-29T10:00:00Z", "call_id": "c1", "phase": "sample",
    } | more  # fmt: skip


WHOLE = line(used_by=["sample_1", "sample_2"])
# Thirds of 125 are no whole numbers; three draws charge sample_1 one of them and sample_2 two.
POOLED = [
    line(call_id=f"c{number}", used_by=["sample_1", "sample_2"], use_share=[1 / 3, 2 / 3])
    for number in range(3)
]


@pytest.mark.parametrize(
    ("records", "charged"),
    [([WHOLE], {"sample_1": 125, "sample_2": 125}), (POOLED, {"sample_1": 125, "sample_2": 250})],
)
def test_an_expanded_ledger_charges_what_the_ledger_charges(
    tmp_path: Path, records: list[dict[str, Any]], charged: dict[str, int]
) -> None:
    path, again = tmp_path / "ledger.jsonl", tmp_path / "expanded.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    again.write_bytes(b"".join(export([path], "jsonl", [], expand=True)))
    assert token_sums([path]).total == token_sums([again]).total == charged
    for where, tokens in token_sums([path]).answered.items():
        assert token_sums([again]).answered[where] == pytest.approx(tokens)
    # What was expanded is not expanded again.
    assert b"".join(export([again], "jsonl", [], expand=True)) == again.read_bytes()


def test_copies_of_a_call_are_not_added_to_a_ledger(tmp_path: Path) -> None:
    copies = [json.dumps(use).encode() for use in uses(WHOLE)]
    path = tmp_path / "ledger.jsonl"
    with pytest.raises(UsageError, match="copies of shared calls"):
        add(copies, to=path)
    assert not path.exists()
    assert add([json.dumps(WHOLE).encode()], to=path).known == 0
    assert add(copies, to=path).known == 2  # where the call itself is, there is nothing to lose


@pytest.mark.parametrize(
    "odd",
    [
        {"used_by": "sample_1"},
        {"used_by": [["sample_1"], 2]},
        {"used_by": ["sample_1"], "use_share": ["x"]},
        {"used_by": ["sample_1"], "use_share": 0.5},
        {"used_by": ["sample_1"], "strategy": None},
    ],
)
def test_a_line_whose_users_cannot_be_read_is_given_as_it_is(odd: dict[str, Any]) -> None:
    assert list(uses(line(**odd))) == [line(**odd)]


def test_a_count_that_is_no_number_is_kept_as_it_is() -> None:
    record = line(used_by=["sample_1"], use_share=[0.5], total_tokens="125")
    assert [(use["total_tokens"], use["prompt_tokens"]) for use in uses(record)] == [
        ("125", 100),
        ("125", 50),
    ]
