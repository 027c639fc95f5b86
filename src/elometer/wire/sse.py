"""Server-sent events from bytes that arrive in any pieces.

Follows the event-stream grammar of the WHATWG HTML standard: lines end in LF, CR LF or CR; an empty line ends
an event; lines that start with a colon are comments; several `data` lines are joined with LF.
"""

from __future__ import annotations

from typing import NamedTuple

from elometer.core.errors import ElometerError

# One event larger than this is not a piece of a model's answer.
LARGEST_EVENT = 8 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class EventTooLarge(ElometerError):
    """A stream whose event does not end."""


class Event(NamedTuple):
    """One event: its name (`""` where none was given) and its data."""

    name: str
    data: bytes


class EventSplitter:
    """`feed` takes bytes and returns the events that they complete."""

    __slots__ = ("_buffer", "_data", "_name", "_skip_newline", "_started")

    def __init__(self) -> None:
        self._buffer = b""
        self._data: list[bytes] = []
        self._name = ""
        self._skip_newline = False
        self._started = False

    def feed(self, piece: bytes) -> list[Event]:
        """The events completed by this piece."""
        if self._skip_newline and piece:
            # The CR that ended the last line may have been the first half of a CR LF.
            self._skip_newline = False
            if piece.startswith(b"\n"):
                piece = piece[1:]
        data = self._buffer + piece if self._buffer else piece
        if not self._started:
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._buffer = data
                return []
            data = data.removeprefix(_BOM)
            self._started = True
        if b"\r" in data:
            data = self._normalise(data)
        lines = data.split(b"\n")
        self._buffer = lines.pop()
        if len(self._buffer) > LARGEST_EVENT:
            raise EventTooLarge("an event of the stream does not end")
        return self._events(lines)

    def end(self) -> list[Event]:
        """What stands in the buffer when the stream ends.

        The standard discards an unfinished event; servers that leave out the last empty line are common, and
        a whole `data` line at the end is taken. A cut line fails to decode and is dealt with by the reader.
        """
        lines = [self._buffer, b""] if self._buffer else [b""]
        self._buffer = b""
        return self._events(lines)

    def _normalise(self, data: bytes) -> bytes:
        if data.endswith(b"\r"):
            self._skip_newline = True
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _events(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        held = self._data
        for line in lines:
            if line.startswith(b"data:"):
                held.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                if held:
                    events.append(Event(self._name, held[0] if len(held) == 1 else b"\n".join(held)))
                    held.clear()
                self._name = ""
            elif line.startswith(b"event:"):
                self._name = line[6:].strip().decode("utf-8", "replace")
            elif line == b"data":
                held.append(b"")
        if len(held) > 1 and sum(map(len, held)) > LARGEST_EVENT:
            raise EventTooLarge("an event of the stream does not end")
        return events
