"""Reading and replacing a client's own file: through links, whole or not at all, not over an edit."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from elometer.core import atomic
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _

# Marks our temporary files among those of other programs in a client's folder.
INFIX = "elometer-"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A client's file as it is now. `path` is the name, `target` where its links lead."""

    path: Path
    target: Path
    data: bytes | None = field(repr=False)  # None: it does not exist
    mode: int | None


def read(path: Path) -> LiveFile:
    """Read a file. Raises UsageError for a link to nowhere, a folder, hard links or a missing permission."""
    if path.is_symlink() and not path.exists():
        raise UsageError(
            _("The file is a link to a place that does not exist."),
            evidence=f"{path} -> {path.readlink()}",
            fix=_("Restore the link's target, or remove the link."),
        )
    target = path.resolve()
    try:
        status = target.stat()
        data = target.read_bytes()
    except FileNotFoundError:
        return LiveFile(path, target, None, None)
    except OSError as error:
        raise UsageError(
            _("The file cannot be read."),
            evidence=f"{target}: {error.strerror}",
            fix=_("Check its owner and mode."),
        ) from None
    if status.st_nlink > 1:
        raise UsageError(
            _("The file has {n} hard links; replacing it would part them.").format(n=status.st_nlink),
            evidence=str(target),
            fix=_("Use a symbolic link in place of the hard one."),
        )
    return LiveFile(path, target, data, stat.S_IMODE(status.st_mode))


def replace(live: LiveFile, data: bytes | None, mode: int | None) -> None:
    """Put `data` in place of what `live` saw, in one step; None removes the file.

    The file is read again just before: raises UsageError where it has changed since `live` was read.
    """
    if data is None:
        _compare(live)
        with contextlib.suppress(FileNotFoundError):
            live.target.unlink()
        atomic.sync_folder(live.target.parent)
        return
    atomic.make_private_folder(live.target.parent)
    beside = live.target.with_name(f".{live.target.name}.{INFIX}{secrets.token_hex(6)}.tmp")
    try:
        _write(live, beside, data, mode if mode is not None else atomic.PRIVATE_FILE)
        _compare(live)
        beside.rename(live.target)
    except OSError as error:
        raise UsageError(
            _("The file cannot be written."),
            evidence=f"{error.filename or live.target}: {error.strerror}",
            fix=_("Check the folder's owner and mode; nothing was changed."),
        ) from None
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
    atomic.sync_folder(live.target.parent)


def _write(live: LiveFile, beside: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, atomic.PRIVATE_FILE)
    try:
        with contextlib.suppress(OSError):  # a file of another owner keeps its owner where we may do that
            status = live.target.stat()
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(descriptor, status.st_uid, status.st_gid)
        os.fchmod(descriptor, mode)
        atomic.write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _compare(live: LiveFile) -> None:
    try:
        now: bytes | None = live.target.read_bytes()
    except FileNotFoundError:
        now = None
    if now != live.data:
        raise UsageError(
            _("The file changed while this was going on; it was left alone."),
            evidence=str(live.target),
            fix=_("Look at the difference again, then repeat."),
        )
