"""Reading JSONL that may be torn, glued, padded or still growing: fast, and never silently.

Lines are decoded one by one, in blocks: `decode_lines` on a whole block is 15 % faster, but lets a torn line
swallow its neighbours where their brackets happen to match, and counting newlines to notice that costs more
than it saves. Every line that does not decode is kept as a `BadLine` with its place and what could be saved
of it. A last line without a newline is not an error: it waits for its rest.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Generic, NamedTuple, TypeVar

import msgspec

from elometer.core.attempt import Attempt
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _

BLOCK = 256 << 10
# A damaged line is searched for records that were glued to it; this bounds the search in a line of megabytes.
STARTS_TRIED = 2_000
FOUNDING_FIELDS = (
    "experiment_id", "strategy", "task", "run", "model",
    "prompt_tokens", "completion_tokens", "total_tokens", "timestamp",
)  # fmt: skip

# What a decoder says of bytes that are no record of its kind.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

T = TypeVar("T")


class Block(NamedTuple):
    """Whole lines with their newlines: where they start (bytes, and the first line's number from 1)."""

    offset: int
    number: int
    lines: list[bytes]


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not one record. `recovered` records could still be taken out of it."""

    offset: int
    number: int
    size: int
    reason: str
    recovered: int


def blocks(path: Path, offset: int = 0, number: int = 1, *, size: int = BLOCK) -> Iterator[Block]:
    """The file's whole lines from a byte offset on, in blocks of about `size` bytes.

    `number` is the line number at `offset`. Bytes after the last newline are not part of any block.
    Raises UsageError where there is no such file.
    """
    with _open(path) as file:
        file.seek(offset)
        while lines := file.readlines(size):
            if not lines[-1].endswith(b"\n"):
                lines.pop()
                if not lines:
                    return
            yield Block(offset, number, lines)
            offset += sum(map(len, lines))
            number += len(lines)


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=BLOCK)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise UsageError(
            _("There is no file to read at {path}.").format(path=path),
            evidence=_("The system answered: {reason}.").format(reason=error.strerror),
            fix=_("Name a JSONL file, an experiment or its folder."),
        ) from error


class Reading(Generic[T]):
    """Iterates over a file's records of one kind and keeps account of what was not a record.

    After (or during) iteration: `bad` lists damaged lines, `offset` is the first byte not yet read as a whole
    line, `number` its line number, `records` how many were found. Iterating again continues there.
    """

    def __init__(self, path: Path, kind: type[T], offset: int = 0, number: int = 1) -> None:
        self.path = path
        self.offset = offset
        self.number = number
        self.records = 0
        self.bad: list[BadLine] = []
        self._decoder = msgspec.json.Decoder(kind)

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self.batches())

    def batches(self) -> Iterator[list[T]]:
        """The records of one block after the other."""
        for block in blocks(self.path, self.offset, self.number):
            try:
                records = list(map(self._decoder.decode, block.lines))
            except UNREADABLE:
                records = self._line_by_line(block)
            self.offset = block.offset + sum(map(len, block.lines))
            self.number = block.number + len(block.lines)
            self.records += len(records)
            yield records

    def _line_by_line(self, block: Block) -> list[T]:
        records: list[T] = []
        offset = block.offset
        for number, line in enumerate(block.lines, block.number):
            if not line.isspace():
                try:
                    records.append(self._decoder.decode(line))
                except UNREADABLE as error:
                    saved = self._salvage(line)
                    records.extend(saved)
                    self.bad.append(BadLine(offset, number, len(line), _reason(line, error), len(saved)))
            offset += len(line)
        return records

    def _salvage(self, line: bytes) -> list[T]:
        """What a damaged line still holds: without NULs, marks and broken characters, or glued records."""
        clean = line.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf")
        text = clean.decode("utf-8", "replace")
        if text.encode() != line:
            with contextlib.suppress(*UNREADABLE):
                return [self._decoder.decode(text)]
        saved = []
        for record in glued_records(text):
            try:
                saved.append(self._decoder.decode(record))
            except UNREADABLE:
                with contextlib.suppress(*UNREADABLE):
                    saved.append(self._decoder.decode(without_lone_surrogates(record)))
        return saved


def _reason(line: bytes, error: Exception) -> str:
    if b"\0" in line:
        return _("NUL bytes")
    return str(error)


def glued_records(text: str) -> Iterator[str]:
    """Complete ledger records (with the nine founding fields) inside a line that is not one as a whole."""
    decoder = json.JSONDecoder()
    at, tried = text.find('{"'), 0
    while at >= 0 and tried < STARTS_TRIED:
        tried += 1
        end = at + 1
        try:
            value, stop = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            pass
        else:
            if all(name in value for name in FOUNDING_FIELDS):
                yield text[at:stop]
                end = stop
        at = text.find('{"', end)


def without_lone_surrogates(record: str) -> bytes:
    """A JSON record in which halves of surrogate pairs, which other writers escape, read as `?`."""
    return json.dumps(json.loads(record), ensure_ascii=False).encode("utf-8", "replace")


def read_attempts(path: Path, bad: list[BadLine] | None = None) -> Iterator[Attempt]:
    """The ledger's lines as attempts, oldest first; damaged lines are added to `bad` where it is given.

    Lines need the nine founding fields only; fields this version does not know are ignored. Raises UsageError
    where there is no such file.
    """
    reading = Reading(path, Attempt)
    if bad is not None:
        reading.bad = bad
    return iter(reading)


def file_lines(path: Path) -> Iterator[bytes]:
    """All lines of a file, also a last one without newline. Raises UsageError where there is no file."""
    with _open(path) as file:
        yield from file


def last_lines(path: Path, count: int, *, size: int = BLOCK) -> list[bytes]:
    """The last whole lines of a file, oldest first, without newlines; reads from its end only."""
    with _open(path) as file:
        descriptor = file.fileno()
        start = os.fstat(descriptor).st_size
        data = b""
        while start > 0 and data.count(b"\n") <= count:
            step = min(size, start)
            start -= step
            data = os.pread(descriptor, step, start) + data
    whole = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
    return whole[-count:] if count > 0 else []


@dataclass(slots=True)
class Tail:
    """The new whole lines of a growing file, a bounded piece per poll.

    `restarted` is true after a poll that found the file shorter or replaced: a view starts over.
    """

    path: Path
    offset: int = 0
    restarted: bool = False
    limit: int = 4 << 20
    _inode: tuple[int, int] | None = field(default=None, repr=False)

    def poll(self) -> list[bytes]:
        """Lines (without newline) that were completed since the last poll; [] where there is no file yet."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        try:
            self._note_identity(os.fstat(descriptor))
            data = self._whole_lines(descriptor)
        finally:
            os.close(descriptor)
        self.offset += len(data)
        return data.split(b"\n")[:-1]

    def _note_identity(self, status: os.stat_result) -> None:
        inode = (status.st_dev, status.st_ino)
        replaced = self._inode is not None and inode != self._inode
        self.restarted = replaced or status.st_size < self.offset
        if self.restarted:
            self.offset = 0
        self._inode = inode

    def _whole_lines(self, descriptor: int) -> bytes:
        data = os.pread(descriptor, self.limit, self.offset)
        # One line longer than the limit must not stop the view for ever.
        while len(data) >= self.limit and b"\n" not in data:
            more = os.pread(descriptor, self.limit, self.offset + len(data))
            if not more:
                break
            data += more
        return data[: data.rfind(b"\n") + 1]
