"""Bradley-Terry ratings, their intervals, and what tokens buy; usable as a library.

Importing this package costs nothing; a name costs what its module imports, numpy at most.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elometer.rating.economics import best_of_n_doubling as best_of_n_doubling
    from elometer.rating.fit import elo_ratings as elo_ratings
    from elometer.rating.fit import fit_records as fit_records
    from elometer.rating.options import FitOptions as FitOptions
    from elometer.rating.pairs import BlockScores as BlockScores
    from elometer.rating.pairs import count_blocks as count_blocks
    from elometer.rating.pairs import pair_blocks as pair_blocks
    from elometer.rating.records import PairRecord as PairRecord
    from elometer.rating.records import RecordSet as RecordSet
    from elometer.rating.records import read_records as read_records
    from elometer.rating.report import csv_text as csv_text
    from elometer.rating.report import fit_json as fit_json
    from elometer.rating.report import text_table as text_table
    from elometer.rating.result import FitResult as FitResult
    from elometer.rating.table import table_from_csv as table_from_csv
    from elometer.rating.tokens import TokenUse as TokenUse

_PLACES = {
    "BlockScores": "pairs",
    "FitOptions": "options",
    "FitResult": "result",
    "PairRecord": "records",
    "RecordSet": "records",
    "TokenUse": "tokens",
    "best_of_n_doubling": "economics",
    "count_blocks": "pairs",
    "csv_text": "report",
    "elo_ratings": "fit",
    "fit_json": "report",
    "fit_records": "fit",
    "pair_blocks": "pairs",
    "read_records": "records",
    "table_from_csv": "table",
    "text_table": "report",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
