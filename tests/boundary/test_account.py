"""The account: what all processes of a key may spend and have in flight, counted outside of it."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import random
import signal
import sqlite3
import threading
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.boundary.account import KeyAccount, day_of
from elometer.boundary.book import AccountBook, Grant, Limits, Standing, birth, file_system
from elometer.core.errors import BudgetStop, UsageError

KEY = "k-fp-0001"
DAY = "2026-11-29"
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture
def book(tmp_path: Path) -> AccountBook:
    return AccountBook(tmp_path / "state" / "accounts.sqlite3")


def account(book: AccountBook, *, budget: int | None = None, permits: int | None = None) -> KeyAccount:
    return KeyAccount(book, KEY, budget=budget, permits=permits, now=lambda: NOON)


def test_the_file_is_private_from_its_creation(book: AccountBook) -> None:
    assert book.path.stat().st_mode & 0o777 == 0o600
    assert book.path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("moment", "zone", "day"),
    [
        # Berlin's clocks went back on 2026-10-25: the day has 25 hours, 22:00Z to 23:00Z the next day.
        ("2026-10-24T21:59:59+00:00", "Europe/Berlin", "2026-10-24"),
        ("2026-10-24T22:00:00+00:00", "Europe/Berlin", "2026-10-25"),
        ("2026-10-25T22:59:59+00:00", "Europe/Berlin", "2026-10-25"),
        ("2026-10-25T23:00:00+00:00", "Europe/Berlin", "2026-10-26"),
        ("2026-11-29T23:30:00+00:00", "Asia/Shanghai", "2026-11-30"),
        ("2026-11-29T23:30:00+00:00", "UTC", "2026-11-29"),
    ],
)
def test_days_are_those_of_the_boundarys_time_zone(moment: str, zone: str, day: str) -> None:
    assert day_of(datetime.fromisoformat(moment), zone) == day


async def test_reserve_and_settle_never_pass_the_budget(book: AccountBook) -> None:
    key = account(book, budget=1000)
    await key.open()
    await key.reserve(600)
    waiting = asyncio.create_task(key.reserve(600))
    await asyncio.sleep(0)
    assert not waiting.done()
    key.settle(600, 250)
    await asyncio.wait_for(waiting, 5)
    key.settle(600, 600)
    with pytest.raises(BudgetStop) as stop:
        await key.reserve(151)
    assert stop.value.exit_code == 4
    await key.reserve(150)
    key.settle(150, 150)
    await key.close()
    assert book.spent(KEY, DAY) == 1000


async def test_ledgers_raise_what_is_spent_and_never_lower_it(book: AccountBook) -> None:
    book.rebuild(KEY, DAY, 400)
    first = account(book, budget=1000)
    await first.open(spent_by_ledgers=300)
    assert first.spent == 400
    await first.close()
    second = account(book, budget=1000)
    await second.open(spent_by_ledgers=700)
    assert second.spent == 700
    await second.close()


async def test_no_budget_and_no_limit_let_everything_through(book: AccountBook) -> None:
    key = account(book)
    key.wants = 64
    await key.open()
    await key.reserve(10**9)
    key.settle(10**9, 10**9)
    await key.renew()
    assert key.permits == 64
    await key.close()
    assert book.spent(KEY, DAY) == 10**9


async def test_permits_are_shared_and_come_back(book: AccountBook) -> None:
    first, second = account(book, permits=8), account(book, permits=8)
    await first.open()
    assert first.permits == 8
    first.in_flight = 8
    await second.open()
    assert second.permits == 0  # all are in use elsewhere
    await first.renew()
    first.in_flight = 4  # four of its calls ended, and it keeps to its new share
    await first.renew()
    await second.renew()
    assert first.permits == 4
    assert second.permits == 4
    await first.close()
    await second.renew()
    assert second.permits == 8
    await second.close()


async def test_two_starts_that_were_told_different_limits_keep_to_the_stricter_one(book: AccountBook) -> None:
    loose, strict = account(book, permits=8), account(book, permits=2)
    await loose.open()
    loose.in_flight = 8
    await strict.open()
    assert strict.permits == 0
    await loose.renew()
    loose.in_flight = loose.permits
    await loose.renew()
    await strict.renew()
    assert (loose.permits, strict.permits) == (1, 1)
    strict.wants = 0  # paused: its limit binds nobody now
    await strict.renew()
    await strict.renew()
    await loose.renew()
    assert (loose.permits, strict.permits) == (8, 0)
    await loose.close()
    await strict.close()


def hold_and_die(path: Path, ready: Connection) -> None:
    async def hold() -> None:
        key = account(AccountBook(path), budget=1000, permits=4)
        await key.open()
        await key.reserve(300)
        key.settle(300, 120)
        await key.reserve(200)
        await key.renew()
        ready.send(True)
        await asyncio.sleep(60)

    asyncio.run(hold())


async def test_a_dead_process_gives_its_lease_back_and_its_calls_in_flight_count_as_spent(
    book: AccountBook,
) -> None:
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=hold_and_die, args=(book.path, there))
    child.start()
    await asyncio.to_thread(here.recv)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    key = account(book, budget=1000, permits=4)
    await key.open()
    assert key.spent == 120 + 200
    assert key.permits == 4
    await key.close()
    assert book.rebuild(KEY, DAY, 120) == 320
    assert book.spent(KEY, DAY) == 120


def test_a_process_number_that_was_given_away_again_is_another_process() -> None:
    assert birth(os.getpid()) is not None
    assert birth(2**22 + 1) is None


def test_the_file_system_of_a_folder_is_known(tmp_path: Path) -> None:
    assert file_system(Path("/proc")) == "proc"
    assert file_system(tmp_path) not in ("", "proc")


class Server:
    """Counts in flight over all processes through a file of shared memory."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.now = context.Value("i", 0)
        self.peak = context.Value("i", 0)
        self.used = context.Value("q", 0)

    def enter(self) -> None:
        with self.now.get_lock():
            self.now.value += 1
            self.peak.value = max(self.peak.value, self.now.value)

    def leave(self, used: int) -> None:
        with self.now.get_lock():
            self.now.value -= 1
            self.used.value += used


