"""The llmock package judges clients by what they did to it; ours must leave it nothing to say.

Its errors: Retry-After ignored, a hopeless error retried, a storm of retries, half a stream taken for a whole
one. Its warnings: no backoff, gave up without a retry, sat through a stall, skipped a broken chunk.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.real_gateways.one_try import PATIENT, call_of, send
from tests.e2e.real_gateways.servers import ask, free_port, program, running
from tests.e2e.workspace import Workspace

pytestmark = pytest.mark.real_gateways

KEY = "sk-planted-llmock-3d1f0c"
# What the judge says of full jitter by chance: two waits drawn such that the second is not the longer one.
BY_CHANCE = {"no_backoff"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    # Paced: a whole stream in one packet would be sent before the judge could see that we stopped reading.
    paced = ["--stream-chunk-delay-ms", "20"]
    command = [program("ELOMETER_LLMOCK"), "serve", "--host", "127.0.0.1", "--port", str(port), *paced]
    folder = tmp_path_factory.mktemp("llmock")
    with running(command, port, ready="/_llmock/verdict", folder=folder) as root:
        yield root


@pytest.fixture
def llmock(server: str) -> str:
    """The server without memory of earlier tests."""
    ask(f"{server}/_llmock/reset", {})
    return server


def fail(status: int, *, times: int = 1, **more: Any) -> dict[str, Any]:
    return {"type": "fail", "status": status, "times": times, **more}


def break_stream(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": 2, **more}


# name, what llmock does to the call, the classes of the attempts that we book (None: it was answered)
SCENARIOS: tuple[tuple[str, list[dict[str, Any]], list[str | None]], ...] = (
    (
        "rate limits with a word on when",
        [fail(429, retry_after=1, times=2)],
        ["rate_limit", "rate_limit", None],
    ),
    ("a rate limit without one", [fail(429)], ["rate_limit", None]),
    ("server errors", [fail(500, times=2)], ["server_error", "server_error", None]),
    ("bad gateway, then unavailable", [fail(502), fail(503)], ["server_error", "overloaded", None]),
    ("overloaded", [fail(529)], ["overloaded", None]),
    ("a stream that ends early", [break_stream("truncate", times=2)], ["stream_truncated"] * 2 + [None]),
    ("a stream that is cut", [break_stream("disconnect")], ["net_reset", None]),
    ("a stream that stalls", [break_stream("stall", stall_seconds=8.0)], ["net_timeout_read", None]),
    ("a broken chunk", [break_stream("malformed")], ["bad_body", None]),
    ("a wrong key", [fail(401)], ["bad_key"]),
    ("a refused parameter", [fail(400)], ["bad_request"]),
    ("no permission", [fail(403)], ["key_scope"]),
)


@pytest.mark.parametrize(
    ("faults", "classes"), [row[1:] for row in SCENARIOS], ids=[row[0] for row in SCENARIOS]
)
async def test_the_client_is_judged_well(
    llmock: str, faults: list[dict[str, Any]], classes: list[str | None]
) -> None:
    await asyncio.to_thread(ask, f"{llmock}/_llmock/scenario", {"behaviors": faults})
    told = await send(llmock, call_of("What is 6*7?", model="gpt-4o"), key=KEY, retry=PATIENT, read_s=1.0)
    assert told.classes == classes, [attempt.error_message for attempt, _text in told.attempts]
    verdict = await asyncio.to_thread(ask, f"{llmock}/_llmock/verdict")
    assert verdict["findings"] == []
    assert verdict["attempts"] == len(classes)
    assert (await asyncio.to_thread(ask, f"{llmock}/_llmock/scenario"))["pending"] == []


@pytest.mark.parametrize("protocol", ["messages", "responses"])
async def test_half_a_stream_is_no_answer_over_the_other_protocols(llmock: str, protocol: str) -> None:
    faults = [break_stream("truncate"), break_stream("disconnect"), fail(429, retry_after=1)]
    await asyncio.to_thread(ask, f"{llmock}/_llmock/scenario", {"behaviors": faults})
    root = f"{llmock}/anthropic" if protocol == "messages" else llmock
    call = call_of("What is 6*7?", model="claude-x", protocol=protocol)
    told = await send(root, call, key=KEY, retry=PATIENT, read_s=2.0)
    assert sorted(filter(None, told.classes)) == ["net_reset", "rate_limit", "stream_truncated"]
    assert told.last.status == "ok"
    verdict = await asyncio.to_thread(ask, f"{llmock}/_llmock/verdict")
    assert verdict["findings"] == []


def experiment_against(place: Workspace, root: str) -> Path:
    """Ten tasks, two strategies, thirty calls."""
    folder = place.experiments / "llmock"
    folder.mkdir(parents=True)
    spec = {
        "experiment_id": "llmock",
        "gateway": {
            "base_url": root,
            "key_env": "LLMOCK_KEY",
            "key_boundary": {"allowed_models": ["gpt-4o"], "max_concurrency": 4},
        },
        "agent": {
            "kind": "http",
            "model": "gpt-4o",
            "params": {"max_tokens": 32},
            "limits": {"seconds": 5},
            "strategies": ["sample_1", "sample_2"],
        },
        "retry": {"infra": 4, "backoff": [0.3, 5.0]},
        "sampling": {"runs": 1},
        "eval": {"tasks_file": "tasks.jsonl"},
    }
    (folder / "experiment.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    rows = [
        {
            "id": f"t{number}",
            "prompt": f"What is {number} plus 1?",
            "answer": "2",
            "grader": "contains",
            "extract": "(.+)",
        }
        for number in range(10)
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_whole_start_is_judged_well(llmock: str, place: Workspace) -> None:
    faults = [
        fail(429, retry_after=1, times=3),
        fail(500, times=2),
        fail(503, retry_after=1),
        fail(502),
        fail(529),
        break_stream("truncate", times=2),
        break_stream("disconnect", times=2),
        break_stream("malformed"),
        break_stream("stall", stall_seconds=9.0),
    ]
    ask(f"{llmock}/_llmock/scenario", {"behaviors": faults})
    folder = experiment_against(place, llmock)
    done = place.run("run", folder, "--plain", LLMOCK_KEY=KEY)
    assert done.returncode == 0, done.stderr
    verdict = ask(f"{llmock}/_llmock/verdict")
    assert verdict["errors"] == 0, verdict["findings"]
    assert {finding["code"] for finding in verdict["findings"]} <= BY_CHANCE
    # Beside the 30 calls one look, after the first cut stream, for a tokenize endpoint that it has not.
    assert (verdict["calls"], verdict["faults_injected"]) == (30 + 1, 14)
    lines = [json.loads(line) for line in (folder / "token_ledger.jsonl").read_text().splitlines()]
    assert len(lines) + 1 == verdict["attempts"] == 44 + 1
    assert sum(line["final"] for line in lines) == 30


def test_a_start_with_a_wrong_key_asks_once(llmock: str, place: Workspace) -> None:
    ask(f"{llmock}/_llmock/scenario", {"behaviors": [fail(401, times=100)]})
    done = place.run("run", experiment_against(place, llmock), "--plain", LLMOCK_KEY=KEY)
    assert done.returncode == 3, done.stderr
    verdict = ask(f"{llmock}/_llmock/verdict")
    assert verdict["findings"] == []
    # What was on the wire when the first refusal came back, and nothing after it.
    assert verdict["attempts"] <= 4
