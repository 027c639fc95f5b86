"""A window over a ledger: offsets for all lines, decoded cells for the few that were looked at."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Protocol

import msgspec

from elometer.core.text import gettext as _
from elometer.tui.figures import UNKNOWN, count
from elometer.tui.widgets.rows import Column, Row

COLUMNS = (
    Column("time", _("time UTC"), 8, "left", drop=4),
    Column("strategy", _("strategy"), 10, "left"),
    Column("task", _("task"), 10, "left", grow=200),
    Column("run", _("run"), 3, drop=3),
    Column("model", _("model"), 16, "left", drop=8, grow=200),
    Column("prompt", _("prompt"), 7, drop=5),
    Column("completion", _("complet."), 8, drop=6),
    Column("total", _("total"), 7),
    Column("status", _("status"), 10, "left"),
    Column("ms", _("ms"), 6, drop=2),
    Column("attempt", _("try"), 3, drop=7),
)
BLOCK = 256
BLOCKS_KEPT = 64
INDEX_STEP = 32 << 20  # bytes indexed between two looks at the screen
_GOOD = ("ok", "")


class Index(Protocol):
    """Offsets of a file's lines (`ledger.index.LineIndex`)."""

    @property
    def count(self) -> int: ...

    def update(self, *, limit: int | None = None) -> int: ...

    def lines(self, first: int, count: int) -> list[bytes]: ...


class LedgerPages:
    """Rows of a ledger by number; lines that were looked at are kept decoded, the oldest are forgotten."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._blocks: OrderedDict[int, list[Row]] = OrderedDict()

    @property
    def count(self) -> int:
        """Lines known so far."""
        return self.index.count

    def update(self) -> bool:
        """Index a further part of the file; True where something is new. Blocking: call it in a thread."""
        before = self.index.count
        new = self.index.update(limit=INDEX_STEP)
        if self.index.count < before + new or self.index.count < before:
            self._blocks.clear()  # the file was replaced
        elif new:
            self._blocks.pop(before // BLOCK, None)  # the block that was not full
        return new > 0

    def row(self, number: int) -> Row | None:
        """The cells of line `number` (from 0); None outside the file."""
        if not 0 <= number < self.index.count:
            return None
        at, offset = divmod(number, BLOCK)
        block = self._blocks.get(at)
        if block is None:
            block = [
                ledger_row(at * BLOCK + n, line) for n, line in enumerate(self.index.lines(at * BLOCK, BLOCK))
            ]
            self._blocks[at] = block
            if len(self._blocks) > BLOCKS_KEPT:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(at)
        return block[offset] if offset < len(block) else None

    def whole(self, number: int) -> bytes:
        """The bytes of one line."""
        found = self.index.lines(number, 1)
        return found[0] if found else b""


def ledger_row(number: int, line: bytes) -> Row:
    """The cells of one line; a line that is no record says so and shows its beginning."""
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        record = None
    if not isinstance(record, dict):
        start = line[:60].decode("utf-8", errors="replace")
        cells = {"task": start, "status": "! " + _("bad line")}
        return Row(str(number), cells, style="error")
    status = str(record.get("status") or record.get("error_class") or "")
    style = "" if status in _GOOD else "warning"
    return Row(
        str(number),
        {
            "time": _clock(record.get("timestamp")),
            "strategy": _text(record.get("strategy")),
            "task": _text(record.get("task")),
            "run": _text(record.get("run")),
            "model": _text(record.get("model")),
            "prompt": _number(record.get("prompt_tokens")),
            "completion": _number(record.get("completion_tokens")),
            "total": _number(record.get("total_tokens")),
            "status": status if not style else f"! {status}",
            "ms": _number(record.get("latency_ms")),
            "attempt": _text(record.get("attempt")),
        },
        styles={"status": style} if style else {},
    )


def _text(value: Any) -> str:
    return UNKNOWN if value is None else " ".join(str(value).split())


def _number(value: Any) -> str:
    return count(value) if isinstance(value, int | float) and not isinstance(value, bool) else UNKNOWN


def _clock(value: Any) -> str:
    text = str(value or "")
    return text[11:19] if len(text) >= 19 and text[10] in "T " else text[:8] or UNKNOWN


def pretty(line: bytes) -> list[str]:
    """One line as indented JSON; as it stands where it is none."""
    try:
        return (
            msgspec.json.format(msgspec.json.encode(msgspec.json.decode(line)), indent=2)
            .decode()
            .splitlines()
        )
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        return [str(fault), "", line.decode("utf-8", errors="replace")]
