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

    __slots__ = ("_buffer", "_skip_newline", "_started")

    def __init__(self) -> None:
        self._buffer = b""
        self._skip_newline = False
        self._started = False

    def feed(self, piece: bytes) -> list[Event]:
        """The events completed by this piece."""
        if (
            piece[:6] == b"data: "
            and piece[-2:] == b"\n\n"
            and piece.find(b"\n") == len(piece) - 2
            and self._started
            and not self._buffer
            and not self._skip_newline
            and b"\r" not in piece
        ):
            # Nearly every piece of a running stream is one whole event of one data line.
            return [Event("", piece[6:-2])]
        if self._skip_newline and piece:
            # The CR that ended the last line may have been the first half of a CR LF.
            self._skip_newline = False
            if piece.startswith(b"\n"):
                piece = piece[1:]
        if b"\r" in piece:
            self._skip_newline = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        data = self._buffer + piece if self._buffer else piece
        if not self._started:
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._buffer = data
                return []
            data = data.removeprefix(_BOM)
            self._started = True
        blocks = data.split(b"\n\n")
        self._buffer = blocks.pop()
        if len(self._buffer) > LARGEST_EVENT:
            raise EventTooLarge("an event of the stream does not end")
        return _events(blocks)

    def end(self) -> list[Event]:
        """What stands in the buffer when the stream ends.

        The standard discards an unfinished event; servers that leave out the last empty line are common, so a
        whole `data` line at the end is taken. A cut line fails to decode and is dealt with by the reader.
        """
        blocks, self._buffer = [self._buffer], b""
        return _events(blocks)


def _events(blocks: list[bytes]) -> list[Event]:
    events: list[Event] = []
    for block in blocks:
        # Nearly every block is one data line; the rest of the grammar takes the slower way.
        if block.startswith(b"data: ") and b"\n" not in block:
            events.append(Event("", block[6:]))
        elif block:
            event = _event(block)
            if event is not None:
                events.append(event)
    return events


def _event(block: bytes) -> Event | None:
    """The event of one block of lines; None where it holds no data (comments, an id alone)."""
    name = ""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        if line.startswith(b"data:"):
            data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line == b"data":
            data.append(b"")
        elif line.startswith(b"event:"):
            name = line[6:].strip().decode("utf-8", "replace")
    return Event(name, b"\n".join(data)) if data else None
