"""Ledgers with one planted fault each; expected counts are by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.checks.conftest import MODEL, World

from elometer.checks.context import ExperimentFacts
from elometer.checks.ledgers import scan
from elometer.core.attempt import Attempt

Experiment = Callable[..., ExperimentFacts]
FOUNDING = {
    "experiment_id": "exp", "strategy": "sample_1", "task": "t", "run": 1, "model": MODEL,
    "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "timestamp": "2026-11-29T10:00:00Z",
}  # fmt: skip


def line(number: int = 0, **changes: Any) -> dict[str, Any]:
    """A whole line of a call of its own, a second after the one before."""
    attempt = Attempt(
        **FOUNDING, call_id=f"c{number}", final=True, model_requested=MODEL, usage_source="server", usage_final=True,
        response_id=f"r{number}", http_status=200, key_fp="11111111",
    )  # fmt: skip
    whole = json.loads(msgspec.json.encode(attempt))
    return {**whole, "timestamp": f"2026-11-29T10:00:{number:02d}Z", **changes}


def write(world: World, *rows: dict[str, Any] | str) -> Path:
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    return world.write("bt-eval/exp/token_ledger.jsonl", text)


def complaints(world: World) -> set[str]:
    families = ("reconcile", "files", "limits")
    rows = world.ask().values()
    return {row.check.id for row in rows if row.check.family in families and row.status in ("warn", "fail")}


def test_a_whole_ledger_has_no_complaint(world: World, experiment: Experiment) -> None:
    experiment()
    write(world, *(line(n) for n in range(5)))
    assert complaints(world) == set()


def test_the_nine_founding_fields_are_enough(world: World, experiment: Experiment) -> None:
    experiment()
    write(world, FOUNDING, FOUNDING)
    assert complaints(world) == set()


FAULTS: list[tuple[str, list[dict[str, Any] | str], set[str]]] = [
    ("foreign model asked", [line(1, model_requested="other", model="other")], {"reconcile.strangers"}),
    ("foreign name answered", [line(1, model="agent-model-2026")], {"reconcile.strangers"}),
    ("foreign model, founding fields", [{**FOUNDING, "model": "other"}], {"reconcile.strangers"}),
    ("cache hit", [line(1, gateway_cache="hit")], {"reconcile.doubles"}),
    ("one id answers two calls", [line(1), line(2, response_id="r1")], {"reconcile.doubles"}),
    ("a final line twice", [line(1), line(1)], {"reconcile.doubles"}),
    ("many retries", [line(1, attempt=1, status="error", final=False, total_tokens=None, prompt_tokens=None,
                           completion_tokens=None), line(1, attempt=2)], {"reconcile.retries"}),
    ("cut stream", [line(1, usage_final=False, usage_source="estimated", status="error", final=False)],
     {"reconcile.cut"}),
    ("no usage", [line(1, prompt_tokens=None, completion_tokens=None, total_tokens=None, usage_source="none")],
     {"reconcile.usage"}),
    ("zero usage", [line(1, prompt_tokens=0, completion_tokens=0, total_tokens=0)], {"reconcile.usage"}),
    ("wrong total", [line(1, total_tokens=99)], {"reconcile.parts"}),
    ("more cached than prompt", [line(1, cached_tokens=11)], {"reconcile.parts"}),
    ("conflicting usage", [line(1, usage_flags=["usage_conflict"])], {"reconcile.parts"}),
    ("a line of the future", [line(1, timestamp="2026-11-29T13:00:00Z")], {"reconcile.clock"}),
    ("torn line", ['{"experiment_id": "exp", "str'], {"files.lines"}),
    ("another experiment", [line(1, experiment_id="exp-2")], {"files.one-experiment"}),
    ("another key", [line(1, key_fp="22222222")], {"files.one-key"}),
    ("a missing field", [{k: v for k, v in line(1).items() if k != "run"}], {"files.fields"}),
    ("out of order", [line(1, timestamp="2026-11-29T08:00:00Z")], {"files.order"}),
    ("no time", [line(1, timestamp="yesterday")], {"files.order"}),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_planted_fault_is_named_alone(
    world: World, experiment: Experiment, rows: list[dict[str, Any] | str], expected: set[str]
) -> None:
    experiment()
    write(world, line(0), *rows)
    assert complaints(world) == expected


def test_a_name_in_served_as_is_no_stranger(world: World, experiment: Experiment) -> None:
    experiment(served_as={MODEL: ("agent-model-2026",)})
    write(world, line(0), line(1, model="agent-model-2026"))
    assert complaints(world) == set()


def test_the_day_of_a_budget_begins_at_midnight_of_its_zone(world: World, experiment: Experiment) -> None:
    # Midnight of Tokyo (UTC+9) before noon UTC on the 29th is 15:00 UTC on the 28th.
    experiment(boundary={"daily_budget_tokens": 100}, timezone="Asia/Tokyo")
    write(
        world,
        line(0, timestamp="2026-11-28T14:59:00Z", prompt_tokens=900, total_tokens=905),
        line(1, timestamp="2026-11-28T15:00:00Z", prompt_tokens=40, total_tokens=45),
    )
    assert complaints(world) == set()
    write(
        world,
        line(1, timestamp="2026-11-28T15:00:00Z", prompt_tokens=75, total_tokens=80),
    )
    assert complaints(world) == {"limits.budget"}
    assert "80%" in world.one("limits.budget").result.cause


def test_spent_since_counts_from_the_minute_on(tmp_path: Path) -> None:
    path = tmp_path / "token_ledger.jsonl"
    rows = [{**FOUNDING, "timestamp": f"2026-11-29T10:0{n}:00Z"} for n in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert scan(path).spent_since(datetime(2026, 11, 29, 10, 1, tzinfo=UTC)) == 30
    assert scan(path).spent_since(datetime.fromisoformat("2026-11-29T11:01:00+01:00")) == 30


def test_a_line_being_written_is_no_damage(world: World, experiment: Experiment) -> None:
    experiment()
    path = write(world, line(0))
    with path.open("a") as file:
        file.write('{"experiment_id":')
    row = world.one("files.lines")
    assert row.status == "pass"
    assert any("no end yet" in text for text in row.result.evidence)


def test_other_files_that_end_inside_a_line_are_named(world: World, experiment: Experiment) -> None:
    experiment()
    write(world, line(0))
    world.write("bt-eval/exp/samples.jsonl", '{"call_id":"c0"}\n{"call')
    assert complaints(world) == {"files.tails"}


def test_a_readable_ledger_is_named(world: World, experiment: Experiment) -> None:
    experiment()
    write(world, line(0)).chmod(0o644)
    assert complaints(world) == {"files.private"}


def test_use_of_the_key_by_another_experiment_is_found_in_its_ledger(
    world: World, experiment: Experiment
) -> None:
    from tests.checks.conftest import KEY

    from elometer.profiles.secrets import fingerprint

    experiment()
    write(world, line(0, key_fp=fingerprint(KEY)))
    other = json.dumps(line(1, experiment_id="other", key_fp=fingerprint(KEY)))
    world.write("bt-eval/other/token_ledger.jsonl", other + "\n")
    row = world.one("key.alone")
    assert row.status == "warn"
    assert row.result.evidence == ("bt-eval: 1 calls in the ledger of other",)


def test_a_ledger_is_read_once(world: World, experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    from elometer.checks import ledgers

    reads: list[Path] = []
    monkeypatch.setattr(ledgers, "scan", lambda path: (reads.append(path), scan(path))[1])
    experiment()
    write(world, line(0))
    world.ask()
    assert len(reads) == 1
