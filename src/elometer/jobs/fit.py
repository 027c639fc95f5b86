"""Fit files: pair records, and the ledger beside them."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elometer.core.atomic import replace_file
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _

if TYPE_CHECKING:
    from elometer.rating.options import FitOptions
    from elometer.rating.result import FitResult
    from elometer.rating.tokens import TokenUse


def tokens_of(ledgers: Sequence[Path]) -> TokenUse:
    """What the ledgers of one experiment say of its tokens. Raises UsageError where one is missing.

    Tokens per task-run are those that answers rest on; failed attempts stay in the totals.
    """
    from elometer.ledger.charged import token_sums
    from elometer.runs.result import token_use

    return token_use(token_sums(ledgers))


def fit_file(path: Path, *, ledger: Path | None = None, options: FitOptions | None = None) -> FitResult:
    """Fit the pair records of a file, priced by a ledger if one is given. Raises UsageError."""
    from elometer.rating.fit import fit
    from elometer.rating.records import read_records

    records = read_records(path)
    return fit(records, None if ledger is None else tokens_of([ledger]), options)


def write_csv(result: FitResult, path: Path) -> None:
    """Write elo_result.csv in one step. Raises UsageError where the place cannot be written."""
    from elometer.rating.report import csv_text

    write_text(csv_text(result), path)


def write_text(text: str, path: Path) -> None:
    """Write a file in one step. Raises UsageError where the place cannot be written."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        replace_file(path, text.encode())
    except OSError as error:
        raise UsageError(
            _("{path}: cannot be written.").format(path=path),
            evidence=error.strerror or str(error),
            fix=_("Choose a file in a folder that you may write to."),
        ) from None
