"""Each kind of damage is found once, at its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elometer.ledger.reader import last_lines
from elometer.ledger.verify import verify
from elometer.ledger.writer import JsonlWriter

FOUNDING = Path(__file__).parents[1] / "fixtures" / "founding" / "token_ledger.jsonl"
GOOD: dict[str, Any] = {
    "experiment_id": "e", "strategy": "sample_1", "task": "t", "run": 1, "model": "m", "prompt_tokens": 7,
    "completion_tokens": 3, "total_tokens": 10, "timestamp": "2026-11-29T10:00:00Z",
}  # fmt: skip


def text(**changes: Any) -> str:
    return json.dumps({name: value for name, value in (GOOD | changes).items() if value != "absent"})


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ('{"experiment_id":"e","stra', "torn", "not one JSON object"),
        ("\0\0\0\0", "torn", "not one JSON object"),
        ("[1]", "torn", "not one JSON object"),
        (text() + text(run=2), "glued", "2 records"),
        (text(model="absent", run="absent"), "fields", "missing: run, model"),
        (text(run="1"), "fields", "run is not a whole number"),
        (text(prompt_tokens=-1), "fields", "prompt_tokens is neither"),
        (text(total_tokens=True, prompt_tokens=None), "fields", "total_tokens is neither"),
        (text(timestamp="yesterday"), "fields", "timestamp is not ISO 8601"),
        (text(strategy=3), "fields", "strategy is neither"),
        (text(total_tokens=11), "sum", "total_tokens is 11, prompt + completion is 10"),
        (text(total_tokens=None), "sum", "total_tokens is null"),
        (text(call_id="c", attempt=1, final=True), "duplicate", "the same attempt as line 1"),
        (text(call_id="c", attempt=2, final=True), "duplicate", "answered on line 1"),
    ],
)
def test_damage(tmp_path: Path, line: str, kind: str, words: str) -> None:
    path = tmp_path / "l.jsonl"
    first = text(call_id="c", attempt=1, final=True)
    path.write_text(f"{first}\n{line}\n{text(strategy=None)}\n")
    (found,) = verify(path)
    assert (found.kind, found.line, found.offset) == (kind, 2, len(first) + 1)
    assert words in found.message


def test_unknown_counts_and_retries_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    lines = [
        text(
            prompt_tokens=None, completion_tokens=None, total_tokens=None, call_id="c", attempt=1, final=False
        ),
        text(call_id="c", attempt=2, final=True),
        text(prompt_tokens=None, completion_tokens=None, total_tokens=10),
    ]
    path.write_text("".join(line + "\n" for line in lines))
    assert list(verify(path)) == []
    assert list(verify(FOUNDING)) == []


def test_an_unfinished_line_is_damage_only_when_nobody_is_writing(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text(text() + "\n")
    with JsonlWriter(path), path.open("a") as file:
        file.write('{"half')
        file.flush()
        assert list(verify(path)) == []
    (found,) = verify(path)
    assert (found.kind, found.line, found.offset) == ("torn", 2, len(text()) + 1)


def test_the_last_lines_are_read_from_the_end(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_bytes(b"".join(b"%d\n" % n for n in range(1000)) + b"half")
    assert last_lines(path, 3, size=7) == [b"997", b"998", b"999"]
    assert len(last_lines(path, 5000)) == 1000
    assert last_lines(path, 0) == []
