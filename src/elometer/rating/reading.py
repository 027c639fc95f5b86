"""From lines to counts: columns of small integers, a million lines in the time of decoding them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, NoReturn

import msgspec
import numpy as np
import numpy.typing as npt

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.core.text import ngettext
from elometer.rating.marks import (
    MARKS,
    SHARED_MEASURED,
    as_number,
    has_marks,
    marked_columns,
    possible_shares,
    with_all_marks,
)
from elometer.rating.records import (
    FIRST,
    NO_BLOCK,
    SECOND,
    TIE,
    PairRecord,
    RecordSet,
    natural_order,
    require_two_strategies,
    sums,
)

FIRST_BYTES = 256  # enough to see what kind of lines follow; the wrong guess costs time only
MISSING = 0  # the code of a name that is absent
DERIVED, UNKNOWN = 3, 9  # outcome absent, outcome that is no outcome
LARGEST_WEIGHT = 1e12
LARGEST_KEY = 2**62


class Line(msgspec.Struct, gc=False):
    """What a fit reads of a record; everything else on the line is left alone.

    The fields from `run_a` on tell of which runs the answers are, what they share, or how redraws from a pool
    went. Decoding what most lines lack costs less than looking for it in the bytes.
    """

    experiment_id: str | None = None
    task: str | None = None
    run: int = 1
    winner: str | None = None
    loser: str | None = None
    a: str | None = None
    b: str | None = None
    outcome: str | None = None
    weight: float = 1.0
    block: int | None = None
    # Of any kind, since strangers' fields may be called so.
    run_a: Any = None
    run_b: Any = None
    shared: Any = None
    share_a: Any = None
    share_b: Any = None
    score_a: Any = None
    score_b: Any = None


class Codes(dict[Any, int]):
    """Numbers names in the order in which they come; looked up in C, filled here."""

    def __missing__(self, key: Any) -> int:
        self[key] = code = len(self)
        return code


class _OutcomeCodes(dict[Any, int]):
    def __missing__(self, key: Any) -> int:
        return UNKNOWN


_decode_objects = msgspec.json.Decoder(Line).decode_lines
_decode_arrays = msgspec.json.Decoder(tuple[str, str]).decode_lines
_decode_object = msgspec.json.Decoder(Line).decode
_decode_array = msgspec.json.Decoder(tuple[str, str]).decode
Columns = dict[str, npt.NDArray[Any]]


class RecordReader:
    """Collects records, chunk by chunk, and makes a `RecordSet` of them.

    `finish` may be called again after more records were added: a live fit adds what is new.
    """

    def __init__(self, where: str = "") -> None:
        self.where = where or _("these records")
        self._names = Codes({None: MISSING})
        self._tasks = Codes({None: 0})
        self._experiments = Codes({None: 0})
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
        rows = self._decode(data, first_line)

        def name(index: int) -> str:
            return _("line {n}").format(n=first_line + _line_of_row(data, index))

        self._add(rows, name)

    def add_csv(self, text: str) -> None:
        """Add a CSV of (winner, loser), or one whose header names fields of a record."""
        table = csv.reader(io.StringIO(text, newline=""))
        numbered = [(table.line_num, row) for row in table if any(cell.strip() for cell in row)]
        header = [cell.strip().lower() for cell in numbered[0][1]] if numbered else []
        named = {"winner", "loser"} <= set(header) or {"a", "b", "outcome"} <= set(header)
        rows = [self._csv_line(row, number, header if named else None) for number, row in numbered[named:]]
        self._add(rows, lambda index: _("line {n}").format(n=numbered[index + named][0]))

    def _csv_line(self, row: Sequence[str], number: int, header: Sequence[str] | None) -> Line:
        expected = len(header) if header else 2
        if len(row) != expected:
            self._refuse(
                _("line {n}").format(n=number),
                _("{found} columns where {expected} are expected").format(found=len(row), expected=expected),
            )
        if header is None:
            return Line(winner=row[0].strip(), loser=row[1].strip())
        fields: dict[str, Any] = {
            name: as_number(cell) if name in MARKS else cell.strip()
            for name, cell in zip(header, row, strict=True)
            if cell.strip()
        }
        try:
            return msgspec.convert(fields, Line, strict=False)
        except msgspec.ValidationError as error:
            self._refuse(_("line {n}").format(n=number), str(error))

    def _decode(self, data: bytes, first_line: int) -> list[Any]:
        try:
            if data[:FIRST_BYTES].lstrip()[:1] == b"[":
                return _pairs_as_lines(_decode_arrays(data))
            return _decode_objects(data)
        except msgspec.MsgspecError:
            return self._decode_each(data, first_line)

    def _decode_each(self, data: bytes, first_line: int) -> list[Any]:
        rows: list[Any] = []
        for number, text in enumerate(data.split(b"\n"), first_line + 1):
            text = text.strip()
            if not text:
                continue
            try:
                if text[:1] == b"[":
                    rows.extend(_pairs_as_lines([_decode_array(text)]))
                else:
                    rows.append(_decode_object(text))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                self._refuse(_("line {n}").format(n=number), str(error))
        return rows

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
        faults = _faults(a, b, winner, loser, outcome, weight, bare, self._names.get("", -1))
        self._raise_first(faults, rows, name)
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
        self, faults: list[tuple[npt.NDArray[np.bool_], str]], rows: Sequence[Any], name: Callable[[int], str]
    ) -> None:
        found = [(int(mask.argmax()), order, text) for order, (mask, text) in enumerate(faults) if mask.any()]
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
            fix=_('Expected {"winner","loser"}, [winner, loser], or a, b and an outcome: a, b or tie.'),
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
        if len(self._experiments) > 2:
            names = ", ".join(str(name) for name in self._experiments if name is not None)
            notes.append(
                (
                    "several_experiments",
                    _("The records come from several experiments: {names}.").format(names=names),
                )
            )
        return self._record_set(columns, tuple(notes))

    def _without_duplicates(self, columns: Columns) -> tuple[Columns, list[tuple[str, str]]]:
        """Records that carry a block ."""
        known = np.flatnonzero(columns["block"] != NO_BLOCK)
        swapped = columns["first"] > columns["second"]
        low = np.where(swapped, columns["second"], columns["first"])[known]
        high = np.where(swapped, columns["first"], columns["second"])[known]
        result = np.where(
            columns["outcome"] == TIE, TIE, np.where(swapped, 1 - columns["outcome"], columns["outcome"])
        )[known]
        keys = [columns[part][known] for part in ("experiment", "task", "run", "run_b") if part in columns]
        identity, same = _neighbours([*keys, columns["block"][known], low, high])
        if not same.any():
            return columns, []
        differs = same & (result[identity][1:] != result[identity][:-1])
        if differs.any():
            at = int(differs.argmax())
            self._contradiction(columns, int(known[identity[at]]), int(known[identity[at + 1]]))
        keep = np.ones(len(columns["block"]), dtype=bool)
        keep[known[identity[1:][same]]] = False
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
                where=self.where, one=min(one, other) + 1, other=max(one, other) + 1
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

    def _record_set(self, columns: Columns, notes: tuple[tuple[str, str], ...]) -> RecordSet:
        names, tasks = list(self._names), ["" if task is None else task for task in self._tasks]
        used = np.unique(np.concatenate([columns["first"], columns["second"]]))
        strategies = natural_order(names[code] for code in used.tolist())
        require_two_strategies(strategies, self.where)
        used_tasks = np.unique(columns["task"])
        task_names = natural_order({tasks[code] for code in used_tasks.tolist()})
        strategy_place = places(names, strategies)
        task_place = places(tasks, task_names)
        task = task_place[columns["task"]]
        both_runs = np.concatenate([columns["run"], columns.get("run_b", columns["run"][:0])])
        both_tasks = np.concatenate([task, task]) if "run_b" in columns else task
        runs, run = _distinct(both_runs)
        blocks, blocks_of = _distinct(both_tasks * len(runs) + run)
        block_of, other_block = blocks_of[: len(task)], blocks_of[len(task) :]
        first, second = strategy_place[columns["first"]], strategy_place[columns["second"]]
        count = len(strategies)
        keys = (block_of * count + first) * count + second
        cells, place = _distinct(keys)
        size = len(cells)
        outcome, weight = columns["outcome"], columns["weight"]

        def won(share: str, code: int) -> npt.NDArray[np.float64]:
            if share in columns:
                return sums(place, weight * columns[share], size)
            mask = outcome == code
            return sums(place[mask], weight[mask], size)

        across = None
        tied: npt.NDArray[Any] = np.bincount(place[outcome == TIE], minlength=size)
        if "run_b" in columns and (other_block != block_of).any():
            keys = np.union1d(block_of * count + first, other_block * count + second)
            across = np.stack([keys // count, keys % count], axis=1)
        if "tied" in columns:
            tied = sums(place, columns["tied"], size)
        shared = columns.get("shared", outcome[:0])
        experiments = [name for name in self._experiments if name is not None]
        return RecordSet(
            experiment_id=experiments[0] if experiments else None,
            strategies=strategies,
            tasks=task_names,
            block_task=blocks // len(runs),
            block_run=runs[blocks % len(runs)],
            block_order=_block_order(block_of, columns["block"], len(blocks)),
            cell_block=cells // (count * count),
            first=cells // count % count,
            second=cells % count,
            first_wins=won("share_a", FIRST),
            second_wins=won("share_b", SECOND),
            ties=won("tied", TIE),
            records=np.bincount(place, minlength=size),
            tied_records=tied,
            notes=notes,
            across_runs=across,
            shared=int((shared != 0).sum()),
            shared_measured=int((shared == SHARED_MEASURED).sum()),
            ordered=not self._any_bare,
        )


def _distinct(keys: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distinct keys in order, and the place of each key among them; files in order need no sorting."""
    step = np.diff(keys)
    if not len(keys) or (step < 0).any():
        distinct, place = np.unique(keys, return_inverse=True)
        return distinct, place
    place = np.zeros(len(keys), dtype=np.int64)
    np.cumsum(step > 0, out=place[1:])
    return keys[np.append(True, step > 0)], place


