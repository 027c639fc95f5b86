"""Appending JSONL so that nothing written is lost: one write a line, synced in the background in groups.

From `append` on a line survives the death of the process; from `synced` on it survives the machine's. A line
is never left half written by a full disk. The lock on the file refuses a second writer for as long as this
one lives, and dies with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from elometer.core.atomic import PRIVATE_FILE, open_append, sync_folder, write_all
from elometer.core.clock import timestamp
from elometer.core.errors import PartialRun, UsageError
from elometer.core.redact import holds_secret, redact
from elometer.core.text import gettext as _

# A sync costs about a millisecond of CPU, whatever it covers; a line that comes alone does not wait for it.
SYNC_INTERVAL_S = 0.2

_encode = msgspec.json.Encoder().encode


class AlreadyWritten(UsageError):
    """Another writer holds the file."""


class WriteRefused(PartialRun):
    """The system did not take a line whole: no space, a quota, a failing disk. Nothing torn was left."""


@dataclass(frozen=True, slots=True)
class TornTail:
    """A last line without its newline, as an earlier writer left it when it was killed."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class _Waiter:
    target: int
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


class JsonlWriter:
    """The one writer of a JSONL file.

    `durable=False` writes the same way but never waits for the disk (events, which nothing is derived from).
    `torn` is what an earlier writer left unfinished; it was closed with a newline and readers report it.
    Raises AlreadyWritten, naming the owner, where another writer holds the file.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self.durable = durable
        self.appended = 0
        self._synced = 0
        self._failure: OSError | None = None
        self._closing = False
        self._hurried = False
        self._idle = False
        self._waiters: list[_Waiter] = []
        self._condition = threading.Condition()
        self._write_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._descriptor = _open_locked(path)
        try:
            self.torn = _torn_tail(self._descriptor)
            os.close(open_append(path))  # closes a torn line with a newline
            _leave_owner_note(path)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._loose_end = False

    @property
    def synced_count(self) -> int:
        """How many of the appended lines are known to be on the disk."""
        return self._synced if self.durable else self.appended

    def append(self, record: msgspec.Struct | dict[str, Any] | bytes) -> None:
        """Write one record as one line. Raises WriteRefused where the system does not take it whole."""
        self.append_all((record,))

    def append_all(self, records: Sequence[msgspec.Struct | dict[str, Any] | bytes]) -> None:
        """Write records, a line each, with one write: all of them are taken, or none."""
        lines = [_redacted(_line_of(record)) for record in records]
        if any(b"\n" in line for line in lines):
            raise ValueError("a record is one line")
        with self._write_lock:
            if self._failure is not None:
                raise _refused(self.path, self._failure) from self._failure
            self._write(b"\n".join(lines) + b"\n")
            self.appended += len(lines)
        if self.durable and not self._closing:
            self._wake_thread()

    async def synced(self) -> None:
        """Return when every line appended before this call is on the disk. Raises WriteRefused if not."""
        target = self.appended
        if not self.durable or self._synced >= target:
            return
        loop = asyncio.get_running_loop()
        waiter = _Waiter(target, loop, loop.create_future())
        with self._condition:
            if self._synced < target and self._failure is None:
                self._waiters.append(waiter)
            else:
                waiter.future.set_result(None)
        await waiter.future
        if self._synced < target and self._failure is not None:
            raise _refused(self.path, self._failure) from self._failure

    def hurry(self) -> None:
        """Let the next sync come at once: nothing more is on its way that could share it."""
        with self._condition:
            self._hurried = True
            self._condition.notify_all()

    def flush(self) -> None:
        """Wait here until everything appended is on the disk, also for a writer that is not durable."""
        target = self.appended
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            self._settle(None, error)
            raise _refused(self.path, error) from error
        self._settle(target, None)

    def close(self) -> None:
        """Sync what is pending, end the thread, release the lock. A second call does nothing."""
        if self._descriptor < 0:
            return
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()
        try:
            if self._failure is None:
                self.flush()
        finally:
            with contextlib.suppress(OSError):
                _owner_file(self.path).unlink()
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> JsonlWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        if self._loose_end:
            line = b"\n" + line
        try:
            written = os.write(self._descriptor, line)
        except OSError as error:
            raise _refused(self.path, error) from error
        if written == len(line):
            self._loose_end = False
            return
        # A full disk first shows as a short write without an error; what it took is taken back.
        try:
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
        except OSError:
            self._loose_end = True
        taken = _("only {n} of {m} bytes were taken").format(n=written, m=len(line))
        raise _refused(self.path, OSError(errno.ENOSPC, taken))

    def _wake_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._sync_in_groups, name=f"sync {self.path.name}")
            self._thread.daemon = True
            self._thread.start()
        elif self._idle:
            # `_idle` is set before the thread looks at `appended` and read after `appended` was raised,
            # so either the thread sees the new line or this sees that it sleeps.
            with self._condition:
                self._condition.notify_all()

    def _sync_in_groups(self) -> None:
        next_sync = 0.0
        while self._line_is_pending(not_before=next_sync):
            next_sync = time.monotonic() + SYNC_INTERVAL_S
            target = self.appended
            try:
                os.fdatasync(self._descriptor)
            except OSError as error:
                self._settle(None, error)
                return
            self._settle(target, None)

    def _line_is_pending(self, *, not_before: float) -> bool:
        """Wait for a line that is not on the disk, and for the time of the next sync; False at the end."""
        with self._condition:
            self._idle = True
            self._condition.wait_for(lambda: self._ending() or self.appended > self._synced)
            self._idle = False
            wait = max(0.0, not_before - time.monotonic())
            self._condition.wait_for(lambda: self._hurried or self._ending(), timeout=wait)
            self._hurried = False
            return not self._ending()

    def _ending(self) -> bool:
        return self._closing or self._failure is not None

    def _settle(self, target: int | None, failure: OSError | None) -> None:
        """Note how far the disk is and wake those who waited for it, all of a loop with one call."""
        with self._condition:
            if target is not None:
                self._synced = max(self._synced, target)
            if failure is not None:
                # After a failed sync the kernel may have dropped the pages: no later sync can vouch for them.
                self._failure = failure
            reached = self._synced if failure is None else self.appended
            ready = [waiter for waiter in self._waiters if waiter.target <= reached]
            self._waiters = [waiter for waiter in self._waiters if waiter.target > reached]
        for loop in {waiter.loop for waiter in ready}:
            futures = [waiter.future for waiter in ready if waiter.loop is loop]
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


def _line_of(record: msgspec.Struct | dict[str, Any] | bytes) -> bytes:
    if isinstance(record, bytes):
        return record.rstrip(b"\n")
    try:
        return _encode(record)
    except UnicodeEncodeError:
        # Half of a surrogate pair in a model's text cannot be written as UTF-8; the line matters more.
        return _encode(
            _texts(msgspec.to_builtins(record), lambda text: text.encode("utf-8", "replace").decode())
        )


def _redacted(line: bytes) -> bytes:
    """The line without any registered secret, and still a JSON value."""
    if not holds_secret(line):
        return line
    text = line.decode()
    masked = redact(text)
    try:
        msgspec.json.decode(masked)
    except msgspec.DecodeError:
        # A secret that also reads as a number was cut out of one; only texts are masked then.
        return _encode(_texts(msgspec.json.decode(text), redact))
    return masked.encode()


def _texts(value: Any, change: Callable[[str], str]) -> Any:
    """The value with every text in it changed, names too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _texts(part, change) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_texts(part, change) for part in value]
    return value


