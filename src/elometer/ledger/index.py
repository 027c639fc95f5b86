"""Where each line of a file starts: eight bytes a line, enough to show any part of a large ledger."""

from __future__ import annotations

import os
from array import array
from itertools import accumulate
from pathlib import Path

BLOCK = 4 << 20


class LineIndex:
    """Offsets of the whole lines of a growing file.

    `starts[i]` is the first byte of line i (from 0); the last entry is the end of the last whole line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._starts = array("Q", [0])
        self._inode: tuple[int, int] | None = None

    @property
    def count(self) -> int:
        """Whole lines indexed so far."""
        return len(self._starts) - 1

    @property
    def indexed_bytes(self) -> int:
        """How far into the file the index reaches."""
        return self._starts[-1]

    def update(self, *, limit: int | None = None) -> int:
        """Index what was appended, at most about `limit` bytes; returns how many lines are new.

        Where the file became shorter or was replaced, the index starts over and the return value counts
        every line.
        """
        try:
            file = self.path.open("rb", buffering=BLOCK)
        except FileNotFoundError:
            return 0
        with file:
            status = os.fstat(file.fileno())
            inode = (status.st_dev, status.st_ino)
            if (self._inode is not None and inode != self._inode) or status.st_size < self._starts[-1]:
                self._starts = array("Q", [0])
            self._inode = inode
            before, first = self.count, self._starts[-1]
            file.seek(first)
            while limit is None or self._starts[-1] - first < limit:
                lines = file.readlines(BLOCK)
                if lines and not lines[-1].endswith(b"\n"):
                    lines.pop()
                if not lines:
                    break
                last = self._starts.pop()
                self._starts.extend(accumulate(map(len, lines), initial=last))
        return self.count - before

    def lines(self, first: int, count: int) -> list[bytes]:
        """Lines first … first+count−1 without their newlines; fewer where the file ends."""
        first = max(first, 0)
        last = min(first + count, self.count)
        if last <= first:
            return []
        start, stop = self._starts[first], self._starts[last]
        with self.path.open("rb", buffering=0) as file:
            data = os.pread(file.fileno(), stop - start, start)
        return data.split(b"\n")[: last - first]