def _neighbours(keys: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """An order in which equal keys stand together, as they came, and where one equals the one before it."""
    if not len(keys[0]):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    whole, room = np.zeros(len(keys[0]), dtype=np.int64), 1
    for key in keys:
        least = int(key.min())
        width = int(key.max()) - least + 1
        room *= width
        if room > LARGEST_KEY:
            break
        whole *= width
        whole += key
        whole -= least
    else:
        # One number tells all, and a file in order needs no sorting at all.
        step = np.diff(whole)
        if (step > 0).all():
            return np.arange(len(whole)), np.zeros(len(step), dtype=bool)
        order = np.argsort(whole, kind="stable")
        return order, np.diff(whole[order]) == 0
    order = np.lexsort(tuple(reversed(keys)))
    same = np.ones(len(order) - 1, dtype=bool)
    for key in keys:
        same &= key[order][1:] == key[order][:-1]
    return order, same


def places(names: Sequence[str | None], ordered: Sequence[str]) -> npt.NDArray[np.int64]:
    place = {name: index for index, name in enumerate(ordered)}
    return np.array([place.get(name, 0) if name is not None else 0 for name in names], dtype=np.int64)


def _block_order(
    block_of: npt.NDArray[np.int64], number: npt.NDArray[np.int64], size: int
) -> npt.NDArray[np.int64]:
    """The place of each block in time: its number, or where it first stands in the file."""
    seen = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(seen, block_of, number if (number != NO_BLOCK).all() else np.arange(len(block_of)))
    return np.argsort(np.argsort(seen, kind="stable"), kind="stable")


def _pairs_as_lines(pairs: Iterable[tuple[str, str]]) -> list[Line]:
    return [Line(winner=winner, loser=loser) for winner, loser in pairs]


def _line_of_row(data: bytes, index: int) -> int:
    """The number, from 1, of the line that holds the row `index` (from 0); blank lines hold none."""
    held = -1
    for number, text in enumerate(data.split(b"\n"), 1):
        held += bool(text.strip())
        if held == index:
            return number
    return index + 1


def _faults(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    winner: npt.NDArray[Any],
    loser: npt.NDArray[Any],
    outcome: npt.NDArray[Any],
    weight: npt.NDArray[np.float64],
    bare: npt.NDArray[np.bool_],
    empty: int,
) -> list[tuple[npt.NDArray[np.bool_], str]]:
    """Masks of the rows that break a rule, with the sentence that says which."""
    first, second = np.where(bare, winner, a), np.where(bare, loser, b)
    absent = (first == MISSING) | (second == MISSING)
    unnamed = (winner == MISSING) & (loser == MISSING)
    says_first = unnamed | ((winner == first) & (loser == second))
    says_second = unnamed | ((winner == second) & (loser == first))
    told = outcome != UNKNOWN
    agrees = np.select(
        [outcome == FIRST, outcome == SECOND, outcome == TIE],
        [says_first, says_second & ~bare, unnamed],
        (winner == first) & (loser == second) | (winner == second) & (loser == first),
    )
    return [
        (~told, _('"{outcome}" is no outcome; the outcomes are a, b and tie')),
        (absent & ~bare, _("a and b must both name a strategy")),
        (absent & bare, _("winner and loser must both name a strategy")),
        ((first == empty) | (second == empty), _("a strategy has an empty name")),
        (~absent & (first == second), _("a strategy is compared with itself")),
        (
            ~absent & ~agrees & (outcome == DERIVED) & unnamed,
            _("neither an outcome nor a winner is given"),
        ),
        (
            ~absent & told & ~agrees,
            _("outcome {outcome}, winner {winner}, loser {loser}, a {a}, b {b} contradict each other"),
        ),
        (
            ~(np.isfinite(weight) & (weight >= 0) & (weight <= LARGEST_WEIGHT)),
            _("the weight must be a finite number that is not negative"),
        ),
    ]
