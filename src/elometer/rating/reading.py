"""From lines to counts: columns of small integers, a million lines in the time of decoding them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.core.text import ngettext
from elometer.rating.cells import CodedNames, Columns, record_set
from elometer.rating.duplicates import Contradiction, distinct_records
from elometer.rating.faults import DERIVED, MISSING, UNKNOWN, faults
from elometer.rating.lines import LineFault, csv_rows, jsonl_rows, line_of_row
from elometer.rating.marks import has_marks, marked_columns, possible_shares, with_all_marks
from elometer.rating.records import FIRST, NO_BLOCK, SECOND, TIE, PairRecord, RecordSet


class _Codes(dict[Any, int]):
    """Numbers names in the order in which they come; looked up in C, filled here."""

    def __missing__(self, key: Any) -> int:
        self[key] = code = len(self)
        return code


class _OutcomeCodes(dict[Any, int]):
    def __missing__(self, key: Any) -> int:
        return UNKNOWN


class RecordReader:
    """Collects records, chunk by chunk, and makes a `RecordSet` of them.

    `finish` may be called again after more records were added: a live fit adds what is new.
    """

    def __init__(self, where: str = "") -> None:
        self.where = where or _("these records")
        self._names = _Codes({None: MISSING})
        self._tasks = _Codes({None: 0})
        self._experiments = _Codes({None: 0})
        self._outcomes = _OutcomeCodes({"a": FIRST, "b": SECOND, "tie": TIE, None: DERIVED})
        self._chunks: list[Columns] = []
        self._lines_before = 0
        self._any_bare = False

    def add_records(self, records: Iterable[PairRecord]) -> None:
        """Add records in memory; raises UsageError that names the position of one that does not fit."""
        rows = list(records)
        self._add(rows, lambda index: _("record {n}").format(n=index + 1))

    def add_jsonl(self, data: bytes) -> None:
        """Add whole lines of JSONL; raises UsageError that names the line."""
        first_line = self._lines_before
        self._lines_before += data.count(b"\n")
        try:
            rows = jsonl_rows(data, first_line)
        except LineFault as fault:
            self._refuse(_("line {n}").format(n=fault.number), fault.reason)

        def name(index: int) -> str:
            return _("line {n}").format(n=first_line + line_of_row(data, index))

        self._add(rows, name)

    def add_csv(self, text: str) -> None:
        """Add a CSV of (winner, loser), or one whose header names fields of a record."""
        try:
            rows, lines = csv_rows(text)
        except LineFault as fault:
            self._refuse(_("line {n}").format(n=fault.number), fault.reason)
        self._add(rows, lambda index: _("line {n}").format(n=lines[index]))

    def _add(self, rows: Sequence[Any], name: Callable[[int], str]) -> None:
        if not rows:
            return

        def column(field: str, codes: dict[Any, int]) -> npt.NDArray[Any]:
            return np.fromiter(
                map(codes.__getitem__, map(attrgetter(field), rows)), dtype=np.int32, count=len(rows)
            )

        a, b = column("a", self._names), column("b", self._names)
        winner, loser = column("winner", self._names), column("loser", self._names)
        outcome = column("outcome", self._outcomes)
        weight = np.fromiter(map(attrgetter("weight"), rows), dtype=np.float64, count=len(rows))
        bare = (a == MISSING) & (b == MISSING)
        self._any_bare = self._any_bare or bool(bare.any())
        broken = faults(a, b, winner, loser, outcome, weight, bare, self._names.get("", -1))
        self._raise_first(broken, rows, name)
        derived = outcome == DERIVED
        outcome = np.where(derived, np.where(bare | (winner == a), FIRST, SECOND), outcome)
        block = self._whole_numbers("block", rows, name)
        run = self._whole_numbers("run", rows, name)
        marks = marked_columns(rows, run, outcome) if has_marks(rows) else {}
        if marks and not (possible := possible_shares(marks)).all():
            self._refuse(name(int((~possible).argmax())), _("share_a and share_b are no shares of one"))
        self._chunks.append(
            marks
            | {
                "experiment": column("experiment_id", self._experiments),
                "task": column("task", self._tasks),
                "run": run,
                "block": block,
                "first": np.where(bare, winner, a),
                "second": np.where(bare, loser, b),
                "outcome": outcome.astype(np.int8),
                "weight": weight,
            }
        )

    def _whole_numbers(self, field: str, rows: Sequence[Any], name: Callable[[int], str]) -> npt.NDArray[Any]:
        values = [NO_BLOCK if value is None else value for value in map(attrgetter(field), rows)]
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            index = next(i for i, value in enumerate(values) if not -(2**63) <= value < 2**63)
            self._refuse(name(index), _("{field} is too large a number").format(field=field))

    def _raise_first(
        self, broken: list[tuple[npt.NDArray[np.bool_], str]], rows: Sequence[Any], name: Callable[[int], str]
    ) -> None:
        found = [(int(mask.argmax()), order, text) for order, (mask, text) in enumerate(broken) if mask.any()]
        if found:
            index, _order, text = min(found)
            row = rows[index]
            self._refuse(
                name(index),
                text.format(a=row.a, b=row.b, outcome=row.outcome, winner=row.winner, loser=row.loser),
            )

    def _refuse(self, place: str, reason: str) -> NoReturn:
        raise UsageError(
            _("{where}, {place}: not a pair record.").format(where=self.where, place=place),
            evidence=reason,
            fix=_('Give a line each {"winner","loser"}, [winner, loser], or a, b and outcome: a, b or tie.'),
        )

    def finish(self) -> RecordSet:
        """The counts of all records so far. Raises UsageError where there is nothing to compare."""
        if not self._chunks:
            raise UsageError(
                _("{where}: no comparison in it.").format(where=self.where),
                evidence=_("The file is empty or holds blank lines only."),
                fix=_("Give a file with one pair record a line."),
            )
        if len(self._chunks) > 1:
            with_all_marks(self._chunks)
            self._chunks = [
                {name: np.concatenate([c[name] for c in self._chunks]) for name in self._chunks[0]}
            ]
        columns, notes = self._without_duplicates(self._chunks[0])
        experiments = [str(name) for name in self._experiments if name is not None]
        if len(experiments) > 1:
            message = _("The records come from several experiments: {names}.")
            notes.append(("several_experiments", message.format(names=", ".join(experiments))))
        coded = CodedNames(
            strategies=list(self._names),
            tasks=["" if task is None else task for task in self._tasks],
            experiments=experiments,
        )
        counts = record_set(columns, coded, self.where, ordered=not self._any_bare)
        return replace(counts, notes=tuple(notes))

    def _without_duplicates(self, columns: Columns) -> tuple[Columns, list[tuple[str, str]]]:
        """The records to count, and a note where some stand twice."""
        try:
            keep = distinct_records(columns)
        except Contradiction as two:
            self._contradiction(columns, two.one, two.other)
        if keep.all():
            return columns, []
        dropped = int((~keep).sum())
        note = ngettext(
            "{n} record stands twice for the same block and pair; it is counted once.",
            "{n} records stand twice for the same block and pair; each is counted once.",
            dropped,
        ).format(n=dropped)
        return {name: values[keep] for name, values in columns.items()}, [("duplicates", note)]

    def _contradiction(self, columns: Columns, one: int, other: int) -> NoReturn:
        names, tasks = list(self._names), list(self._tasks)
        pair = (str(names[columns["first"][one]]), str(names[columns["second"][one]]))
        raise UsageError(
            _("{where}: records {one} and {other} contradict each other.").format(
                where=self.where, one=one + 1, other=other + 1
            ),
            evidence=_("Task {task}, run {run}, block {block}: {a} against {b} has two outcomes.").format(
                task=tasks[columns["task"][one]],
                run=columns["run"][one],
                block=columns["block"][one],
                a=pair[0],
                b=pair[1],
            ),
            fix=_("Keep the records of one source: score or judge."),
        )
