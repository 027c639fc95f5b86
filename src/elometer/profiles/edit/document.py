"""What both editors share: byte-order mark, line ends, and refusing what a client cannot read."""

from __future__ import annotations

from dataclasses import dataclass

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _

BOM = b"\xef\xbb\xbf"


class Unreadable(Exception):
    """A file that its client cannot read; `where` is line and column."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.where = "" if line is None else _("line {l}, column {c}").format(l=line, c=column)

    def refusal(self, path: str, client: str) -> UsageError:
        """The error for a person: the file stays as it is, and the client does not read it either."""
        evidence = f"{path}: {self.where}: {self.reason}" if self.where else f"{path}: {self.reason}"
        return UsageError(
            _("The file cannot be read, so it was not touched; {client} cannot read it either.").format(
                client=client
            ),
            evidence=evidence,
            fix=_("Correct that place by hand, then try again."),
        )


class NotEditable(Exception):
    """A file that can be read and whose layout leaves no place for our values."""


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text without its byte-order mark, and what new lines in it must look like."""

    text: str
    bom: bool
    newline: str

    def encode(self, text: str) -> bytes:
        """The text as bytes, with the mark where the file had one."""
        return (BOM if self.bom else b"") + text.encode()


def decode(data: bytes) -> Text:
    """Raises Unreadable with line and column where the bytes are not UTF-8."""
    bom = data.startswith(BOM)
    body = data[len(BOM) :] if bom else data
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        before = body[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise Unreadable(_("not UTF-8 text"), line, column) from None
    first = text.find("\n")
    return Text(text, bom, "\r\n" if first > 0 and text[first - 1] == "\r" else "\n")
