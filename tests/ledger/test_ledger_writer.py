"""The writer's promises: whole lines, one writer, a disk that is full, a kill at any moment, no secret."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import signal
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from elometer.core import redact
from elometer.core.attempt import Attempt
from elometer.core.errors import ElometerError
from elometer.ledger.reader import Reading, read_attempts
from elometer.ledger.writer import AlreadyWritten, JsonlWriter, WriteRefused

NINE = [
    "experiment_id", "strategy", "task", "run", "model",
    "prompt_tokens", "completion_tokens", "total_tokens", "timestamp",
]  # fmt: skip


def attempt(**changes: object) -> Attempt:
    fields = {
        "experiment_id": "bt-eval-001", "strategy": "sample_2", "task": "task-a", "run": 1, "model": "m",
        "prompt_tokens": 812, "completion_tokens": 96, "total_tokens": 908,
        "timestamp": "2026-11-29T19:00:00.000Z", "call_id": "c1", "final": True,
    }  # fmt: skip
    return Attempt(**(fields | changes))  # type: ignore[arg-type]


def test_a_line_holds_the_nine_founding_fields_first_and_null_for_unknown(tmp_path: Path) -> None:
    path = tmp_path / "token_ledger.jsonl"
    with JsonlWriter(path) as writer:
        writer.append(attempt(prompt_tokens=None, completion_tokens=None, total_tokens=None))
    line = json.loads(path.read_text())
    assert list(line)[:9] == NINE
    assert line["total_tokens"] is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["token_ledger.jsonl"]


async def test_synced_returns_when_the_lines_before_it_are_on_disk(tmp_path: Path) -> None:
    with JsonlWriter(tmp_path / "l.jsonl") as writer:

        async def one(n: int) -> None:
            writer.append({"n": n})
            mine = writer.appended
            await writer.synced()
            assert writer.synced_count >= mine

        await asyncio.wait_for(asyncio.gather(*(one(n) for n in range(300))), 20)
        assert writer.synced_count == 300
    assert len((tmp_path / "l.jsonl").read_bytes().splitlines()) == 300


async def test_a_writer_that_is_not_durable_does_not_wait(tmp_path: Path) -> None:
    with JsonlWriter(tmp_path / "events.jsonl", durable=False) as writer:
        writer.append({"n": 1})
        await writer.synced()
        assert writer._thread is None


async def test_a_failing_sync_is_told_to_everyone_who_waits_and_to_later_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    writer = JsonlWriter(tmp_path / "l.jsonl")
    monkeypatch.setattr(os, "fdatasync", failing)
    writer.append({"n": 1})
    with pytest.raises(WriteRefused, match="could not be written"):
        await asyncio.wait_for(writer.synced(), 5)
    with pytest.raises(WriteRefused):
        writer.append({"n": 2})
    assert writer.synced_count == 0
    writer.close()


def test_a_second_writer_is_refused_with_the_owner_named(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    with JsonlWriter(path), pytest.raises(AlreadyWritten) as refused:
        JsonlWriter(path)
    assert f"process {os.getpid()} on " in refused.value.evidence
    JsonlWriter(path).close()


def test_a_full_disk_leaves_whole_lines_and_says_so(tmp_path: Path) -> None:
    """RLIMIT_FSIZE gives the same short write that a full disk gives (36 of 250 bytes, then an error)."""
    path = tmp_path / "l.jsonl"
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from elometer.ledger.writer import JsonlWriter, WriteRefused\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "writer = JsonlWriter(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "for n in range(20):\n"
        "    try: writer.append({'n': n, 'pad': 'x' * 80})\n"
        "    except WriteRefused as error: print(n, *error.lines(), sep='\\n'); break\n"
        "writer.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    refused_at, *words = done.stdout.splitlines()
    assert len(words) == 3
    assert "Every line before it is whole" in words[1]
    data = path.read_bytes()
    assert data.endswith(b"\n")
    assert [json.loads(line)["n"] for line in data.splitlines()] == list(range(int(refused_at)))


def test_a_torn_tail_is_reported_and_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_bytes(msgspec.json.encode(attempt()) + b'\n{"experiment_id":"bt-ev')
    with JsonlWriter(path) as writer:
        assert writer.torn is not None
        assert writer.torn.size == len(b'{"experiment_id":"bt-ev')
        writer.append(attempt(call_id="c2"))
    bad: list = []
    assert [line.call_id for line in read_attempts(path, bad)] == ["c1", "c2"]
    assert [(line.number, line.offset) for line in bad] == [(2, writer.torn.offset)]


def test_no_registered_secret_reaches_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = {"values": set(), "longest_first": (), "as_bytes": ()}
    monkeypatch.setattr(redact, "_Known", type("Nothing", (), nothing))
    for value in ("planted-value-1234", 'with"quote\\and-more', "908123"):
        redact.register(value)
    path = tmp_path / "l.jsonl"
    with JsonlWriter(path) as writer:
        writer.append(attempt(error_message="Bearer planted-value-1234 refused"))
        writer.append(attempt(error_message='said with"quote\\and-more'))
        writer.append(attempt(total_tokens=908123, error_message="key 908123"))
    text = path.read_text()
    assert "planted-value-1234" not in text
    assert "and-more" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[2]["total_tokens"] == 908123
    assert lines[2]["error_message"] == "key [redacted]"


def test_half_a_surrogate_pair_does_not_cost_the_line(tmp_path: Path) -> None:
    with JsonlWriter(tmp_path / "l.jsonl") as writer:
        writer.append(attempt(error_message="cut \ud83d"))
    (line,) = read_attempts(tmp_path / "l.jsonl")
    assert (line.error_message, line.total_tokens) == ("cut ?", 908)


def test_a_record_is_one_line(tmp_path: Path) -> None:
    with JsonlWriter(tmp_path / "l.jsonl") as writer:
        writer.append(b'{"n":1}\n')
        with pytest.raises(ValueError, match="one line"):
            writer.append(b'{"n":1}\n{"n":2}')
    assert issubclass(WriteRefused, ElometerError)


CHILD = """
import asyncio, sys
from pathlib import Path
from elometer.ledger.writer import JsonlWriter

async def main():
    writer = JsonlWriter(Path(sys.argv[1]))
    start = int(sys.argv[2])
    print("torn", writer.torn.size if writer.torn else 0, flush=True)
    for n in range(start, start + 10_000_000):
        size = 1_000_000 if n % 50 == 7 else 200
        writer.append({"n": n, "pad": "x" * size})
        if n % 20 == 0:
            await writer.synced()
        print(n, flush=True)

asyncio.run(main())
"""


def test_kill_at_random_moments_loses_no_finished_line(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    rng = random.Random(20261129)
    finished: set[int] = set()
    torn_reported = torn_seen = start = 0
    for _ in range(20):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), str(start)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        torn_reported += child.stdout.readline() != "torn 0\n"
        lines_to_live = rng.randrange(1, 90)
        for _line in range(lines_to_live):
            finished.add(int(child.stdout.readline()))
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().splitlines()
        child.wait()
        finished.update(int(line) for line in rest if line)
        size = path.stat().st_size
        torn_seen += size > 0 and not path.read_bytes().endswith(b"\n")
        start = max(finished) + 1_000
    torn_last = torn_seen
    with JsonlWriter(path) as writer:
        torn_reported += writer.torn is not None
    reading = Reading(path, dict)
    on_disk = {record["n"] for record in reading}
    assert finished <= on_disk
    assert len(reading.bad) == torn_last == torn_reported
