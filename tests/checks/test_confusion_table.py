"""Every error body that was captured or documented, named by one row of the live checks; -s prints the table.

The bodies are those of the tests of the wire (`tests/fixtures/wire/failures.jsonl`), each with its class; here
a server answers every request with one of them, and the checks must name what it means and nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from test_live_checks import refusing
from tests.checks.conftest import KEY, World

from elometer.checks.catalogue import LIVE
from elometer.checks.context import ExperimentFacts
from elometer.checks.engine import Row, ask_all

BODIES = Path(__file__).parents[1] / "fixtures" / "wire" / "failures.jsonl"
Experiment = Callable[..., ExperimentFacts]

# Class → the row that names it, and words of its cause.
NAMED: dict[str, tuple[str, str]] = {
    "bad_key": ("live.key", "does not accept this key"),
    "key_expired": ("live.key", "has expired"),
    "key_disabled": ("live.key", "disabled or blocked"),
    "key_scope": ("live.key", "lacks a permission"),
    "ip_not_allowed": ("live.key", "from this address"),
    "account_blocked": ("live.key", "account is blocked"),
    "quota": ("live.key", "used up"),
    "model_not_allowed": ("live.models", "may not use"),
    "model_unknown": ("live.models", "does not know"),
    "concurrency_limit": ("live.limits", "too many calls at once"),
    "rpm_limit": ("live.limits", "requests per minute"),
    "tpm_limit": ("live.limits", "tokens per minute"),
    "rate_limit": ("live.limits", "a rate limit of unknown kind"),
    "overloaded": ("live.limits", "the server is overloaded"),
    "wrong_path": ("live.path", "None of the usual paths"),
    "html_wrong_path": ("live.path", "None of the usual paths"),
    "bad_body": ("live.path", "None of the usual paths"),
    "html_edge_block": ("live.protocol", "an edge filter blocks this machine"),
    "html_upstream": ("live.protocol", "a proxy in front of the gateway failed"),
    "server_error": ("live.protocol", "the server failed"),
    "timeout_upstream": ("live.protocol", "took too long"),
    "upstream_key": ("live.protocol", "its operator"),
    "bad_request": ("live.protocol", "refused a parameter"),
    "context_too_long": ("live.protocol", "do not fit the model's context"),
    "content_filtered": ("live.protocol", "content filter"),
    "request_too_large": ("live.protocol", "too large for the server"),
    "request_over_tpm": ("live.protocol", "exceeds the tokens a minute"),
}


def cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in BODIES.read_text().splitlines()]


def asked(world: World, experiment: Experiment, case: dict[str, Any]) -> list[Row]:
    with refusing(case["status"], case["body"] or "", case["headers"]) as (url, _seen):
        experiment(base_url=url)
        return [row for row in ask_all(LIVE, world.context()) if row.status in ("warn", "fail")]


def test_every_class_of_the_bodies_has_its_row() -> None:
    assert {case["class"] for case in cases()} == set(NAMED)


def test_each_body_is_named_right_and_none_is_misnamed(world: World, experiment: Experiment) -> None:
    table: Counter[tuple[str, str]] = Counter()
    wrong = []
    for case in cases():
        rows = asked(world, experiment, case)
        named = ", ".join(row.check.id for row in rows) or "nothing"
        table[case["class"], named] += 1
        check, words = NAMED[case["class"]]
        if named != check or words not in rows[0].result.cause or not rows[0].result.fix:
            wrong.append((case["from"], case["class"], named, [row.result.cause for row in rows]))
        for row in rows:
            assert KEY not in " ".join((*row.result.evidence, row.result.cause, row.result.fix))
    print(f"\n{'class':<20}{'named by':<16}bodies")
    for (name, named), count in sorted(table.items()):
        print(f"{name:<20}{named:<16}{count}")
    assert wrong == []
    assert sum(table.values()) == len(cases()) > 100
