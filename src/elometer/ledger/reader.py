"""Reading JSONL that may be torn, glued, padded or still growing: fast, and never silently.

The quick path decodes a block of whole lines at once. Where that fails, or where the number of records is
not the number of lines, the block is read line by line; every line that does not decode is kept as a
`BadLine` with its place and what could be saved of it. A last line without a newline is not an error: it
waits for its rest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from elometer.core.attempt import Attempt
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _

BLOCK = 1 << 20
# A damaged line is searched for records that were glued to it; this bounds the search in a line of megabytes.
STARTS_TRIED = 2_000
FOUNDING_FIELDS = (
    "experiment_id", "strategy", "task", "run", "model",
    "prompt_tokens", "completion_tokens", "total_tokens", "timestamp",
)  # fmt: skip

T = TypeVar("T")


class Block(NamedTuple):
    """Whole lines of a file: where they start (bytes, and the first line's number from 1)."""

    offset: int
    number: int
    data: bytes


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
        pending: list[bytes] = []
        while data := file.read(size):
            cut = data.rfind(b"\n") + 1
            if not cut:
                pending.append(data)
                continue
            whole = b"".join((*pending, data[:cut]))
            pending = [data[cut:]] if cut < len(data) else []
            yield Block(offset, number, whole)
            offset += len(whole)
            number += whole.count(b"\n")


def _open(path: Path) -> Any:
    try:
        return path.open("rb", buffering=0)
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
            records = self._decode(block)
            self.offset = block.offset + len(block.data)
            self.number = block.number + block.data.count(b"\n")
            self.records += len(records)
            yield records

    def _decode(self, block: Block) -> list[T]:
        try:
            records = self._decoder.decode_lines(block.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._line_by_line(block)
        # Equal counts show that no record swallowed its neighbours across a newline.
        if len(records) == block.data.count(b"\n"):
            return records
        return self._line_by_line(block)

    def _line_by_line(self, block: Block) -> list[T]:
        records: list[T] = []
        offset = block.offset
        for number, line in enumerate(block.data.split(b"\n")[:-1], block.number):
            if line.strip():
                try:
                    records.append(self._decoder.decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    saved = self._salvage(line)
                    records.extend(saved)
                    self.bad.append(BadLine(offset, number, len(line) + 1, _reason(line, error), len(saved)))
            offset += len(line) + 1
        return records

    def _salvage(self, line: bytes) -> list[T]:
        """What a damaged line still holds: without NULs, marks and broken characters, or glued records."""
        clean = line.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf")
        text = clean.decode("utf-8", "replace")
        candidates = [text] if text.encode() != line else []
        for candidate in chain(candidates, glued_records(text)):
            try:
                saved = self._decoder.decode(candidate)
            except (msgspec.DecodeError, RecursionError):
                continue
            if candidates and candidate is candidates[0]:
                return [saved]
            candidates.append(candidate)
        return self._decoded(candidates)

    def _decoded(self, candidates: list[str]) -> list[T]:
        records = []
        for candidate in candidates:
            try:
                records.append(self._decoder.decode(candidate))
            except (msgspec.DecodeError, RecursionError):
                continue
        return records


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


def read_attempts(path: Path, bad: list[BadLine] | None = None) -> Iterator[Attempt]:
    """The ledger's lines as attempts, oldest first; damaged lines are added to `bad` where it is given.

    Lines need the nine founding fields only; fields this version does not know are ignored. Raises UsageError
    where there is no such file.
    """
    reading = Reading(path, Attempt)
    if bad is not None:
        reading.bad = bad
    return iter(reading)


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
