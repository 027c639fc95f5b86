"""control.json: the state that a user asks a running start to take."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

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


def write(path: Path, desired: Desired) -> None:
    """Ask for a state. The start sees it within a quarter of a second."""
    replace_file(path, msgspec.json.encode(desired) + b"\n")
