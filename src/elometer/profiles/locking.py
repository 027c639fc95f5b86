"""A lock between our own processes, and what a killed one left beside a file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

from elometer.core import atomic


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock; it ends with the process, however that ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, atomic.PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def sweep(target: Path, infix: str = "") -> None:
    """Remove temporary files that a killed writer left beside a target. Call it under the target's lock."""
    pattern = re.compile(re.escape(f".{target.name}.{infix}") + r"[0-9a-f]{12}\.tmp")
    with contextlib.suppress(OSError):
        for entry in target.parent.iterdir():
            if pattern.fullmatch(entry.name):
                entry.unlink(missing_ok=True)
