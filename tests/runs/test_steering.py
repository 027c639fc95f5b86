"""What a start tells of its key while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from elometer.runs import control
from elometer.runs import events as ev
from elometer.runs.gates import Gates
from elometer.runs.steering import Steering


class Account:
    """An account whose numbers the test sets."""

    budget, reserved, spent, permits, others, in_flight, wants = 10_000, 0, 0, 3, 1, 0, 4

    async def renew(self) -> None:
        return


@contextlib.asynccontextmanager
async def followed(
    folder: Path, account: Account, told: list[ev.AnyEvent]
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A start that looks at control.json, with one gate; gives what returns after its next look."""
    looked = asyncio.Queue[None]()
    gates = Gates(4, fixed=True)
    gates("m")
    steering = Steering(
        control_file=folder / "control.json",
        cap=4,
        gates=gates,
        account=account,  # type: ignore[arg-type]
        books=SimpleNamespace(emit=told.append),  # type: ignore[arg-type]
        on_stop=lambda: None,
        on_change=lambda: None,
        on_resume=lambda: None,
        on_tick=lambda: looked.put_nowait(None),
    )
    following = asyncio.create_task(steering.follow())
    try:
        yield looked.get
    finally:
        following.cancel()


async def test_gate_events_carry_the_account_and_not_every_token(tmp_path: Path) -> None:
    account, told = Account(), list[ev.AnyEvent]()
    async with followed(tmp_path, account, told) as look:
        await look()
        account.reserved, account.spent = 3_000, 1_200
        await look()
        account.reserved, account.spent = 3_001, 1_201  # a gauge does not show one token
        await look()
    seen = [event for event in told if isinstance(event, ev.GateChanged)]
    assert [(each.reserved_tokens, each.spent_today) for each in seen] == [(0, 0), (3_000, 1_200)]
    assert {(each.permits, each.others) for each in seen} == {(3, 1)}
    assert ev.decode(ev.encode(seen[-1])) == seen[-1]


def test_wishes_of_several_viewers_do_not_undo_one_another(tmp_path: Path) -> None:
    path = tmp_path / "control.json"
    with ThreadPoolExecutor(8) as pool:
        for _round in range(40):
            path.unlink(missing_ok=True)
            asked: list[dict[str, object]] = [{"state": "paused"}, *({"limit": n} for n in range(1, 6))]
            list(pool.map(lambda wish: control.change(path, **wish), asked))
            assert control.read(path).state == "paused"
            assert control.read(path).limit in range(1, 6)
    assert [entry.name for entry in tmp_path.iterdir()] == ["control.json"]


def test_a_file_system_that_locks_no_folders_takes_wishes_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.EBADF, "opened for reading only")  # on NFS, says flock(2)

    monkeypatch.setattr(fcntl, "flock", flock)
    control.change(tmp_path / "control.json", limit=3)
    assert control.change(tmp_path / "control.json", state="paused").limit == 3


async def test_a_paused_start_leaves_its_places_and_says_when_others_hold_them_all(tmp_path: Path) -> None:
    account, told = Account(), list[ev.AnyEvent]()
    async with followed(tmp_path, account, told) as look:
        await look()
        assert account.wants == 4
        control.change(tmp_path / "control.json", state="paused")
        await look()
        await look()
        assert account.wants == 0
        control.change(tmp_path / "control.json", state="running")
        account.permits = 0  # what the others leave
        await look()
        await look()
        assert account.wants == 4
    last = [event for event in told if isinstance(event, ev.GateChanged)][-1]
    assert (last.why, last.limit, last.others) == (ev.NO_PLACE, 0, 1)


async def test_a_gate_without_places_for_a_while_keeps_what_it_has_found() -> None:
    gates = Gates(8, fixed=False)
    gate = gates("m")
    gates.set_permits(0)
    entering = asyncio.create_task(gate.permit().__aenter__())
    await asyncio.sleep(0)
    assert not entering.done()
    gates.set_permits(8)
    await entering
    assert gate.status().limit == 8
