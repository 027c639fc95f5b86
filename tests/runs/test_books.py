"""The files of a start: what is written at once, and what may wait for company."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from elometer.ledger.writer import JsonlWriter, WriteRefused
from elometer.runs import events as ev
from elometer.runs.books import WAIT_S, Books
from elometer.runs.folder import ExperimentFolder

SENT = ev.CallSent(at="2026-11-29T10:00:00.000Z", call_id="c1", strategy="sample_1", block=0, attempt=1)
GOES_ON = ev.CallProgress(at="2026-11-29T10:00:00.100Z", call_id="c1", strategy="sample_1", chunks=3)
BACK = ev.CallReceived(at="2026-11-29T10:00:00.200Z", call_id="c1", strategy="sample_1")


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    return ExperimentFolder(tmp_path)


def written(folder: ExperimentFolder) -> list[str]:
    return [msgspec.json.decode(line)["event"] for line in folder.events.read_bytes().splitlines()]


async def test_how_a_call_goes_on_is_written_with_the_next_event_that_must_not_wait(
    folder: ExperimentFolder,
) -> None:
    with Books(folder) as books:
        heard: list[ev.AnyEvent] = []
        books.listeners.append(heard.append)
        books.emit(SENT)
        books.emit(GOES_ON)
        books.emit(BACK)
        assert written(folder) == ["call_sent"]
        assert heard == [SENT, GOES_ON, BACK]
        books.emit(SENT)
        assert written(folder) == ["call_sent", "call_progress", "call_received", "call_sent"]


async def test_it_waits_no_longer_than_a_moment(
    folder: ExperimentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[tuple[float, Callable[[], None]]] = []
    loop = asyncio.get_running_loop()

    def call_later(seconds: float, callback: Callable[[], None], *_: Any) -> asyncio.TimerHandle:
        timers.append((seconds, callback))
        return asyncio.TimerHandle(0.0, callback, (), loop)

    monkeypatch.setattr(loop, "call_later", call_later)
    with Books(folder) as books:
        books.emit(GOES_ON)
        books.emit(BACK)
        ((seconds, write),) = timers
        assert seconds == WAIT_S
        write()
        assert written(folder) == ["call_progress", "call_received"]
        books.emit(BACK)
        assert len(timers) == 2


async def test_closing_writes_what_waits(folder: ExperimentFolder) -> None:
    with Books(folder) as books:
        books.emit(GOES_ON)
    assert written(folder) == ["call_progress"]


async def test_what_a_full_disk_refused_is_written_in_order_when_there_is_room(
    folder: ExperimentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(writer: JsonlWriter, line: bytes) -> None:
        raise WriteRefused("no space")

    with Books(folder) as books:
        books.emit(GOES_ON)
        with monkeypatch.context() as patch:
            patch.setattr(JsonlWriter, "_write", full)
            with pytest.raises(WriteRefused):
                books.emit(SENT)
        books.emit(BACK)
    assert written(folder) == ["call_progress", "call_sent", "call_received"]


def test_a_file_that_cannot_be_closed_keeps_no_other_one_open(
    folder: ExperimentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, closed = JsonlWriter.close, []

    def failing(writer: JsonlWriter) -> None:
        closed.append(writer.path)
        close(writer)
        if writer.path == folder.samples:
            raise WriteRefused("the disk is gone")

    monkeypatch.setattr(JsonlWriter, "close", failing)
    with pytest.raises(WriteRefused):
        Books(folder).close()
    assert closed == [folder.samples, folder.ledger, folder.outcomes, folder.events]
    monkeypatch.undo()
    Books(folder).close()
