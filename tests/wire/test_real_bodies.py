"""Replies that LiteLLM, llama.cpp and the demo gateway really sent: each in its class, with its wait."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from elometer.core.limits import Boundary
from elometer.gateway.demo.server import create_app, serve_in_thread
from elometer.wire.classes import ERROR_CLASSES
from elometer.wire.failures import Failure, classify

FOLDER = Path(__file__).parent.parent / "fixtures" / "bodies"
SERVERS = sorted(path.parent.name for path in FOLDER.glob("*/index.jsonl"))
ROWS = [
    (server, json.loads(line))
    for server in SERVERS
    for line in (FOLDER / server / "index.jsonl").read_text(encoding="utf-8").splitlines()
]
IDS = [f"{server}: {row['name']}" for server, row in ROWS]


def of(row: dict[str, Any]) -> Failure:
    return classify(row["status"], row["headers"], row["body"].encode())


@pytest.mark.parametrize(("server", "row"), ROWS, ids=IDS)
def test_a_real_body_is_in_its_class(server: str, row: dict[str, Any]) -> None:
    failure = of(row)
    assert failure.error_class == row["class"], failure.evidence
    assert ERROR_CLASSES[row["class"]].retry == row["retry"]
    assert failure.retry is (row["retry"] != "never")
    if "retry-after" in row["headers"]:
        assert failure.retry_after_s == float(row["headers"]["retry-after"])
    assert failure.message or row["class"] in ("wrong_path", "server_error"), server


@pytest.mark.parametrize("version", ["1.82.6", "1.108.5"])
def test_a_missing_place_waits_for_a_place(version: str) -> None:
    # `retry-after: 60` is the window's length; the place was free after three seconds.
    rows = [row for server, row in ROWS if server == f"litellm-{version}" and "one at once" in row["name"]]
    assert [of(row).wait for row in rows] == ["slot", "slot"]
    assert {row["headers"].get("retry-after") for row in rows} == {"60", None}


def test_both_versions_of_litellm_say_the_same_under_other_statuses() -> None:
    """Same boundary, same class; a status alone would have told them apart."""
    by_name: dict[str, dict[str, dict[str, Any]]] = {}
    for server, row in ROWS:
        if server.startswith("litellm-"):
            by_name.setdefault(row["name"], {})[server] = row
    # Only a blocked key is not named by the newer one.
    same = {name: rows for name, rows in by_name.items() if name != "blocked"}
    assert all(len(rows) == 2 and len({row["class"] for row in rows.values()}) == 1 for rows in same.values())
    moved = Counter(len({row["status"] for row in rows.values()}) for rows in same.values())
    assert moved[2] >= 6


def test_no_message_of_a_failure_is_longer_than_a_line_of_the_ledger_should_be() -> None:
    for _server, row in ROWS:
        assert len(of(row).message) <= 300
        assert "\n" not in of(row).message


DAY = timedelta(days=1)
KEY = "sk-planted-demo-bodies-01"
SPENT = "sk-planted-demo-bodies-02"
OLD = "sk-planted-demo-bodies-03"
NARROW = "sk-planted-demo-bodies-04"
DEMO_KEYS = {
    KEY: Boundary(),
    SPENT: Boundary(daily_budget_tokens=1),
    OLD: Boundary(expires_at=datetime.now(UTC) - DAY),
    NARROW: Boundary(allowed_models=("demo-agent-mini",)),
}
FINE = {"model": "demo-agent", "messages": [{"role": "user", "content": "What is 2 + 2?"}], "max_tokens": 20}


def refused(url: str, key: str, body: object) -> Failure:
    """Ask by the standard library until the gateway refuses, twice at most."""
    request = urllib.request.Request(
        url,
        data=json.dumps(body).encode(),
        headers={"authorization": f"Bearer {key}", "x-api-key": key, "content-type": "application/json"},
    )
    for _ in range(2):
        try:
            urllib.request.urlopen(request, timeout=10).read()
        except urllib.error.HTTPError as error:
            return classify(error.code, dict(error.headers), error.read())
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_the_demo_gateway_is_understood_as_real_ones_are(path: str) -> None:
    app = create_app(1, keys=DEMO_KEYS, latency=(0.0, 0.0), rate_429=0.0)
    with serve_in_thread(app) as root:
        found = {
            name: refused(root + where, key, body).error_class
            for name, where, key, body in (
                ("wrong key", path, "sk-nobody-000000", FINE),
                ("spent", path, SPENT, FINE),
                ("expired", path, OLD, FINE),
                ("model denied", path, NARROW, FINE),
                ("model unknown", path, KEY, {**FINE, "model": "nope"}),
                ("wrong path", f"/v1{path}", KEY, FINE),
                ("bad request", path, KEY, ["no object"]),
            )
        }
    assert found == {
        "wrong key": "bad_key",
        "spent": "quota",
        "expired": "key_expired",
        "model denied": "model_not_allowed",
        "model unknown": "model_unknown",
        "wrong path": "wrong_path",
        "bad request": "bad_request",
    }


def test_the_demo_gateway_busy_and_full() -> None:
    app = create_app(1, keys={KEY: Boundary()}, latency=(0.0, 0.0), rate_429=1.0)
    with serve_in_thread(app) as root:
        failure = refused(f"{root}/v1/chat/completions", KEY, FINE)
    assert (failure.error_class, failure.wait, failure.retry_after_s) == ("rpm_limit", "gate", 0.2)
