"""control.json: the state that a user asks a running start to take."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from elometer.core.atomic import replace_file

DesiredState = Literal["running", "paused", "stopping"]


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """`limit` None leaves the cap as the start set it."""

    state: DesiredState = "running"
    limit: int | None = None


def read(path: Path) -> Desired:
    """The desired state; `running` where the file is missing or does not decode."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Desired)
    except (OSError, msgspec.DecodeError):
        return Desired()


def change(path: Path, **changes: Any) -> Desired:
    """Ask for a state, a limit or both, and leave what somebody else asked for.

    The start sees it within a quarter of a second.
    """
    with _alone(path.parent):
        desired = msgspec.structs.replace(read(path), **changes)
        replace_file(path, msgspec.json.encode(desired) + b"\n")
    return desired


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Between reading and writing nobody else writes; the lock is on the folder, so that no file is left.

    A network file system locks no folders: there the last of two wishes in one moment is the one that stays.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