WORST = 2000


def spend(path: Path, seed: int, now: object, peak: object, used: object, budget: int, permits: int) -> None:
    """A process that calls until the budget stops it; calls use up to what was reserved."""
    server = Server.__new__(Server)
    server.now, server.peak, server.used = now, peak, used  # type: ignore[assignment]
    chance = random.Random(seed)

    async def run() -> None:
        key = account(AccountBook(path), budget=budget, permits=permits)
        await key.open()
        places = asyncio.Condition()

        async def share() -> None:
            while True:
                await key.renew()
                async with places:
                    places.notify_all()
                await asyncio.sleep(0.02)

        async def calls() -> None:
            while True:
                async with places:
                    await places.wait_for(lambda: key.in_flight < key.permits)
                    key.in_flight += 1
                try:
                    await key.reserve(WORST)
                    server.enter()
                    await asyncio.sleep(chance.uniform(0.002, 0.01))
                    tokens = chance.randint(WORST // 8, WORST)
                    server.leave(tokens)
                    key.settle(WORST, tokens)
                except BudgetStop:
                    return
                finally:
                    key.in_flight -= 1
                    async with places:
                        places.notify_all()

        sharing = asyncio.create_task(share())
        async with asyncio.TaskGroup() as group:
            for _ in range(16):
                group.create_task(calls())
        sharing.cancel()
        await key.close()

    asyncio.run(run())


def test_three_processes_on_one_key_keep_to_budget_and_concurrency(book: AccountBook) -> None:
    budget, permits = 400_000, 8
    server = Server()
    context = multiprocessing.get_context("spawn")
    arguments = (server.now, server.peak, server.used, budget, permits)
    processes = [context.Process(target=spend, args=(book.path, seed, *arguments)) for seed in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert server.peak.value <= permits
    assert server.used.value <= budget
    assert budget - server.used.value < WORST
    assert book.spent(KEY, DAY) == server.used.value


STEP = st.tuples(st.integers(0, 2), st.sampled_from(["take", "use", "want"]), st.integers(1, 300))


@settings(max_examples=60)
@given(st.lists(STEP, max_size=40), st.integers(0, 2000), st.integers(1, 9))
def test_leases_of_any_history_stay_within_budget_and_permits(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, int]], budget: int, permits: int
) -> None:
    book = AccountBook(tmp_path_factory.mktemp("book") / "accounts.sqlite3")
    limits = Limits(budget, permits)
    leases = [book.open_lease(KEY, DAY, 0.0) for _ in range(3)]
    reserved, tokens, held, wants = [0] * 3, [0] * 3, [0] * 3, [0] * 3
    spent = 0
    for who, what, amount in steps:
        used = 0
        if what == "take" and reserved[who] + amount <= tokens[who]:
            reserved[who] += amount
        elif what == "use" and reserved[who]:
            used = min(amount, reserved[who])
            reserved[who] = 0
            spent += used
        elif what == "want":
            wants[who] = amount % 12
        needs = amount if what == "take" else 0
        in_flight = min(held[who], wants[who])
        standing = Standing(used, reserved[who], needs, in_flight, wants[who])
        grant = book.renew(leases[who], KEY, DAY, limits, standing, 0.0)
        tokens[who], held[who] = grant.tokens, grant.permits
        assert grant.spent == spent
        assert spent + sum(tokens) <= budget
        assert sum(held) <= permits
        assert tokens[who] >= reserved[who]
    book.close()


