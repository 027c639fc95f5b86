"""Bradley-Terry ratings, their intervals, and what tokens buy; usable as a library.

>>> from elometer.rating import RecordSet, fit_records
>>> games = [("sample_2", "sample_1")] * 30 + [("sample_1", "sample_2")] * 15
>>> result = fit_records(RecordSet.from_pairs(games))
>>> round(result.row("sample_2").elo, 2)  # 1000 + 400 log10(30.5 / 15.5), by Firth's penalty
1117.59

docs/library.md goes on from there. Importing this package costs nothing; a name costs what its module
imports, numpy at most.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elometer.rating.bootstrap import task_bootstrap as task_bootstrap
    from elometer.rating.comparisons import probability_better as probability_better
    from elometer.rating.comparisons import rank_ranges as rank_ranges
    from elometer.rating.details import fit_details as fit_details
    from elometer.rating.economics import best_of_n_doubling as best_of_n_doubling
    from elometer.rating.economics import comparisons_needed as comparisons_needed
    from elometer.rating.economics import detectable_before as detectable_before
    from elometer.rating.fit import elo_ratings as elo_ratings
    from elometer.rating.fit import fit_records as fit_records
    from elometer.rating.influence import halves_in_time as halves_in_time
    from elometer.rating.influence import leave_one_task_out as leave_one_task_out
    from elometer.rating.influence import most_influential_tasks as most_influential_tasks
    from elometer.rating.influence import sensitivity as sensitivity
    from elometer.rating.influence import surprising_pairs as surprising_pairs
    from elometer.rating.options import FitOptions as FitOptions
    from elometer.rating.pairs import BlockScores as BlockScores
    from elometer.rating.pairs import count_blocks as count_blocks
    from elometer.rating.pairs import pair_across_runs as pair_across_runs
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
    "comparisons_needed": "economics",
    "count_blocks": "pairs",
    "csv_text": "report",
    "detectable_before": "economics",
    "elo_ratings": "fit",
    "fit_details": "details",
    "fit_json": "report",
    "fit_records": "fit",
    "halves_in_time": "influence",
    "leave_one_task_out": "influence",
    "most_influential_tasks": "influence",
    "pair_across_runs": "pairs",
    "pair_blocks": "pairs",
    "probability_better": "comparisons",
    "rank_ranges": "comparisons",
    "read_records": "records",
    "sensitivity": "influence",
    "surprising_pairs": "influence",
    "table_from_csv": "table",
    "task_bootstrap": "bootstrap",
    "text_table": "report",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
