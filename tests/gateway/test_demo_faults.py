"""Planted faults: each is really there for a client that takes the row over."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import httpx
import pytest
from demo_client import KEY, MODEL, PATHS, ask, body, headers

from elometer.core.errors import UsageError
from elometer.core.limits import Boundary
from elometer.gateway.demo.faults import FAULTS, RETIRED_KEY, planted
from elometer.gateway.demo.server import create_app, serve_in_thread
from elometer.gateway.demo.tasks import short_tasks

PROMPT = short_tasks(0, 1)[0].prompt
NINE = {
    "two-auth-variables",
    "doubled-v1",
    "missing-v1",
    "model-out-of-scope",
    "429-storm",
    "small-fast-leak",
    "cached-replies",
    "stale-shell-variable",
    "quota-as-401",
}


def ask_with(row: str, protocol: str = "chat") -> httpx.Response:
    """One call of a client that took over what a fault plants."""
    app = create_app(
        0, keys={KEY: Boundary(allowed_models=(MODEL,))}, latency=(0, 0), rate_429=0, faults=[row]
    )
    with serve_in_thread(app) as url:
        plant = planted(FAULTS[row], url)
        environment = plant["environment"]
        assert isinstance(environment, dict)
        key = environment.get("ELOMETER_DEMO_KEY", KEY).replace("{key}", KEY)
        base = str(environment.get("OPENAI_BASE_URL", f"{plant['base_url']}/v1"))
        path = PATHS[protocol].removeprefix("/v1")
        auth = headers(protocol, key=key)
        if protocol == "messages" and "ANTHROPIC_AUTH_TOKEN" in environment:
            # Claude Code sends both variables when both are set.
            auth = {
                "authorization": "Bearer " + environment["ANTHROPIC_AUTH_TOKEN"].replace("{key}", KEY),
                "x-api-key": environment["ANTHROPIC_API_KEY"],
            }
        model = environment.get("ANTHROPIC_DEFAULT_HAIKU_MODEL", plant["model"])
        return httpx.post(base + path, json=body(protocol, PROMPT, model=model), headers=auth)


def test_there_are_nine() -> None:
    assert set(FAULTS) == NINE


@pytest.mark.parametrize(
    ("row", "protocol", "status", "word"),
    [
        ("two-auth-variables", "messages", 401, "invalid x-api-key"),
        ("doubled-v1", "chat", 404, "Invalid URL (POST /v1/v1/chat/completions)"),
        ("missing-v1", "chat", 404, "Invalid URL (POST /chat/completions)"),
        ("model-out-of-scope", "chat", 403, "does not have access to model"),
        ("small-fast-leak", "messages", 403, "does not have access to model"),
        ("stale-shell-variable", "chat", 401, "Incorrect API key"),
        ("quota-as-401", "chat", 401, "额度已用尽"),
    ],
)
def test_a_fault_shows_as_it_does_in_the_field(row: str, protocol: str, status: int, word: str) -> None:
    reply = ask_with(row, protocol)
    assert reply.status_code == status
    assert word in reply.json()["error"]["message"]


def test_a_storm_refuses_most_attempts_and_lets_each_call_through_in_the_end() -> None:
    app = create_app(0, keys={KEY: Boundary()}, latency=(0, 0), faults=["429-storm"])
    with serve_in_thread(app) as url, httpx.Client(base_url=url) as client:
        for seed in range(30):
            named = headers("chat", seed=seed)
            while client.post(PATHS["chat"], json=body("chat", PROMPT), headers=named).status_code != 200:
                pass
        statuses = client.get("/demo/counters").json()["statuses"]
    assert statuses["200"] == 30
    assert 20 <= statuses["429"] <= 90


def test_a_cache_answers_k_samples_with_one() -> None:
    app = create_app(0, keys={KEY: Boundary()}, latency=(0, 0), rate_429=0, faults=["cached-replies"])
    with serve_in_thread(app) as url, httpx.Client(base_url=url) as client:
        said = [ask(client, "chat", PROMPT, seed=seed, stream=seed % 2 == 0) for seed in range(6)]
        assert len({(one.text, one.id, one.completion) for one in said}) == 1
        other = ask(client, "chat", short_tasks(0, 2)[1].prompt, seed=0)
    assert other.id != said[0].id


def test_no_row_holds_a_key_and_unknown_names_are_refused() -> None:
    for row in FAULTS.values():
        for value in row.environment.values():
            assert KEY not in value
    assert RETIRED_KEY not in (KEY, MODEL)
    with pytest.raises(UsageError) as caught:
        create_app(0, keys={}, faults=["doubled-v2"])
    assert "doubled-v1" in caught.value.fix


def test_the_process_says_what_is_planted() -> None:
    command = [sys.executable, "-m", "elometer", "gateway", "demo", "--break", "stale-shell-variable"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "ELOMETER_DEMO_KEY": KEY})
    assert process.stdout is not None
    line = json.loads(process.stdout.readline())
    process.terminate()
    process.communicate()
    assert line["planted"] == [
        {
            "fault": "stale-shell-variable",
            "base_url": line["url"],
            "model": MODEL,
            "environment": {"ELOMETER_DEMO_KEY": RETIRED_KEY},
        }
    ]
