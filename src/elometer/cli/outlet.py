"""Lines for a terminal or a pipe, written by a thread of their own: no reader holds up a call."""

from __future__ import annotations

import os
import sys
import threading
from queue import SimpleQueue
from typing import TextIO


class Outlet:
    """Writes lines to a stream in the background; `close` waits until they are taken.

    A terminal whose connection stalls takes nothing for as long as it likes. Where the reader is gone, the
    rest is dropped: what is said here also stands in events.jsonl.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def line(self, text: str) -> None:
        """Hand a line over; never waits, never fails."""
        self._lines.put(text)

    def close(self) -> None:
        """Wait until every line is written, or nobody is there to read it."""
        self._lines.put(None)
        self._thread.join()

    def _write(self) -> None:
        gone = False
        while (text := self._lines.get()) is not None:
            if gone:
                continue
            try:
                self._stream.write(text + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                gone = True
                self._abandon()

    def _abandon(self) -> None:
        """Send what else goes to that terminal or pipe to nowhere, so that no later word fails by it."""
        try:
            gone = os.fstat(self._stream.fileno())
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (sys.stdout, sys.stderr):
                if os.path.samestat(os.fstat(stream.fileno()), gone):
                    os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        except (OSError, ValueError):
            return
