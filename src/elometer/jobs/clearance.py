"""Whether a start may begin: the static checks of its experiment, and what the user overruled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from elometer.checks.engine import Row
from elometer.core.errors import AccessError
from elometer.jobs.checks import BEFORE_SENDING, Question, refuse_if_blocked, run_static
from elometer.jobs.key import experiment_key
from elometer.jobs.prepare import Prepared
from elometer.jobs.tokenizer import profile_tokenizer

if TYPE_CHECKING:
    from elometer.wire.tokenizer_file import TokenizerFile

# About the person's terminal and about clients that take no part: shown by `check`, not before a start.
UNASKED = ("terminal.",)


@dataclass(frozen=True, slots=True)
class Clearance:
    """What the checks said. `overruled` are the failed rows that --force went past; None without --force.

    `tokenizer` is the profile's, for replies without usage.
    """

    rows: tuple[Row, ...]
    overruled: tuple[str, ...] | None
    tokenizer: TokenizerFile | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Rows that warn."""
        return tuple(row.check.id for row in self.rows if row.status == "warn")


def clear_start(prepared: Prepared, *, force: bool = False) -> Clearance:
    """Ask the static checks. Raises AccessError, naming the row and its fix, where one fails.

    With `force` failed rows are overruled, and named in what is returned. A missing key, or one that cannot
    be sent, cannot be overruled: taking the key then fails with the same words as ever. Raises UsageError
    where the profile names a tokenizer that cannot be used.
    """
    rows = tuple(
        row
        for row in run_static(Question(experiment=prepared.folder.source))
        if not row.check.id.startswith(UNASKED)
    )
    failed = tuple(row.check.id for row in rows if row.status == "fail")
    if not force:
        _refuse_without_key(prepared, failed)
        refuse_if_blocked(rows)
    return Clearance(rows, failed if force else None, profile_tokenizer(prepared.experiment))


def _refuse_without_key(prepared: Prepared, failed: tuple[str, ...]) -> None:
    """Let the search for the key speak: it names every place that was looked at."""
    first = next((name for name in failed if name in BEFORE_SENDING), None)
    if first is None:
        return
    try:
        experiment_key(prepared.experiment)
    except AccessError as error:
        error.evidence = f"{first}: {error.evidence}"
        raise
