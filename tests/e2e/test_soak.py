"""20,000 calls through a gateway that breaks one in twenty: three books that must agree, and flat memory.

The books: our ledger, the gateway's own counters, the account of the key in the state folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml
from tests.e2e.faulty_gateway import FAULTS, KEY_VARIABLE
from tests.e2e.workspace import Workspace

from elometer.boundary.book import AccountBook
from elometer.core.attempt import Attempt
from elometer.gateway.demo.experiment import demo_experiment
from elometer.ledger.reader import read_attempts
from elometer.runs.calls import StartFacts, all_calls, budget_charge, worst_case
from elometer.runs.spec import Experiment, load_experiment
from elometer.runs.tasks import load_tasks

SEED = 20261129
KEY = "sk-planted-soak-4e8a1c93"
CHECKOUT = Path(__file__).resolve().parents[2]


@contextmanager
def faulty_gateway(share: float) -> Iterator[str]:
    """The gateway in a process of its own; yields its root."""
    command = [sys.executable, "-m", "tests.e2e.faulty_gateway", "--seed", str(SEED), "--share", str(share)]
    with subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env={**os.environ, KEY_VARIABLE: KEY},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()


def told(root: str, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(root + path, timeout=10) as reply:
        found: dict[str, Any] = json.loads(reply.read())
    return found


def experiment_against(place: Workspace, root: str, *, tasks: int, runs: int) -> Path:
    """The demo's experiment, pointed at a gateway that it did not start."""
    text, lines = demo_experiment(SEED, experiment_id="soak", tasks=tasks, runs=runs, max_concurrency=16)
    spec = yaml.safe_load(text)
    gateway = spec["taotoken"]
    gateway["base_url"], gateway["key_env"] = root, KEY_VARIABLE
    gateway["key_boundary"]["daily_budget_tokens"] = 100_000_000
    spec["agent"]["kind"] = "http"
    spec["agent"]["limits"] = {"seconds": 3}  # for those that are never answered
    spec["retry"] = {"infra": 8, "backoff": [0.1, 2.0]}
    folder = place.experiments / "soak"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "experiment.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    (folder / "tasks.jsonl").write_text(lines)
    return folder


class Memory:
    """Resident bytes of a process, sampled four times a second until it ends."""

    def __init__(self, pid: int) -> None:
        self._file = Path(f"/proc/{pid}/statm")
        self.samples: list[tuple[float, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.25):
            try:
                pages = int(self._file.read_text().split()[1])
            except (OSError, IndexError):
                return
            if pages:
                self.samples.append((time.time(), pages * os.sysconf("SC_PAGE_SIZE")))

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


def worst_cases(experiment: Experiment, folder: Path) -> dict[str, int]:
    """What an attempt of each call was reserved at."""
    tasks = load_tasks(experiment, folder)
    facts = StartFacts(
        run_id="", origin="live", pid=0, host="", gateway="", key_label="", key_fp="", profile=None
    )
    return {call.call_id: worst_case(call) for call in all_calls(experiment, tasks, facts)}


def account_tokens(place: Workspace, key_fp: str) -> int:
    """What the account book says of a key, over all days that the test may have touched."""
    book = AccountBook(place.home / "state" / "elometer" / "accounts.sqlite3")
    try:
        days = {time.strftime("%Y-%m-%d", time.gmtime(time.time() - back)) for back in (0, 86400)}
        return sum(book.spent(key_fp, day) for day in days)
    finally:
        book.close()


def moment_of_last_event(folder: Path) -> float:
    return (folder / "events.jsonl").stat().st_mtime


def check_books(place: Workspace, folder: Path, root: str, lines: list[Attempt], calls: int) -> None:
    final = [line for line in lines if line.final]
    failed = [line for line in lines if not line.final]
    assert len(final) == calls == len({line.call_id for line in final})
    # The ledger and the gateway, over what was answered.
    gateway = told(root, "/demo/counters")
    assert {line.usage_source for line in final} == {"server"}
    assert (gateway["calls"], gateway["cut"], gateway["in_flight"]) == (calls, 0, 0)
    assert sum(line.prompt_tokens or 0 for line in final) == gateway["prompt_tokens"]
    assert sum(line.completion_tokens or 0 for line in final) == gateway["completion_tokens"]
    assert gateway["peak_in_flight"] <= 16
    # Each fault, once, in its class.
    done = told(root, "/faults")
    expected: Counter[str] = Counter()
    for fault in FAULTS:
        expected[fault.error_class] += done.get(fault.name, 0)
    assert Counter(line.error_class for line in failed) == expected
    cut = [line for line in failed if line.error_class in ("stream_truncated", "net_reset")]
    assert {(line.usage_source, line.usage_final, line.billed) for line in cut} <= {
        ("estimated", False, "unknown")
    }
    # The account: what was answered, and what the failed ones may have cost.
    worst = worst_cases(load_experiment(folder / "experiment.yaml"), folder)
    charged = sum(budget_charge(line, worst[line.call_id]) for line in lines)
    key_fp = lines[0].key_fp
    assert key_fp is not None
    account = account_tokens(place, key_fp)
    assert account == charged
    # The ledger alone gives it again: lines without a count carry what was kept for them.
    assert sum(line.spent_tokens for line in lines) == account
    assert (
        account - sum(budget_charge(line, worst[line.call_id]) for line in failed)
        == (gateway["total_tokens"])
    )


def soak(place: Workspace, *, tasks: int, runs: int, share: float) -> tuple[Memory, Path, list[Attempt]]:
    with faulty_gateway(share) as root:
        folder = experiment_against(place, root, tasks=tasks, runs=runs)
        process = place.start("run", folder, "--plain", **{KEY_VARIABLE: KEY})
        memory = Memory(process.pid)
        try:
            _out, err = process.communicate(timeout=1500)
        finally:
            process.kill()
            memory.stop()
        assert process.returncode == 0, err
        lines = list(read_attempts(folder / "token_ledger.jsonl"))
        check_books(place, folder, root, lines, tasks * runs * 31)
        return memory, folder, lines


def test_the_books_agree_where_one_call_in_five_breaks(place: Workspace) -> None:
    soak(place, tasks=10, runs=1, share=0.2)


@pytest.mark.slow
def test_twenty_thousand_calls_with_five_percent_faults(place: Workspace) -> None:
    memory, folder, lines = soak(place, tasks=130, runs=5, share=0.05)
    began, ended = memory.samples[0][0], moment_of_last_event(folder)
    half = [size for at, size in memory.samples if (began + ended) / 2 <= at <= ended]
    middle = median(half)
    print(
        f"{len(lines)} attempts in {ended - began:.0f} s; RSS over the second half"
        f" {min(half) / 2**20:.1f} to {max(half) / 2**20:.1f} MiB, median {middle / 2**20:.1f}"
    )
    assert 0.9 * middle <= min(half)
    assert max(half) <= 1.1 * middle
