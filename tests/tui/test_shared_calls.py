"""Where a number comes from when strategies share calls."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from elometer.rating.fit import TokenUse, fit
from elometer.rating.records import RecordSet
from elometer.tui.provenance import source_lines


def test_a_strategy_without_lines_of_its_own_shows_what_it_is_charged() -> None:
    records = RecordSet.from_pairs([("sample_1", "sample_2"), ("sample_2", "sample_1")])
    use = TokenUse(
        charged={("sample_1", "t", 1): 100, ("sample_2", "t", 1): 210},
        total_tokens={"sample_1": 100, "sample_2": 210},
        calls={"sample_1": 1, "sample_2": 2},
    )
    result = fit(records, use)
    small = "\n".join(source_lines(result, "sample_1", None, Path("/e")))
    assert "charged 100 tokens, with calls that it shares: 1 calls in all" in small
    assert "ledger export /e/token_ledger.jsonl --expand" in small
    own = SimpleNamespace(
        lines=2, calls=2, runs=1, prompt_tokens=200, completion_tokens=10, total_tokens=210, failed_attempts=0,
        estimated_tokens=0, unknown_usage_lines=0,
    )  # fmt: skip
    large = "\n".join(source_lines(result, "sample_2", own, Path("/e")))  # type: ignore[arg-type]
    assert "charged" not in large
