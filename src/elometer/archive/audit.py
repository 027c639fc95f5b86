"""Auditing an archive offline: digests, sums, pairs, fit, and strings that look like keys."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from elometer.archive.keylike import key_like_strings
from elometer.archive.manifest import MANIFEST, PACKED, REPORT, Manifest, entry_of, read_manifest
from elometer.core.errors import ElometerError
from elometer.core.text import gettext as _
from elometer.ledger.charged import token_sums
from elometer.ledger.reader import Reading
from elometer.ledger.totals import totals
from elometer.ledger.verify import verify
from elometer.runs.folder import ExperimentFolder

ELO_TOLERANCE = 0.01
SHARE_TOLERANCE = 1e-6
ELO_COLUMNS = ("elo", "delta_elo")
COUNT_COLUMNS = ("k", "tasks", "runs", "calls", "ties", "excluded", "delta_token")
SHARE_COLUMNS = ("win_rate_vs_anchor", "win_rate_round_robin")

Kind = Literal["manifest", "missing", "digest", "foreign", "sum", "ledger", "samples", "pairs", "fit", "key"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What does not hold: the file by its path in the archive, the line where there is one."""

    path: str
    kind: Kind
    message: str
    line: int | None = None


def audit(folder: Path) -> list[Finding]:
    """Every way in which an archive does not hold what it says; an empty list is a sound archive.

    Raises VerificationError where there is no manifest to audit against.
    """
    manifest = read_manifest(folder)
    found = [*_files(folder, manifest)]
    place = ExperimentFolder(folder)
    if place.ledger.is_file():
        found += _ledger(place, manifest)
        found += _sums(place, manifest)
        found += _samples(place)
        found += _derived(place)
    found += _keys(folder)
    return found


def _files(folder: Path, manifest: Manifest) -> Iterator[Finding]:
    for name, packed in manifest.files.items():
        path = folder / name
        if Path(name).name != name:
            yield Finding(name, "manifest", _("a file outside the archive"))
        elif path.is_symlink() or not path.is_file():
            yield Finding(name, "missing", _("listed in the manifest and not there as a file"))
        elif (now := entry_of(path)) != packed:
            yield Finding(
                name,
                "digest",
                _("{now} bytes in {lines} lines, packed were {then} in {then_lines}: sha256 differs").format(
                    now=now.bytes, lines=now.lines, then=packed.bytes, then_lines=packed.lines
                ),
            )
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name != MANIFEST and name not in manifest.files:
            yield Finding(name, "foreign", _("not listed in the manifest"))


def _ledger(place: ExperimentFolder, manifest: Manifest) -> Iterator[Finding]:
    name, torn = place.ledger.name, 0
    for damage in verify(place.ledger):
        if damage.kind in ("torn", "glued"):
            torn += 1
        else:
            yield Finding(name, "ledger", f"{damage.kind}: {damage.message}", damage.line)
    # A line that a kill tore was reported when it happened and is in no sum; more of them than were packed
    # would be damage to the archive.
    packed = manifest.damaged_lines.get(name, 0)
    if torn != packed:
        text = _("{now} damaged lines, packed were {then}")
        yield Finding(name, "ledger", text.format(now=torn, then=packed))


def _sums(place: ExperimentFolder, manifest: Manifest) -> Iterator[Finding]:
    booked = token_sums([place.ledger]).total
    for row in _table(place.table):
        said, sum_of_lines = row.get("total_tokens") or None, booked.get(row["strategy"])
        if said is not None and _number(said) != (sum_of_lines or 0):
            text = _("total_tokens of {name} is {said}, the ledger's lines sum to {sum}")
            yield Finding(
                place.table.name, "sum", text.format(name=row["strategy"], said=said, sum=sum_of_lines)
            )
    phases = {str(row.name): row.as_json() for row in totals([place.ledger], by="phase").rows}
    for name in sorted(phases.keys() | manifest.totals.keys()):
        now = phases.get(name, {})
        for column, then in manifest.totals.get(name, {"lines": None}).items():
            if now.get(column) != then:
                text = _("{column} of phase {name} is {said}, the ledger's lines sum to {sum}")
                words = text.format(column=column, name=name, said=then, sum=now.get(column))
                yield Finding(MANIFEST, "sum", words)


class _Call(msgspec.Struct, gc=False):
    call_id: str | None = None
    final: bool | None = None
    phase: str | None = None
    status: str | None = None


def _samples(place: ExperimentFolder) -> Iterator[Finding]:
    """Every answered call of the ledger has its text."""
    if not place.samples.is_file():
        return
    texts = {sample.call_id for sample in Reading(place.samples, _Call)}
    for call in Reading(place.ledger, _Call):
        answered = call.final and call.status not in ("error", "cancelled")
        if answered and call.phase in ("sample", "revise") and call.call_id not in texts:
            text = _("no text of call {call_id}, which the ledger has as final")
            yield Finding(place.samples.name, "samples", text.format(call_id=call.call_id))


