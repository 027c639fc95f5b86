"""Files that are either whole or not there: private from creation, replaced by rename, appended durably."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def make_private_folder(path: Path) -> Path:
    """Create a folder (and its parents) with mode 0700; an existing one keeps its mode."""
    missing = []
    probe = path
    while not probe.exists():
        missing.append(probe)
        probe = probe.parent
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=PRIVATE_FOLDER)
    return path


def sync_folder(path: Path) -> None:
    """Make a new or renamed entry of a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte or raise OSError: a full disk first shows as a short write without an error."""
    view = memoryview(data)
    while view:
        written = os.write(descriptor, view)
        view = view[written:]


def replace_file(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Replace a file's content in one step: write beside it, fsync, rename, fsync the folder.

    A symbolic link is followed, so the link stays and its target changes. The new file has `mode` from
    its creation, whatever the umask.
    """
    target = path.resolve() if path.is_symlink() else path
    beside = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            os.fchmod(descriptor, mode)
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.rename(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
        raise
    sync_folder(target.parent)


def open_append(path: Path, *, mode: int = PRIVATE_FILE) -> int:
    """A descriptor for appending whole lines; the file is created private and its folder entry synced.

    A file that ends inside a line gets a newline first, so that the torn line stays alone.
    """
    new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, mode)
    try:
        if new:
            os.fchmod(descriptor, mode)
            sync_folder(path.parent)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            write_all(descriptor, b"\n")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
