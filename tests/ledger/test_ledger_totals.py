"""Totals against the real jq and against sums made by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.ledger import rollup
from elometer.ledger.charged import token_sums
from elometer.ledger.rollup import rollup_file, sums
from elometer.ledger.totals import BY, founding, totals

FOUNDING = Path(__file__).parents[1] / "fixtures" / "founding" / "token_ledger.jsonl"
QUERY = (
    "group_by(.strategy) | map({strategy: .[0].strategy, runs: length, "
    "total_tokens: (map(.total_tokens) | add), avg_tokens: ((map(.total_tokens) | add) / length)})"
)
needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="the comparison needs jq on PATH")


def jq(*paths: Path) -> str:
    done = subprocess.run(["jq", "-c", "-s", QUERY, *paths], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def compact(rows: Any) -> str:
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False)


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return path


def entry(strategy: str | None, total: float | None, **more: Any) -> dict[str, Any]:
    return {
        "experiment_id": "e", "strategy": strategy, "task": "t", "run": 1, "model": "m",
        "prompt_tokens": None, "completion_tokens": None, "total_tokens": total,
        "timestamp": "2026-11-29T10:00:00Z",
    } | more  # fmt: skip


@needs_jq
def test_the_founding_example_prints_as_jq_prints_it() -> None:
    assert compact(founding([FOUNDING])) == jq(FOUNDING)


tokens = st.one_of(st.integers(0, 10**7), st.none(), st.floats(0, 1e6).map(lambda x: round(x, 3)))
names = st.one_of(st.none(), st.sampled_from(["sample_1", "sample_16", "sample_2", "Z", "é", "𝒳", "ﬀ", ""]))


@needs_jq
@settings(max_examples=60)
@given(st.lists(st.tuples(names, tokens), min_size=1, max_size=40), st.integers(0, 40))
def test_founding_equals_jq_in_every_field(lines: list[tuple[str | None, float | None]], cut: int) -> None:
    # jq cannot divide null: a strategy needs one known count for jq to answer at all.
    known = {name for name, total in lines if total is not None}
    entries = [entry(name, total) for name, total in lines if name in known]
    with tempfile.TemporaryDirectory() as folder:
        first = write(Path(folder) / "a.jsonl", *entries[:cut])
        second = write(Path(folder) / "b.jsonl", *entries[cut:])
        ours = founding([first, second])
        assert ours == json.loads(jq(first, second))
        assert compact(ours) == jq(first, second)


def test_where_jq_fails_the_sum_is_unknown(tmp_path: Path) -> None:
    path = write(tmp_path / "l.jsonl", entry("a", None), entry("a", None))
    assert founding([path]) == [{"strategy": "a", "runs": 2, "total_tokens": None, "avg_tokens": None}]


def small_ledger(path: Path) -> Path:
    """Two runs of sample_2 (one call retried once, one estimated), one run of sample_1, one judge call."""
    server = {"usage_source": "server", "phase": "sample", "status": "ok", "final": True, "attempt": 1}
    failed = server | {"status": "error", "final": False, "model": "asked"}
    retried = server | {"attempt": 2}
    return write(
        path,
        entry("sample_2", 10, call_id="a", prompt_tokens=7, completion_tokens=3, cached_tokens=2, **server),
        entry("sample_2", None, call_id="b", **failed),
        entry("sample_2", 30, call_id="b", prompt_tokens=20, completion_tokens=10, **retried),
        entry("sample_2", 8, call_id="c", run=2, **(server | {"usage_source": "estimated"})),
        entry("sample_1", None, call_id="d", **server),
        entry(None, 100, call_id="j", **(server | {"phase": "compare"})),
    )


def test_totals_by_strategy(tmp_path: Path) -> None:
    result = totals([small_ledger(tmp_path / "l.jsonl")])
    one, two, nobody = result.rows
    assert [row.name for row in result.rows] == ["sample_1", "sample_2", None]
    assert (two.runs, two.calls, two.lines, two.failed_attempts) == (2, 3, 4, 1)
    assert (two.prompt_tokens, two.completion_tokens, two.total_tokens) == (27, 13, 48)
    assert (two.avg_tokens, two.estimated_tokens, two.cached_tokens) == (24.0, 8, 2)
    assert (one.total_tokens, one.avg_tokens, one.unknown_usage_lines) == (None, None, 1)
    assert (nobody.total_tokens, nobody.runs, nobody.calls) == (100, 1, 1)
    assert list(two.as_json())[:7] == [
        "strategy", "runs", "calls", "prompt_tokens", "completion_tokens", "total_tokens", "avg_tokens",
    ]  # fmt: skip


def test_a_call_whose_attempts_went_to_two_models_counts_once_in_each(tmp_path: Path) -> None:
    rows = {row.name: row for row in totals([small_ledger(tmp_path / "l.jsonl")], by="model").rows}
    assert rows["asked"].calls == 1
    assert rows["m"].calls == 5
    assert rows["m"].total_tokens == 148


def test_runs_of_two_experiments_are_not_one_run(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{e}.jsonl", entry("s", 10, experiment_id=e)) for e in "ab"]
    (row,) = totals(paths).rows
    assert (row.runs, row.avg_tokens) == (2, 10.0)


def test_the_day_is_the_utc_day(tmp_path: Path) -> None:
    moments = ["2026-11-29T23:30:00Z", "2026-11-30T01:30:00+02:00", "2026-11-29T23:30:00-02:00", "someday"]
    path = write(tmp_path / "l.jsonl", *(entry("s", 1, timestamp=m, run=n) for n, m in enumerate(moments)))
    rows = {row.name: row.total_tokens for row in totals([path], by="day").rows}
    assert rows == {"2026-11-29": 2, "2026-11-30": 1, None: 1}


def test_a_rollup_gives_the_same_sums_and_is_dropped_when_it_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup, "WORTH_WRITING", 1)
    path = small_ledger(tmp_path / "l.jsonl")
    with path.open("a") as file:
        file.write("torn\n")
    fresh = {by: totals([path], by).rows for by in BY}
    assert rollup_file(path).exists()
    assert {by: totals([path], by).rows for by in BY} == fresh
    more = write(tmp_path / "more.jsonl", entry("sample_2", 5, call_id="b"), entry("new", 1))
    with path.open("ab") as file:
        file.write(more.read_bytes())
    grown = sums(path)
    assert [(bad.number, bad.reason != "") for bad in grown.bad] == [(7, True)]
    assert grown.records == 8
    rollup_file(path).unlink()
    assert sums(path, keep=False).cells == grown.cells
    totals([path])
    data = path.read_bytes().replace(b'"total_tokens": 10', b'"total_tokens": 11')
    path.write_bytes(data)  # the same inode and length, another content in the digested part
    assert next(row for row in totals([path]).rows if row.name == "sample_2").total_tokens == 54
    rollup_file(path).write_bytes(b"{")
    assert sums(path).records == 8


def test_charged_tokens_are_those_of_the_strategys_own_phases(tmp_path: Path) -> None:
    path = small_ledger(tmp_path / "l.jsonl")
    with path.open("a") as file:
        file.write(json.dumps(entry("sample_1", 4, phase="grade")) + "\n")
        file.write(json.dumps(entry("sample_1", 9, phase="select", status="error")) + "\n")
    result = token_sums([path])
    assert result.charged == {("sample_1", "t", 1): 9, ("sample_2", "t", 1): 40, ("sample_2", "t", 2): 8}
    assert result.answered[("sample_1", "t", 1)] == 0
    assert result.total == {"sample_1": 13, "sample_2": 48}
    assert result.estimated == {"sample_2": 8}
    assert result.calls == {"sample_1": 3, "sample_2": 3}
    assert result.unknown["sample_1"] == 1
    assert token_sums([path], "output").charged[("sample_2", "t", 1)] == 13
    assert token_sums([path], "uncached").charged[("sample_2", "t", 1)] == 38


def test_founding_lines_without_phase_are_charged() -> None:
    assert token_sums([FOUNDING]).charged == {("sample_1", "task-a", 1): 908, ("sample_2", "task-a", 1): 1840}
