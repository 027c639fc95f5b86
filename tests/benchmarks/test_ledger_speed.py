"""Speed of the ledger beside a named peer in the same run; figures are printed with -s."""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import time
from pathlib import Path

import msgspec
import pytest

from elometer.core.attempt import Attempt
from elometer.ledger.index import LineIndex
from elometer.ledger.reader import Reading
from elometer.ledger.rollup import rollup_file, sums
from elometer.ledger.totals import totals
from elometer.ledger.writer import JsonlWriter

pytestmark = pytest.mark.benchmark


def sample(n: int) -> Attempt:
    return Attempt(
        experiment_id="bench", strategy=f"sample_{1 << n % 5}", task=f"task-{n % 300}", run=n % 3 + 1,
        model="a-model", prompt_tokens=800 + n % 50, completion_tokens=90, total_tokens=890 + n % 50,
        timestamp="2026-11-29T19:00:00.000Z", call_id=f"c{n}", final=True, usage_source="server",
        usage_final=True, http_status=200, latency_ms=812.5, key_fp="0a1b2c3d",
    )  # fmt: skip


async def test_appending_beside_the_sync_thread(tmp_path: Path) -> None:
    """3,000 lines/s offered for 3 s, each appended on the loop: p99 of append; and every line durable."""
    spent = []
    with JsonlWriter(tmp_path / "l.jsonl") as writer:
        begin = time.perf_counter()
        for tick in range(300):
            for n in range(30):
                record = sample(tick * 30 + n)
                at = time.perf_counter()
                writer.append(record)
                spent.append(time.perf_counter() - at)
            await asyncio.sleep(max(0.0, begin + (tick + 1) * 0.01 - time.perf_counter()))
        await writer.synced()
        rate = 9000 / (time.perf_counter() - begin)
        assert writer.synced_count == 9000
    p50, p99 = statistics.median(spent), statistics.quantiles(spent, n=100)[98]
    print(f"\nappend p50 {p50 * 1e6:.1f} us, p99 {p99 * 1e6:.1f} us, durable {rate:.0f} lines/s offered 3000")
    assert p99 <= 100e-6
    assert rate >= 2_900


@pytest.mark.parametrize("callers", [16, 64, 256])
async def test_durable_lines_by_group_commit(tmp_path: Path, callers: int) -> None:
    """Callers that each wait for the disk before their next line, against fdatasync for each line."""
    lines = callers * 40
    with JsonlWriter(tmp_path / "l.jsonl") as writer:

        async def caller() -> None:
            for n in range(lines // callers):
                writer.append(sample(n))
                await writer.synced()

        begin = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        waiting = lines / (time.perf_counter() - begin)

        begin = time.perf_counter()
        for n in range(30_000):
            writer.append(sample(n))
        await writer.synced()
        pouring = 30_000 / (time.perf_counter() - begin)
    descriptor = os.open(tmp_path / "peer.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    data = msgspec.json.encode(sample(1)) + b"\n"
    begin = time.perf_counter()
    for _ in range(500):
        os.write(descriptor, data)
        os.fdatasync(descriptor)
    each = 500 / (time.perf_counter() - begin)
    os.close(descriptor)
    print(f"\n{callers} callers {waiting:.0f}/s, pouring {pouring:.0f}/s, fdatasync each {each:.0f}/s")
    assert pouring >= 3_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "token_ledger.jsonl"
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for start in range(0, 200_000, 10_000):
            file.write(b"".join(encode(sample(n)) + b"\n" for n in range(start, start + 10_000)))
    return path


class Wanted(msgspec.Struct, gc=False):
    strategy: str | None = None
    model: str | None = None
    total_tokens: int | None = None


def cpu(work) -> float:
    gc.collect()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def test_reading_beside_msgspec_alone(large: Path) -> None:
    decoder = msgspec.json.Decoder(Wanted)

    def alone() -> None:
        with large.open("rb") as file:
            for data in file:
                decoder.decode(data)

    def in_blocks() -> None:
        """No counting, no line numbers: the least that reading this file can cost."""
        with large.open("rb") as file:
            while data := file.read(256 << 10):
                data += file.readline()
                decoder.decode_lines(data)

    def ours() -> None:
        assert sum(len(lines) for lines in Reading(large, Wanted).batches()) == 200_000

    def summing_anew() -> None:
        rollup_file(large).unlink(missing_ok=True)
        totals([large])

    rounds = [(cpu(alone), cpu(in_blocks), cpu(ours), cpu(summing_anew)) for _ in range(5)]
    line, block, reading, summing = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(
        f"\nper line {line:.3f} s, decode_lines {block:.3f} s, ours {reading:.3f} s, totals {summing:.3f} s"
    )
    assert reading <= 1.3 * block
    assert reading <= 1.1 * line


def test_a_rollup_opens_at_once(large: Path) -> None:
    rollup_file(large).unlink(missing_ok=True)
    fresh = cpu(lambda: sums(large))
    kept = statistics.median(cpu(lambda: sums(large)) for _ in range(5))
    print(f"\nfirst {fresh:.3f} s, from the rollup {kept * 1e3:.1f} ms")
    assert kept <= fresh / 5


def test_the_index_of_a_ledger(large: Path) -> None:
    def build() -> None:
        assert LineIndex(large).update() == 200_000

    def peer() -> None:
        with large.open("rb") as file:
            assert sum(1 for _ in file) == 200_000

    ours, lines = (statistics.median(cpu(work) for _ in range(5)) for work in (build, peer))
    print(f"\nindex {ours:.3f} s, iterating over lines {lines:.3f} s (200,000 lines)")
    assert ours <= 3 * lines
    assert ours * 5 < 1.0