def _open_locked(path: Path) -> int:
    new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyWritten(
                _("{path} is being written by another process.").format(path=path),
                evidence=_owner_words(path),
                fix=_("Wait until that start has ended, or stop it with 'elometer control ID stop'."),
            ) from error
        if new:
            os.fchmod(descriptor, PRIVATE_FILE)
            sync_folder(path.parent)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _torn_tail(descriptor: int) -> TornTail | None:
    size = end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(end - 65_536, 0)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    return TornTail(end, size - end) if end < size else None


def _owner_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.owner")


def _leave_owner_note(path: Path) -> None:
    note = {"pid": os.getpid(), "host": socket.gethostname(), "since": timestamp()}
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    descriptor = os.open(_owner_file(path), flags, PRIVATE_FILE)
    try:
        write_all(descriptor, _encode(note))
    finally:
        os.close(descriptor)


def _owner_words(path: Path) -> str:
    try:
        owner = msgspec.json.decode(_owner_file(path).read_bytes(), type=dict[str, Any])
        return _("Its owner is process {pid} on {host}, since {since}.").format(**owner)
    except (OSError, msgspec.DecodeError, KeyError):
        return _("Its owner left no note; 'fuser' on the file names the process.")


def _refused(path: Path, error: OSError) -> WriteRefused:
    return WriteRefused(
        _("A line could not be written to {path}.").format(path=path),
        evidence=_("The system answered: {reason}. Every line before it is whole.").format(
            reason=error.strerror or error
        ),
        fix=_("Make space (or restore the disk), then start again: it goes on where it stopped."),
    )
