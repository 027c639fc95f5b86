"""The circumstances of a start, read from its files: models, concurrency, tokens by phase, outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from elometer.archive.manifest import Manifest
from elometer.archive.versions import git_state, versions
from elometer.core.clock import parse_timestamp, timestamp
from elometer.core.limits import Boundary
from elometer.core.natural import natural_key
from elometer.ledger.reader import Reading, blocks
from elometer.ledger.totals import totals
from elometer.runs import events as ev
from elometer.runs.folder import ExperimentFolder
from elometer.runs.journal import latest_outcomes
from elometer.runs.spec import Experiment

# A start's first and last word, and strangers; the many other events need not be decoded.
WANTED_EVENTS = tuple(b'{"event":"%b"' % tag for tag in (b"start_opened", b"start_ended", b"stranger"))


class Timed(Protocol):
    """What concurrency is counted from: when an attempt began, and how long it took."""

    timestamp: str | None
    latency_ms: float | None


class _Line(msgspec.Struct, gc=False):
    model: str | None = None
    model_requested: str | None = None
    run_id: str | None = None
    tool: str | None = None
    key_fp: str | None = None
    timestamp: str | None = None
    latency_ms: float | None = None
    status: str | None = None


@dataclass(slots=True)
class Start:
    """The last start of an experiment as its events tell it; `ended` is None where it died."""

    opened: ev.StartOpened | None = None
    ended: ev.StartEnded | None = None
    strangers: list[ev.Stranger] = field(default_factory=list)


def last_start(events: Path) -> Start:
    """The last start of the file, and the strangers of all starts."""
    start = Start()
    if not events.exists():
        return start
    for block in blocks(events):
        for line in block.lines:
            if not line.startswith(WANTED_EVENTS):
                continue
            try:
                event = ev.decode(line)
            except msgspec.DecodeError:
                continue
            if isinstance(event, ev.StartOpened):
                start.opened, start.ended = event, None
            elif isinstance(event, ev.StartEnded):
                start.ended = event
            elif isinstance(event, ev.Stranger):
                start.strangers.append(event)
    return start


def describe(
    experiment: Experiment, folder: ExperimentFolder, start: Start, *, no_fit_because: str = ""
) -> Manifest:
    """Everything that a manifest says apart from the files. Raises UsageError where there is no ledger."""
    assert start.opened is not None
    reading = Reading(folder.ledger, _Line)
    lines = list(reading)
    gateway = experiment.gateway
    outcomes = latest_outcomes(folder.outcomes)
    ended = start.ended
    return Manifest(
        experiment_id=experiment.experiment_id,
        run_id=start.opened.run_id,
        origin=start.opened.origin,
        status=ended.status if ended else "died",
        reason=ended.reason if ended else "",
        message=ended.message if ended else "",
        opened_at=start.opened.at,
        ended_at=ended.at if ended else None,
        packed_at=timestamp(),
        blocks={"planned": start.opened.blocks, "done": len({(task, run) for task, run, _ in outcomes})},
        outcomes=_count_outcomes((item.strategy, item.outcome) for item in outcomes.values()),
        totals=_phase_totals(folder.ledger),
        models=_models(lines),
        strangers=[
            {"requested": one.model_requested, "served": one.model_served, "call_id": one.call_id}
            for one in start.strangers
        ],
        peak_concurrency={
            "of_this_start": peak_in_flight(line for line in lines if line.run_id == start.opened.run_id),
            "limit": start.opened.max_concurrency,
        },
        gateway={
            "base_url": gateway.base_url or start.opened.gateway,
            "protocol": experiment.agent.protocol,
        },
        key={
            "label": gateway.key_label or start.opened.key_label,
            "fingerprints": sorted({line.key_fp for line in lines if line.key_fp}),
            "boundary": _boundary(gateway.boundary),
        },
        seeds={"experiment": experiment.seed, "calls": "token_ledger.jsonl: seed"},
        versions=versions({line.tool for line in lines if line.tool}),
        git=git_state(folder.path),
        damaged_lines={"token_ledger.jsonl": len(reading.bad)},
        no_fit_because=no_fit_because,
        forced=start.opened.forced,
        warned=start.opened.warned,
        sampling=asdict(experiment.sampling),
    )


def _boundary(boundary: Boundary) -> dict[str, Any]:
    values = asdict(boundary)
    if boundary.expires_at is not None:
        values["expires_at"] = boundary.expires_at.isoformat()
    return values


def _count_outcomes(outcomes: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    counted: dict[str, Counter[str]] = {}
    for strategy, outcome in outcomes:
        counted.setdefault(strategy, Counter())[outcome] += 1
    return {name: dict(sorted(counted[name].items())) for name in sorted(counted, key=natural_key)}


def _phase_totals(ledger: Path) -> dict[str, dict[str, Any]]:
    names = ("calls", "lines", "prompt_tokens", "completion_tokens", "total_tokens", "estimated_tokens")
    return {
        str(row.name): {name: getattr(row, name) for name in names}
        for row in totals([ledger], by="phase").rows
    }


def _models(lines: Iterable[_Line]) -> list[dict[str, Any]]:
    """How many attempts that asked for one model were served by which; failed attempts name no server."""
    pairs = Counter(
        (line.model_requested, line.model) for line in lines if line.status not in ("error", "cancelled")
    )
    ordered = sorted(pairs.items(), key=lambda item: (str(item[0][0]), str(item[0][1])))
    return [{"requested": asked, "served": served, "answers": n} for (asked, served), n in ordered]


def peak_in_flight(lines: Iterable[Timed]) -> int | None:
    """The most attempts that were on the wire at once, from their starts and latencies; None where unknown.

    Starts are written in whole milliseconds, so two attempts that met for less than two are not counted as
    meeting: the figure never lies above the truth.
    """
    moments: list[tuple[float, int]] = []
    for line in lines:
        if line.timestamp is None or line.latency_ms is None:
            continue
        try:
            start = parse_timestamp(line.timestamp).timestamp() * 1000
        except ValueError:
            continue
        moments.append((start, 1))
        moments.append((max(start + line.latency_ms - 1, start + 0.001), -1))
    if not moments:
        return None
    peak = now = 0
    for _moment, change in sorted(moments):
        now += change
        peak = max(peak, now)
    return peak
