"""A key's boundary as it binds, and its account set right from ledgers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elometer.boundary.account import KeyAccount, day_of
from elometer.boundary.book import AccountBook
from elometer.cli.main import run
from elometer.core.attempt import Attempt
from elometer.core.clock import timestamp, utc_now
from elometer.core.errors import AccessError
from elometer.jobs.account import binding_boundary, days, rebuild, today
from elometer.jobs.key import account_file
from elometer.jobs.profiles import key_states
from elometer.profiles.store import Store
from elometer.runs.calls import book_charge
from elometer.runs.spec import load_experiment

SPEC = """\
experiment_id: e
taotoken:
  base_url: https://gateway.example
  key_label: bt
  key_boundary: {allowed_models: [m, n], daily_budget_tokens: 9000, max_concurrency: 4}
agent: {model: m, k_values: [1, 2]}
eval: {tasks: ["*"]}
"""
STORE = """\
[keys.bt]
source = "env:BT_KEY"
[keys.bt.boundary]
allowed_models = ["m"]
daily_budget_tokens = 5000
max_concurrency = 8
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELOMETER_HOME", str(tmp_path / "bt-eval"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("BT_KEY", "sk-unit-0123456789abcdef")
    (tmp_path / "config" / "elometer").mkdir(parents=True)
    (tmp_path / "config" / "elometer" / "profiles.toml").write_text(STORE)
    (tmp_path / "experiment.yaml").write_text(SPEC)
    return tmp_path


def test_the_stricter_value_binds(home: Path) -> None:
    bound = binding_boundary(load_experiment(home / "experiment.yaml"))
    assert (bound.allowed_models, bound.daily_budget_tokens, bound.max_concurrency) == (("m",), 5000, 4)


def test_a_model_outside_the_stores_boundary_is_refused(home: Path) -> None:
    (home / "experiment.yaml").write_text(SPEC.replace("model: m", "model: n"))
    with pytest.raises(AccessError) as refused:
        binding_boundary(load_experiment(home / "experiment.yaml"))
    assert refused.value.exit_code == 3
    assert "n" in refused.value.message


def ledger(home: Path, *lines: tuple[str, int]) -> None:
    folder = home / "bt-eval" / "e"
    folder.mkdir(parents=True)
    nine = {"experiment_id": "e", "strategy": "s", "task": "t", "run": 1, "model": "m", "prompt_tokens": 1}
    (folder / "token_ledger.jsonl").write_text(
        "".join(
            json.dumps({
                **nine, "completion_tokens": 1, "total_tokens": tokens, "timestamp": timestamp(), "key_fp": name
            }) + "\n"
            for name, tokens in lines
        )
    )  # fmt: skip


def test_check_rebuild_sets_the_account_to_the_ledgers(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = key_states(Store.load())["bt"].fingerprint
    assert name is not None
    ledger(home, (name, 700), (name, 42), ("another1", 5))
    day = day_of(utc_now(), "UTC")
    with contextlib.closing(AccountBook(account_file())) as book:
        book.rebuild(name, day, 3000)
    seen = today(key_states(Store.load())["bt"])
    assert seen is not None
    assert (seen.spent, seen.ledgers, seen.budget) == (3000, 742, 5000)
    assert run(["key", "check", "--rebuild"], open_app=lambda folder: None) == 0
    said = capsys.readouterr().out
    assert "3,000 tokens, now 742" in said
    assert "another1" in said
    with contextlib.closing(AccountBook(account_file())) as book:
        assert book.spent(name, day) == 742
        assert book.spent("another1", day) == 5


def test_attempts_without_a_count_weigh_what_was_kept_for_them(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By hand: 700 counted, 300 kept for a silent server, nothing for a refusal, 40 kept yesterday."""
    state = key_states(Store.load())["bt"]
    assert state.fingerprint is not None
    ledger(home, (state.fingerprint, 700))
    path = home / "bt-eval" / "e" / "token_ledger.jsonl"
    line = {**json.loads(path.read_text()), "total_tokens": None, "completion_tokens": None}
    yesterday = (utc_now() - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    with path.open("a") as file:
        for more in (
            {"status": "cancelled", "billed": "unknown", "reserved_tokens": 300},
            {"status": "error", "billed": "no", "reserved_tokens": None},
            {"status": "error", "billed": "unknown"},  # of a version that did not write it
            {"status": "error", "billed": "unknown", "reserved_tokens": 40, "timestamp": yesterday},
            {"status": "error", "billed": "unknown", "reserved_tokens": 9, "key_fp": "another1"},
        ):
            file.write(json.dumps({**line, **more}) + "\n")
    seen = today(state)
    assert seen is not None and seen.ledgers == 1000
    assert days([state])["bt"] == seen
    assert run(["key", "check", "--rebuild"], open_app=lambda folder: None) == 0
    assert "now 1,000" in capsys.readouterr().out
    with contextlib.closing(AccountBook(account_file())) as book:
        assert book.spent(state.fingerprint, day_of(utc_now(), "UTC")) == 1000
        assert book.spent("another1", day_of(utc_now(), "UTC")) == 9


ATTEMPTS = st.lists(
    st.tuples(
        st.integers(1, 5_000),  # what was reserved
        st.one_of(st.none(), st.integers(0, 6_000)),  # what was counted
        st.sampled_from(("yes", "no", "unknown")),
    ),
    max_size=30,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(attempts=ATTEMPTS)
def test_the_account_rebuilt_from_ledgers_is_the_live_one(
    home: Path, attempts: list[tuple[int, int | None, str]]
) -> None:
    fingerprint = key_states(Store.load())["bt"].fingerprint
    assert fingerprint is not None
    folder = home / "bt-eval" / "e"
    folder.mkdir(parents=True, exist_ok=True)
    lines = []

    async def live() -> int:
        with contextlib.closing(AccountBook(account_file())) as book:
            book.rebuild(fingerprint, day_of(utc_now(), "UTC"), 0)
            account = KeyAccount(book, fingerprint, budget=None, permits=None)
            await account.open()
            for worst, counted, billed in attempts:
                await account.reserve(worst)
                line = Attempt(
                    experiment_id="e", strategy="s", task="t", run=1, model="m", key_fp=fingerprint,
                    timestamp=timestamp(), total_tokens=counted, billed=billed,  # type: ignore[arg-type]
                )  # fmt: skip
                account.settle(worst, book_charge(line, worst))
                lines.append(line)
            await account.close()
            return book.spent(fingerprint, day_of(utc_now(), "UTC"))

    spent = asyncio.run(live())
    encode = msgspec.json.Encoder().encode
    (folder / "token_ledger.jsonl").write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    assert rebuild(key_states(Store.load())["bt"]) == (spent, spent)


def test_the_days_of_many_keys_are_those_of_each(home: Path) -> None:
    state = key_states(Store.load())["bt"]
    assert state.fingerprint is not None
    ledger(home, (state.fingerprint, 700), ("feedbeef", 900), (state.fingerprint, 50))
    assert days([state]) == {"bt": today(state)}
    assert days([state])["bt"].spent == 750
    with contextlib.closing(AccountBook(account_file())) as book:
        book.at_least(
            state.fingerprint, days([state])["bt"].day, 2_000
        )  # a start that died had more in flight
    assert days([state]) == {"bt": today(state)}
    assert (days([state])["bt"].spent, days([state])["bt"].ledgers) == (2_000, 750)
    assert days([]) == {}
