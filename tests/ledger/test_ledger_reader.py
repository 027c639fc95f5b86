"""The reader never stops, never loses a whole line, and names what it could not read."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.core.errors import UsageError
from elometer.ledger.cells import Line
from elometer.ledger.index import LineIndex
from elometer.ledger.reader import Reading, Tail, blocks, read_attempts

FOUNDING = Path(__file__).parents[1] / "fixtures" / "founding" / "token_ledger.jsonl"


def line(n: int, **more: object) -> bytes:
    record = {
        "experiment_id": "e", "strategy": "sample_1", "task": "t", "run": n, "model": "m",
        "prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "timestamp": "2026-11-29T00:00:00Z",
    }  # fmt: skip
    return json.dumps(record | more).encode()


def runs_in(path: Path) -> tuple[list[int | str | None], Reading[Line]]:
    reading = Reading(path, Line)
    return [record.run for record in reading], reading


def test_nine_fields_are_enough_and_unknown_ones_are_no_trouble(tmp_path: Path) -> None:
    attempts = list(read_attempts(FOUNDING))
    assert [(a.strategy, a.total_tokens) for a in attempts] == [("sample_1", 908), ("sample_2", 1840)]
    newer = tmp_path / "newer.jsonl"
    newer.write_bytes(line(1, of_a_later_version={"x": [1]}) + b"\n")
    assert [a.run for a in read_attempts(newer)] == [1]


def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_bytes(line(1) + b"\n" + line(2)[:40])
    reading = Reading(path, Line)
    assert [r.run for r in reading] == [1]
    assert reading.bad == []
    with path.open("ab") as file:
        file.write(line(2)[40:] + b"\n")
    assert [r.run for r in reading] == [2]
    assert (reading.offset, reading.number, reading.records) == (path.stat().st_size, 3, 2)


@pytest.mark.parametrize(
    ("damage", "recovered"),
    [
        (b'{"experiment_id":"e","strat', []),
        (b"\0" * 100, []),
        (b"\0" * 8 + line(7), [7]),
        (b"\xef\xbb\xbf" + line(7), [7]),
        (line(1)[:50] + line(7), [7]),
        (line(7) + line(1)[:50], [7]),
        (line(1)[:50] + line(7) + line(8)[:20] + line(9), [7, 9]),
        (line(7).replace(b'"t"', b'"\xff"'), [7]),
        (line(7).replace(b'"t"', b'"\\ud83d"'), [7]),
        (b'{"experiment_id":5}', []),
        (b"[1, 2]", []),
        (b'{"raw_usage":{"prompt_tokens":1}', []),
    ],
)
def test_damage_is_located_and_what_it_holds_is_kept(
    tmp_path: Path, damage: bytes, recovered: list[int]
) -> None:
    path = tmp_path / "l.jsonl"
    path.write_bytes(line(1) + b"\n" + damage + b"\n" + line(2) + b"\n")
    runs, reading = runs_in(path)
    assert runs == [1, *recovered, 2]
    (bad,) = reading.bad
    assert (bad.number, bad.offset, bad.size, bad.recovered) == (
        2,
        len(line(1)) + 1,
        len(damage) + 1,
        len(recovered),
    )
    assert path.read_bytes()[bad.offset : bad.offset + bad.size] == damage + b"\n"


def test_two_whole_records_on_a_line_are_two_records(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_bytes(line(1) + line(2) + b"\n")
    assert runs_in(path)[0] == [1, 2]


def test_a_line_far_larger_than_a_block_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_bytes(line(1) + b"\n" + line(2, pad="x" * 3_000_000) + b"\n" + line(3) + b"\n")
    assert runs_in(path)[0] == [1, 2, 3]
    pieces = list(blocks(path, size=1000))
    assert [(piece.number, len(piece.lines)) for piece in pieces] == [(1, 2), (3, 1)]
    assert pieces[1].offset == path.stat().st_size - len(line(3)) - 1


def test_no_file_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        list(read_attempts(tmp_path / "nothing.jsonl"))
    with pytest.raises(UsageError):
        list(read_attempts(tmp_path))


garbage = st.binary(max_size=60).map(lambda data: data.replace(b"\n", b" "))
torn = st.integers(1, 90).map(lambda cut: line(999)[:cut])
opening = st.sampled_from([b'{"x":', b"[", b"}", b"]", b'{"x":"', b"\0\0\0", b"", b" \r", b"null", b"\xff"])
chunk = st.one_of(st.integers(0, 500), garbage, torn, opening)


@settings(max_examples=300)
@given(st.lists(chunk, max_size=25), st.binary(max_size=30), st.integers(1, 400))
def test_every_whole_line_is_found_among_any_bytes(chunks: list[int | bytes], tail: bytes, size: int) -> None:
    lines = [line(c) if isinstance(c, int) else c for c in chunks]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "l.jsonl"
        path.write_bytes(b"".join(part + b"\n" for part in lines) + tail.replace(b"\n", b""))
        runs, reading = runs_in(path)
        whole = [c for c in chunks if isinstance(c, int)]
        assert [run for run in runs if isinstance(run, int) and run != 999] == whole
        content = b"".join(part + b"\n" for part in lines)
        assert b"".join(part for block in blocks(path, size=size) for part in block.lines) == content
        for bad in reading.bad:
            assert lines[bad.number - 1] + b"\n" == content[bad.offset : bad.offset + bad.size]
        judged = len(whole) + len(reading.bad)
        assert judged >= sum(1 for part in lines if part.strip() and not _decodes(part))


def _decodes(part: bytes) -> bool:
    try:
        msgspec.json.decode(part, type=Line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


@settings(max_examples=150)
@given(st.lists(st.one_of(garbage, torn), max_size=4), st.integers(0, 500))
def test_a_record_glued_to_a_torn_one_is_recovered(before: list[bytes], run: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "l.jsonl"
        path.write_bytes(line(998)[:70] + line(run) + b"\n")
        assert runs_in(path)[0] == [run]


def test_the_tail_gives_new_whole_lines_and_starts_over_when_the_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    tail = Tail(path, limit=64)
    assert tail.poll() == []
    path.write_bytes(b"a\nb\nhal")
    assert tail.poll() == [b"a", b"b"]
    with path.open("ab") as file:
        file.write(b"f\n" + b"z" * 300 + b"\nlast\n")
    seen = tail.poll() + tail.poll() + tail.poll() + tail.poll()
    assert seen == [b"half", b"z" * 300, b"last"]
    assert not tail.restarted
    path.unlink()
    path.write_bytes(b"new\n")
    assert tail.poll() == [b"new"]
    assert tail.restarted


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"")), max_size=30), st.integers(0, 30))
def test_the_index_gives_any_part_of_a_growing_file(lines: list[bytes], cut: int) -> None:
    data = b"".join(part + b"\n" for part in lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "l.jsonl"
        path.write_bytes(data[:cut])
        index = LineIndex(path)
        first = index.update()
        path.write_bytes(data + b"half")
        assert first + index.update() == index.count == len(lines)
        for start in range(0, len(lines) + 2, 3):
            assert index.lines(start, 4) == lines[start : start + 4]
        path.write_bytes(b"x\n")
        if len(data) > 2:
            index.update()
            assert index.lines(0, 9) == [b"x"]