def _derived(place: ExperimentFolder) -> Iterator[Finding]:
    """Pairs and fit, derived again from outcomes and ledger."""
    from elometer.runs.result import derive, table_csv
    from elometer.runs.spec import load_experiment

    try:
        again = derive(load_experiment(place.resolved), place)
    except (ElometerError, OSError) as error:
        text = _("pairs and fit cannot be derived again: {reason}")
        yield Finding(place.resolved.name, "fit", text.format(reason=_reason(error)))
        return
    yield from _pairs(place.records, again.records)
    if again.fit is None:
        if place.table.is_file():
            text = _("there is nothing to fit ({reason}), and yet a table")
            yield Finding(place.table.name, "fit", text.format(reason=again.reason))
        return
    fresh = list(csv.DictReader(table_csv(again).splitlines()))
    yield from _compare_tables(place.table, fresh)
    yield from _compare_fit(place.fit, fresh)


def _pairs(path: Path, records: list[Any]) -> Iterator[Finding]:
    try:
        packed = [msgspec.json.decode(line) for line in path.read_bytes().splitlines() if line.strip()]
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        yield Finding(path.name, "pairs", _("cannot be read: {reason}").format(reason=_reason(error)))
        return
    again = [msgspec.json.decode(msgspec.json.encode(record)) for record in records]
    if len(packed) != len(again):
        text = _("{packed} pairs, the outcomes give {again}")
        yield Finding(path.name, "pairs", text.format(packed=len(packed), again=len(again)))
        return
    for number, (one, other) in enumerate(zip(packed, again, strict=True), 1):
        if one != other:
            yield Finding(path.name, "pairs", _("not the pair that the outcomes give"), number)


def _compare_tables(path: Path, fresh: list[dict[str, str]]) -> Iterator[Finding]:
    packed = _table(path)
    if [row["strategy"] for row in packed] != [row["strategy"] for row in fresh]:
        yield Finding(path.name, "fit", _("not the strategies that the fit gives"))
        return
    for said, found in zip(packed, fresh, strict=True):
        for columns, tolerance in (
            (ELO_COLUMNS, ELO_TOLERANCE),
            (COUNT_COLUMNS, 0.0),
            (SHARE_COLUMNS, SHARE_TOLERANCE),
        ):
            for column in columns:
                if not _close(said.get(column), found.get(column), tolerance):
                    yield Finding(path.name, "fit", _difference(said, found, column))
        if not _relatively_close(said.get("marginal_elo_per_1k"), found.get("marginal_elo_per_1k")):
            yield Finding(path.name, "fit", _difference(said, found, "marginal_elo_per_1k"))


def _compare_fit(path: Path, fresh: list[dict[str, str]]) -> Iterator[Finding]:
    try:
        rows = {row["strategy"]: row for row in json.loads(path.read_bytes())["strategies"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield Finding(path.name, "fit", _("cannot be read: {reason}").format(reason=_reason(error)))
        return
    for found in fresh:
        if found["role"] == "ceiling":
            continue  # it has no Elo
        said = rows.get(found["strategy"], {})
        if not _close(said.get("elo"), found.get("elo"), ELO_TOLERANCE):
            yield Finding(path.name, "fit", _difference(said, found, "elo"))


def _difference(said: dict[str, Any], found: dict[str, Any], column: str) -> str:
    text = _("{column} of {name} is {said}, the fit gives {found}")
    return text.format(column=column, name=found["strategy"], said=said.get(column), found=found.get(column))


def _reason(error: Exception) -> str:
    """What went wrong, without a path: files are named as the archive has them."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _table(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        return [row for row in csv.DictReader(file) if row.get("strategy")]


def _number(text: Any) -> float | None:
    if text is None or text == "":
        return None
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def _close(said: Any, found: Any, tolerance: float) -> bool:
    one, other = _number(said), _number(found)
    if one is None or other is None:
        return one is other
    return abs(one - other) <= tolerance


def _relatively_close(said: Any, found: Any) -> bool:
    one, other = _number(said), _number(found)
    if one is None or other is None:
        return one is other
    return abs(one - other) <= 1e-3 * max(abs(one), abs(other)) + 1e-9


def _keys(folder: Path) -> Iterator[Finding]:
    for name in (*PACKED, REPORT, MANIFEST):
        path = folder / name
        if path.is_file():
            for found in key_like_strings(path):
                text = _("looks like a key: {mask}")
                yield Finding(name, "key", text.format(mask=found.mask), found.line)
