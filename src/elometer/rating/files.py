"""Files of pair records, whatever their shape, in chunks of whole lines."""

from __future__ import annotations

import io
from pathlib import Path

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.reading import RecordReader
from elometer.rating.records import RecordSet

CHUNK_BYTES = 4 << 20


def read_file(path: Path) -> RecordSet:
    """See `elometer.rating.records.read_records`."""
    reader = RecordReader(str(path))
    try:
        with path.open("rb") as file:
            head = file.read(CHUNK_BYTES)
            if head.startswith(b"\xef\xbb\xbf"):
                head = head[3:]
            if _is_csv(path, head):
                reader.add_csv((head + file.read()).decode("utf-8"))
            else:
                _read_chunks(reader, head, file)
    except UnicodeDecodeError as error:
        raise UsageError(
            _("{path}: not UTF-8 text.").format(path=path), evidence=str(error), fix=_("Save it as UTF-8.")
        ) from None
    except OSError as error:
        raise UsageError(
            _("{path}: cannot be read.").format(path=path),
            evidence=error.strerror or str(error),
            fix=_("Give the path of a file of pair records."),
        ) from None
    return reader.finish()


def _is_csv(path: Path, head: bytes) -> bool:
    if path.suffix.lower() in (".jsonl", ".json", ".ndjson"):
        return False
    return path.suffix.lower() == ".csv" or head.lstrip()[:1] not in (b"{", b"[", b"")


def _read_chunks(reader: RecordReader, head: bytes, file: io.BufferedReader) -> None:
    """Hand whole lines to the reader, a chunk at a time."""
    chunk = head
    while chunk:
        reader.add_jsonl(chunk + file.readline())
        chunk = file.read(CHUNK_BYTES)