def own_and_die(path: Path, ready: Connection) -> None:
    async def hold() -> None:
        key = KeyAccount(AccountBook(path), KEY, budget=1000, permits=4, owner="/e", now=lambda: NOON)
        await key.open()
        await key.reserve(200)
        await key.renew()
        ready.send(True)
        await asyncio.sleep(60)

    asyncio.run(hold())


@pytest.mark.parametrize(("owner", "spent"), [("/e", 90), ("/other", 290)])
async def test_the_owner_of_a_dead_lease_books_what_was_in_flight_itself(
    book: AccountBook, owner: str, spent: int
) -> None:
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=own_and_die, args=(book.path, there))
    child.start()
    await asyncio.to_thread(here.recv)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    book.rebuild(KEY, DAY, 90)
    key = KeyAccount(book, KEY, budget=1000, permits=4, owner=owner, now=lambda: NOON)
    await key.open(spent_by_ledgers=90)
    assert key.spent == spent
    await key.close()


async def test_a_contact_that_was_cancelled_books_what_was_used_once(
    book: AccountBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = account(book, budget=1000, permits=4)
    await key.open()
    await key.reserve(100)
    key.settle(100, 70)
    begun, go_on = threading.Event(), threading.Event()
    renew = book.renew

    def slow(*arguments: Any) -> Grant:
        begun.set()
        go_on.wait(10)
        return renew(*arguments)

    monkeypatch.setattr(book, "renew", slow)
    contact = asyncio.create_task(key.renew())
    await asyncio.to_thread(begun.wait, 10)
    contact.cancel()
    with pytest.raises(asyncio.CancelledError):
        await contact
    closing = asyncio.create_task(key.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    assert book.spent(KEY, DAY) == 70


def test_a_process_that_was_taken_for_dead_is_counted_again(
    book: AccountBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(1000, 4)
    asleep = book.open_lease(KEY, DAY, 0.0)
    book.renew(asleep, KEY, DAY, limits, Standing(reserved=100, wants=3), 0.0)
    with monkeypatch.context() as there:
        there.setattr(os, "uname", lambda: SimpleNamespace(nodename="another-host"))
        other = book.open_lease(KEY, DAY, 100.0)
        buried = book.renew(other, KEY, DAY, limits, Standing(wants=4), 100.0)
        # What it had reserved may have been billed.
        assert (buried.permits, buried.spent, buried.others) == (4, 100, 0)
        book.renew(other, KEY, DAY, limits, Standing(wants=2, holds=4), 100.0)
    woken = book.renew(asleep, KEY, DAY, limits, Standing(reserved=100, in_flight=2, wants=2, holds=2), 101.0)
    assert woken.others == 1
    again = book.renew(other, KEY, DAY, limits, Standing(wants=4, holds=2), 102.0)
    assert (again.others, again.held_elsewhere >= 100) == (1, True)
    assert again.permits <= 2


def test_a_book_of_the_layout_before_keeps_its_leases(tmp_path: Path) -> None:
    # As elometer 0.1 of 2026-11-29 made it; its process runs on beside the new one.
    path = tmp_path / "accounts.sqlite3"
    with contextlib.closing(sqlite3.connect(path)) as old:
        old.execute(
            "CREATE TABLE lease (id INTEGER PRIMARY KEY AUTOINCREMENT, key_fp TEXT NOT NULL, day TEXT NOT NULL,"
            " host TEXT NOT NULL, pid INTEGER NOT NULL, born TEXT NOT NULL, renewed REAL NOT NULL,"
            " tokens INTEGER NOT NULL DEFAULT 0, reserved INTEGER NOT NULL DEFAULT 0, permits INTEGER NOT NULL"
            " DEFAULT 0, wanted INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '')"
        )
        old.execute(
            "INSERT INTO lease (key_fp, day, host, pid, born, renewed, tokens, reserved, permits, wanted)"
            " VALUES (?, ?, ?, ?, ?, 0, 600, 500, 3, 3)",
            (KEY, DAY, os.uname().nodename, os.getpid(), birth(os.getpid())),
        )
        old.execute("PRAGMA user_version = 2")
        old.commit()
    with contextlib.closing(AccountBook(path)) as book:
        mine = book.open_lease(KEY, DAY, 0.0)
        grant = book.renew(mine, KEY, DAY, Limits(1000, 4), Standing(needs=100, wants=4), 0.0)
    assert (grant.held_elsewhere, grant.permits) == (600, 1)


def test_a_book_of_a_newer_layout_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "accounts.sqlite3"
    with contextlib.closing(sqlite3.connect(path)) as newer:
        newer.execute("CREATE TABLE lease (id INTEGER PRIMARY KEY, other TEXT)")
        newer.execute("PRAGMA user_version = 99")
        newer.commit()
    with pytest.raises(UsageError, match="newer"):
        AccountBook(path)
    with contextlib.closing(sqlite3.connect(path)) as newer:
        assert newer.execute("PRAGMA user_version").fetchone() == (99,)
        assert newer.execute("SELECT count(*) FROM lease").fetchone() == (0,)


def test_a_book_of_an_older_layout_keeps_its_sums(tmp_path: Path) -> None:
    path = tmp_path / "accounts.sqlite3"
    with contextlib.closing(sqlite3.connect(path)) as old:
        old.execute("CREATE TABLE spent (key_fp TEXT, day TEXT, tokens INTEGER, PRIMARY KEY (key_fp, day))")
        old.execute("CREATE TABLE lease (id INTEGER PRIMARY KEY, key_fp TEXT, tokens INTEGER)")
        old.execute("INSERT INTO spent VALUES (?, ?, 700)", (KEY, DAY))
        old.commit()
    with contextlib.closing(AccountBook(path)) as book:
        assert book.spent(KEY, DAY) == 700
        assert book.open_lease(KEY, DAY, 0.0, "/e") > 0
