"""Made-up starts for the tests of the screens: events, ledger and nothing that a real start would not write.

Run as a program it replays them at a chosen speed, so that screens can be looked at while they move:
`python tests/tui/tui_story.py FOLDER [--speed 1]`.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from elometer.core.attempt import Attempt
from elometer.core.clock import timestamp
from elometer.runs import events as ev

BEGIN = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
STRATEGIES = {"sample_1": 1, "sample_2": 2, "sample_4": 4, "sample_8": 8, "sample_16": 16}
SOLVED = {"sample_1": 0.45, "sample_2": 0.52, "sample_4": 0.6, "sample_8": 0.66, "sample_16": 0.68}


@dataclass(frozen=True)
class Moment:
    """A line and the seconds after the beginning at which it appears; `name` is the file."""

    at: float
    name: str
    line: bytes


def story(
    tasks: int = 12,
    runs: int = 2,
    seed: int = 1,
    *,
    end: bool = True,
    stranger: bool = False,
    begin: datetime = BEGIN,
) -> Iterator[Moment]:
    """All lines of a start, in order of time."""
    draw = random.Random(seed)
    now = 0.0

    def event(cls: type[ev.Event], **fields: object) -> Moment:
        made = cls(at=timestamp(begin + timedelta(seconds=now)), **fields)
        return Moment(now, "events.jsonl", ev.encode(made) + b"\n")

    blocks = tasks * runs
    yield event(
        ev.StartOpened, run_id="demo-20261129T120000Z", experiment_id="demo", origin="demo", pid=4711,
        host="box", gateway="http://127.0.0.1:4000", protocol="chat", model="make-believe-1",
        strategies=tuple(STRATEGIES), tasks=tasks, runs=runs, blocks=blocks, calls_per_block=STRATEGIES,
        max_concurrency=4, budget_tokens=200_000, spent_today=5_000, key_label="eval", key_fp="a1b2c3d4", seed=seed,
    )  # fmt: skip
    for block in range(blocks):
        task, run = f"task-{block % tasks + 1}", block // tasks + 1
        yield event(ev.BlockAdmitted, block=block, task=task, run=run)
        calls = [(strategy, at) for strategy, k in STRATEGIES.items() for at in range(k)]
        draw.shuffle(calls)
        for first in range(0, len(calls), 4):
            wave = [(f"{block}-{strategy}-{at}", strategy) for strategy, at in calls[first : first + 4]]
            for call_id, strategy in wave:
                yield event(ev.CallSent, call_id=call_id, strategy=strategy, block=block, attempt=1)
            for step in (1, 2):
                now += 0.12
                for call_id, strategy in wave:
                    yield event(
                        ev.CallProgress,
                        call_id=call_id,
                        strategy=strategy,
                        chunks=step * draw.randint(20, 40),
                    )
            if draw.random() < 0.04:
                call_id, strategy = wave[0]
                yield from attempt(event, draw, block, task, run, call_id, strategy, failed=True)
                yield event(
                    ev.CallWaiting,
                    call_id=call_id,
                    strategy=strategy,
                    seconds=0.2,
                    why="429 over concurrency",
                )
                yield event(
                    ev.GateChanged,
                    in_flight=3,
                    limit=3,
                    waiting=1,
                    closed_for_s=2.0,
                    why="429 over concurrency",
                )
                now += 0.2
                yield event(ev.GateChanged, in_flight=4, limit=4, waiting=0)
            now += 0.1
            for call_id, strategy in wave:
                yield from attempt(event, draw, block, task, run, call_id, strategy)
        if stranger and block == 1:
            yield event(
                ev.Stranger,
                call_id="1-sample_1-0",
                strategy="sample_1",
                model_requested="make-believe-1",
                model_served="someone-else-9",
            )
        scores = {name: float(draw.random() < chance) for name, chance in SOLVED.items()}
        outcomes = {name: "ok" if score else "wrong" for name, score in scores.items()}
        yield event(ev.BlockEnded, block=block, task=task, run=run, outcomes=outcomes, scores=scores)
    if end:
        yield event(ev.StartEnded, status="complete")


def attempt(event, draw, block, task, run, call_id, strategy, *, failed=False) -> Iterator[Moment]:
    prompt, completion = (None, None) if failed else (draw.randint(60, 90), draw.randint(80, 200))
    made = event(
        ev.AttemptEnded, call_id=call_id, strategy=strategy, attempt=1, final=not failed,
        status="error" if failed else "ok", model="make-believe-1", prompt_tokens=prompt,
        completion_tokens=completion, error_class="rate_limit" if failed else None,
        http_status=429 if failed else 200, latency_ms=draw.uniform(200, 500),
    )  # fmt: skip
    line = Attempt(
        experiment_id="demo", strategy=strategy, task=task, run=run, model="make-believe-1", prompt_tokens=prompt,
        completion_tokens=completion, total_tokens=None if failed else prompt + completion,
        timestamp=timestamp(BEGIN + timedelta(seconds=made.at)), run_id="demo-20261129T120000Z", call_id=call_id,
        final=not failed, block=block, origin="demo", status="error" if failed else "ok",
        http_status=429 if failed else 200, error_class="rate_limit" if failed else None,
        latency_ms=round(draw.uniform(200, 500), 1), usage_source="none" if failed else "server",
    )  # fmt: skip
    yield Moment(made.at, "token_ledger.jsonl", msgspec.json.encode(line) + b"\n")
    yield made


def write_story(folder: Path, moments: Iterator[Moment] | None = None, until: float | None = None) -> Path:
    """Write the lines up to a time into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for moment in moments or story():
        if until is not None and moment.at > until:
            break
        with (folder / moment.name).open("ab") as file:
            file.write(moment.line)
    return folder


def write_ledger(path: Path, lines: int) -> Path:
    """A ledger of many lines, quickly."""
    draw = random.Random(7)
    template = (
        '{{"experiment_id":"big","strategy":"{s}","task":"task-{t}","run":{r},"model":"make-believe-1",'
        '"prompt_tokens":{p},"completion_tokens":{c},"total_tokens":{n},"timestamp":"2026-11-29T12:00:00.000Z",'
        '"attempt":1,"status":"ok","latency_ms":321.5}}\n'
    )
    names = list(STRATEGIES)
    pool = []
    for at in range(1000):
        p, c = draw.randint(60, 90), draw.randint(80, 200)
        pool.append(template.format(s=names[at % 5], t=at % 40, r=at % 3, p=p, c=c, n=p + c))
    chunk = "".join(pool).encode()
    with path.open("wb") as file:
        for _ in range(lines // 1000):
            file.write(chunk)
    return path


def replay(folder: Path, speed: float, stop: threading.Event | None = None) -> None:
    """Write the story as it would have happened, `speed` times as fast, with today's times."""
    folder.mkdir(parents=True, exist_ok=True)
    stop = stop or threading.Event()
    begin = time.monotonic()
    for moment in story(tasks=40, begin=datetime.now(UTC)):
        if stop.wait(max(0.0, moment.at / speed - (time.monotonic() - begin))):
            return
        with (folder / moment.name).open("ab") as file:
            file.write(moment.line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--speed", type=float, default=1.0)
    given = parser.parse_args()
    replay(given.folder, given.speed)
