"""Pair records from files: shapes, faults that name their line, counts, invariances."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.core.errors import UsageError
from elometer.rating.pairs import BlockScores, count_blocks, pair_blocks
from elometer.rating.reading import RecordReader
from elometer.rating.records import PairRecord, RecordSet, read_records

RECORD = {
    "experiment_id": "e",
    "task": "t",
    "run": 1,
    "winner": "sample_2",
    "loser": "sample_10",
    "a": "sample_2",
    "b": "sample_10",
    "outcome": "a",
    "score_a": 1,
    "score_b": 0,
    "source": "score",
    "orders": None,
    "inconsistent": None,
    "weight": 1.0,
    "block": 3,
}


def written(folder: Path, *lines: object, name: str = "records.jsonl") -> Path:
    path = folder / name
    path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines))
    return path


def refused(path: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read_records(path)
    assert caught.value.exit_code == 2
    assert len(caught.value.lines()) == 3
    return caught.value


def test_fields_stand_in_the_order_of_the_format() -> None:
    further = ["run_a", "run_b", "shared", "share_a", "share_b"]  # written only where they say something
    assert list(PairRecord.__struct_fields__) == [*RECORD, *further]


def test_full_records(tmp_path: Path) -> None:
    tie = RECORD | {"winner": None, "loser": None, "outcome": "tie", "run": 2, "block": 4}
    records = read_records(written(tmp_path, RECORD, tie))
    assert records.strategies == ("sample_2", "sample_10")
    assert records.tasks == ("t",)
    assert records.wins.tolist() == [[[0, 1], [0, 0]]]
    assert records.tie_counts.tolist() == [[[0, 1], [1, 0]]]
    assert records.comparisons == 2
    assert records.tie_rate == 0.5
    assert records.counted_task_runs == {
        ("sample_2", "t", 1),
        ("sample_10", "t", 1),
        ("sample_2", "t", 2),
        ("sample_10", "t", 2),
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "bare.jsonl",
            '{"winner":"x","loser":"y"}\n{"winner":"x","loser":"y"}\n{"winner":"y","loser":"x"}\n',
        ),
        ("arrays.jsonl", '["x","y"]\n["x","y"]\n\n["y","x"]\n'),
        ("mixed.jsonl", '["x","y"]\n{"winner":"x","loser":"y"}\n{"a":"x","b":"y","outcome":"b"}'),
        ("pairs.csv", "x,y\nx,y\ny,x\n"),
        ("header.csv", "winner,loser\nx,y\nx,y\ny,x\n"),
        ("turned.csv", "loser,winner\r\ny,x\r\ny,x\r\nx,y\r\n"),
        ("bom.csv", "\ufeffwinner,loser\nx,y\nx,y\ny,x\n"),
        ("quoted.csv", '"x","y"\n"x","y"\n\n"y",x\n'),
        ("no_suffix", "x,y\nx,y\ny,x\n"),
        ("fields.csv", "task,a,b,outcome\n,x,y,a\n,y,x,b\n,x,y,b\n"),
    ],
)
def test_every_shape_gives_the_same_counts(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    records = read_records(path)
    assert records.strategies == ("x", "y")
    assert records.wins.tolist() == [[[0, 2], [1, 0]]]
    assert records.comparisons == 3
    assert len(records.tasks) == 1


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (RECORD | {"outcome": "tie (bothbad)", "winner": None, "loser": None}, r"tie \(bothbad\)"),
        (RECORD | {"outcome": "sample_2"}, "no outcome"),
        (RECORD | {"outcome": ""}, "no outcome"),
        (RECORD | {"outcome": "b"}, "contradict"),
        (RECORD | {"outcome": "tie"}, "contradict"),
        (RECORD | {"winner": "sample_4"}, "contradict"),
        (RECORD | {"winner": None, "loser": None, "outcome": None}, "neither an outcome"),
        (RECORD | {"a": None}, "both name"),
        (RECORD | {"a": "", "winner": ""}, "empty name"),
        (RECORD | {"b": "sample_2", "loser": "sample_2"}, "itself"),
        (RECORD | {"weight": -1}, "weight"),
        ('{"winner":"x","loser":"y","weight":1e999}', "weight"),
        (RECORD | {"weight": "1"}, "weight"),
        (RECORD | {"run": "one"}, "run"),
        ({"winner": "x"}, "winner and loser"),
        ({"strategy": "x", "total_tokens": 3}, "winner and loser"),
        (["x", "y", "z"], "length"),
        (["x", 1], "str"),
        (["x", "x"], "itself"),
        ("3", "object"),
        ('{"winner":"x","loser"', "malformed|truncated|end"),
        ("\x00", "malformed|character"),
    ],
)
def test_a_fault_names_its_line(tmp_path: Path, bad: object, words: str) -> None:

    error = refused(written(tmp_path, RECORD, "", RECORD | {"run": 2, "block": 4}, bad, RECORD))
    assert "line 4" in error.message
    assert re.search(words, error.evidence), error.evidence


def test_a_fault_far_into_a_file_names_its_line(tmp_path: Path) -> None:
    """Lines are read in chunks of megabytes."""
    lines = [json.dumps(RECORD | {"run": n, "block": n}) for n in range(40_000)]
    lines[31_415] = lines[31_415].replace('"outcome": "a"', '"outcome": "c"')
    assert "line 31416" in refused(written(tmp_path, *lines)).message


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x,y\nx\n", 2, "1 column where 2"),
        ("x,y,z\n", 1, "columns"),
        ("winner,loser\nx,y\nx,\n", 3, "name"),
        ("x,x\n", 1, "itself"),
        ("a,b,outcome\nx,y,draw\n", 2, "draw"),
    ],
)
def test_a_fault_in_a_csv_names_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(text)
    error = refused(path)
    assert f"line {line}" in error.message
    assert words in error.evidence


def test_paths_that_hold_nothing(tmp_path: Path) -> None:
    refused(tmp_path)
    refused(tmp_path / "absent.jsonl")
    refused(written(tmp_path))
    refused(written(tmp_path, "", "  "))
    refused(written(tmp_path, "winner,loser", name="pairs.csv"))
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00x")
    refused(binary)


def test_the_same_record_twice_counts_once(tmp_path: Path) -> None:
    judged = RECORD | {"source": "judge"}
    turned = RECORD | {"a": RECORD["b"], "b": RECORD["a"], "outcome": "b"}
    records = read_records(written(tmp_path, RECORD, RECORD, judged, turned))
    assert records.comparisons == 1
    assert records.notes[0][0] == "duplicates"
    assert "3 records" in records.notes[0][1]


def test_records_without_a_block_are_comparisons_of_their_own(tmp_path: Path) -> None:
    assert read_records(written(tmp_path, ["x", "y"], ["x", "y"])).comparisons == 2


def test_contradicting_sources_are_refused(tmp_path: Path) -> None:
    judged = RECORD | {"source": "judge", "outcome": "b", "winner": RECORD["b"], "loser": RECORD["a"]}
    error = refused(written(tmp_path, RECORD | {"run": 7, "block": 9}, RECORD, judged))
    assert "2 and 3" in error.message
    assert "sample_2 against sample_10" in error.evidence


def test_several_experiments_are_mentioned(tmp_path: Path) -> None:
    records = read_records(written(tmp_path, RECORD, RECORD | {"experiment_id": "f"}))
    assert records.comparisons == 2
    assert [code for code, _message in records.notes] == ["several_experiments"]


def test_records_in_memory_are_checked_as_lines_are() -> None:
    good = msgspec.convert(RECORD, PairRecord)
    assert RecordSet.from_records([good]).comparisons == 1
    with pytest.raises(UsageError) as caught:
        RecordSet.from_records([good, msgspec.structs.replace(good, winner="sample_10", loser="sample_2")])
    assert "record 2" in caught.value.message
    with pytest.raises(UsageError):
        RecordSet.from_records([])


scores = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0]))
blocks = st.lists(
    st.builds(
        lambda task, values: (task, dict(zip(("sample_1", "sample_2", "sample_10"), values, strict=True))),
        st.sampled_from(["a", "b"]),
        st.tuples(scores, scores, scores),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(blocks, st.randoms(use_true_random=False), st.data())
def test_what_is_paired_written_and_read_is_counted(tmp_path_factory, drawn, random, data) -> None:
    made = [BlockScores(task, n, n, values) for n, (task, values) in enumerate(drawn)]
    records = pair_blocks("e", made)
    expected = {}
    for block in made:
        for a, x in block.scores.items():
            for b, y in block.scores.items():
                if a != b and x is not None and y is not None:
                    key = (block.task, a, b)
                    expected[key] = expected.get(key, 0) + (1.0 if x > y else 0.5 if x == y else 0.0)
    if not records:
        return
    random.shuffle(records)
    path = tmp_path_factory.mktemp("pairs") / "records.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    read = read_records(path)
    found = read.wins + 0.5 * read.tie_counts
    for (task, a, b), value in expected.items():
        place = read.tasks.index(task), read.strategies.index(a), read.strategies.index(b)
        assert found[place] == value
    assert found.sum() == len(records)
    for other in (RecordSet.from_records(records), count_blocks("e", made)):
        assert (other.strategies, other.tasks) == (read.strategies, read.tasks)
        for name in ("wins", "tie_counts", "block_task", "block_run", "block_order", "cell_block", "records"):
            np.testing.assert_array_equal(getattr(other, name), getattr(read, name))


def test_pairs_stand_in_natural_order_and_ties_count_once() -> None:
    block = BlockScores("t", 1, 7, {"sample_16": 0.2, "sample_2": 0.25, "sample_1": None, "sample_4": 0.9})
    records = pair_blocks("e", [block], tie_epsilon=0.05)
    assert [(r.a, r.b, r.outcome, r.winner, r.loser) for r in records] == [
        ("sample_2", "sample_4", "b", "sample_4", "sample_2"),
        ("sample_2", "sample_16", "tie", None, None),
        ("sample_4", "sample_16", "a", "sample_4", "sample_16"),
    ]
    assert all((r.block, r.run, r.task, r.experiment_id) == (7, 1, "t", "e") for r in records)


def test_scores_that_are_no_numbers_are_excluded_and_infinite_ones_are_not() -> None:
    block = BlockScores(
        "t", 1, 1, {"a": float("nan"), "b": float("inf"), "c": float("inf"), "d": float("-inf")}
    )
    assert [(r.a, r.b, r.outcome) for r in pair_blocks("e", [block])] == [
        ("b", "c", "tie"),
        ("b", "d", "a"),
        ("c", "d", "a"),
    ]


@pytest.mark.parametrize("size", [3, 17, 60])
def test_pairs_in_memory_are_counted_however_many_kinds_there_are(size: int) -> None:
    """Few, more than 256 and many kinds of pairs are counted in ways of their own."""
    rng = np.random.default_rng(size)
    first = rng.integers(0, size, 4000)
    second = (first + rng.integers(1, size, 4000)) % size
    pairs = [(f"m{i}", f"m{j}") for i, j in zip(first.tolist(), second.tolist(), strict=True)]
    records = RecordSet.from_pairs(pairs)
    assert records.comparisons == 4000
    expected = np.zeros((size, size))
    np.add.at(expected, (first, second), 1)
    assert records.strategies == tuple(f"m{i}" for i in range(size))
    np.testing.assert_array_equal(records.wins[0], expected)


@pytest.mark.parametrize("pairs", [[], [("a", "a")], [("a", "")]])
def test_pairs_in_memory_that_compare_nothing(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(UsageError):
        RecordSet.from_pairs(pairs)


def test_records_twice_are_found_in_any_order_and_however_wide_their_keys() -> None:
    """Blocks far apart make the key too wide for one number; the answer stays."""
    lines = [
        {
            "task": f"t{t}",
            "run": r,
            "a": "x",
            "b": b,
            "outcome": "a",
            "winner": "x",
            "loser": b,
            "block": block,
        }
        for block, (t, r) in enumerate((t, r) for t in range(4) for r in (1, 2))
        for b in ("y", "z")
    ]
    twice = [*lines, lines[3], lines[0]]
    for far in (0, 2**61):
        for order in (twice, twice[::-1]):
            reader = RecordReader()
            reader.add_jsonl(
                "".join(
                    json.dumps(line | {"block": line["block"] + (far if line["block"] > 3 else 0)}) + "\n"
                    for line in order
                ).encode()
            )
            found = reader.finish()
            assert found.comparisons == len(lines)
            assert [code for code, _message in found.notes] == ["duplicates"]
