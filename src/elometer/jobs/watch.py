"""Follow a start through its files: what every view does, in this process or in another one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from elometer.runs import events as ev
from elometer.runs.folder import ExperimentFolder
from elometer.runs.state import RunState, fold_all

CHUNK = 1 << 20


class StartWatch:
    """The state of the latest start in an experiment's folder; `poll` reads new bytes only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = RunState()
        self.skipped = 0
        self._path = ExperimentFolder(folder).events
        self._offset = 0
        self._tail = b""

    def poll(self, *, most: int = 4 * CHUNK) -> RunState:
        """The state after the events that came since the last call; reads at most `most` bytes."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read(most)
        except FileNotFoundError:
            return self.state
        if not data:  # a view knows by the same object that nothing happened
            return self.state
        self._offset += len(data)
        lines = (self._tail + data).split(b"\n")
        self._tail = lines.pop()
        self.state = fold_all(self._events(lines), self.state)
        return self.state

    def _events(self, lines: list[bytes]) -> Iterator[ev.AnyEvent]:
        for line in lines:
            if not line:
                continue
            try:
                yield ev.decode(line)
            except msgspec.DecodeError:
                self.skipped += 1

    def read_all(self) -> RunState:
        """Poll until the file's end."""
        before = -1
        while self._offset != before:
            before = self._offset
            self.poll()
        return self.state


Standing = Literal["new", "running", "complete", "partial", "stopped", "failed", "died"]


@dataclass(frozen=True, slots=True)
class StartSummary:
    """How an experiment stands: one row of a list."""

    folder: Path
    experiment_id: str
    run_id: str
    standing: Standing
    blocks_done: int
    blocks: int
    total_tokens: int
    origin: str
    last_at: float | None

    @property
    def running(self) -> bool:
        """True while a process works on it."""
        return self.standing == "running"


def summarise(folder: Path) -> StartSummary:
    """How the experiment of a folder stands."""
    return summary_of(folder, StartWatch(folder).read_all())


def summary_of(folder: Path, state: RunState) -> StartSummary:
    """How it stands by its events. A start without a last line whose process is gone has died."""
    opened = state.opened
    standing: Standing
    if opened is None:
        standing = "new"
    elif state.ended:
        standing = state.phase  # type: ignore[assignment]
    else:
        standing = "running" if _alive(opened) else "died"
    return StartSummary(
        folder=folder,
        experiment_id=opened.experiment_id if opened else folder.name,
        run_id=opened.run_id if opened else "",
        standing=standing,
        blocks_done=state.blocks_done,
        blocks=state.blocks,
        total_tokens=state.total_tokens,
        origin=opened.origin if opened else "",
        last_at=state.last_at,
    )


def _alive(opened: ev.StartOpened) -> bool:
    """True where the start's process may still run; on another host nobody here can tell, so it may."""
    if opened.host != os.uname().nodename:
        return True
    try:
        os.kill(opened.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
