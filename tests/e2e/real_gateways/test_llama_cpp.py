"""A start that is interrupted in mid-stream, against llama.cpp's own counters.

/metrics counts every token that the model took in or gave, whether anybody waited for it or not. What was
answered must be in our ledger to the token; what was cancelled is an estimate there, and says so.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.real_gateways.bodies import ask_plainly, record
from tests.e2e.real_gateways.servers import program
from tests.e2e.workspace import Workspace

from elometer.wire.classes import ERROR_CLASSES
from elometer.wire.failures import classify

pytestmark = pytest.mark.real_gateways

SERVE = Path(__file__).parents[1] / "real_model" / "serve.py"
KEY_VARIABLE = "REAL_MODEL_KEY"
VERSION = "2026.10.11549"
MODEL = "smollm2-135m"
SLOTS = 4


@dataclass(frozen=True)
class Server:
    """A running server and the key that it wants."""

    root: str
    key: str

    def counters(self) -> dict[str, int]:
        """The counters of /metrics, once nothing is being worked on."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            found = self._read()
            if not found["requests_processing"] and not found["requests_deferred"]:
                return found
            time.sleep(0.1)
        raise AssertionError("the server does not come to rest")

    def _read(self) -> dict[str, int]:
        request = urllib.request.Request(
            self.root + "/metrics", headers={"Authorization": f"Bearer {self.key}"}
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        pairs = (line.split() for line in lines if line and not line.startswith("#"))
        return {name.removeprefix("llamacpp:"): int(float(value)) for name, value in pairs}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    python = program("ELOMETER_REAL_MODEL_PYTHON")
    key = "sk-local-" + secrets.token_hex(16)
    arguments = [
        python,
        SERVE,
        "--port",
        "0",
        "--slots",
        str(SLOTS),
        "--key-env",
        KEY_VARIABLE,
        "--seconds",
        "600",
    ]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=os.environ | {KEY_VARIABLE: key}) as process:
        try:
            assert process.stdout is not None
            yield Server(json.loads(process.stdout.readline())["base_url"], key)
        finally:
            process.kill()


def stories(place: Workspace, server: Server) -> Path:
    """Long answers, so that an interruption meets streams that are under way."""
    folder = place.experiments / "stories"
    folder.mkdir(parents=True)
    spec = {
        "experiment_id": "stories",
        "seed": 20261129,
        "gateway": {
            "base_url": server.root,
            "key_env": KEY_VARIABLE,
            "key_boundary": {
                "allowed_models": [MODEL],
                "max_concurrency": SLOTS,
                "daily_budget_tokens": 1_000_000,
            },
        },
        "agent": {
            "kind": "http",
            "model": MODEL,
            "params": {"temperature": 0.8, "max_tokens": 60},
            "strategies": ["sample_1", "sample_2"],
        },
        "eval": {"tasks_file": "tasks.jsonl"},
        "sampling": {"runs": 1},
    }
    (folder / "experiment.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    animals = ("dog", "cat", "horse", "owl", "fox", "whale", "ant", "bear")
    rows = [
        {
            "id": animal,
            "prompt": f"Tell me a long story about a {animal}.",
            "answer": animal,
            "grader": "contains",
            "extract": f"(?i)({animal})",
        }
        for animal in animals
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def ledger(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "token_ledger.jsonl").read_text().splitlines()]


def tokens(lines: list[dict[str, Any]], field: str) -> int:
    return sum(line[field] or 0 for line in lines)


def interrupt_in_mid_stream(process: subprocess.Popen[str], events: Path) -> None:
    """ctrl+c once calls are answered and others are under way, and again while it drains."""

    def wait_for(what: bytes, more_than: int = 0) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            if events.exists() and events.read_bytes().count(what) > more_than:
                return
            time.sleep(0.01)
        raise AssertionError(f"{what!r} was never seen")

    wait_for(b'"event":"attempt_ended"', 5)
    wait_for(b'"event":"call_progress"', events.read_bytes().count(b'"event":"call_progress"') + 3)
    process.send_signal(signal.SIGINT)
    wait_for(b'"state":"stopping"')
    process.send_signal(signal.SIGINT)


def test_an_interrupted_start_books_what_the_server_counted(place: Workspace, server: Server) -> None:
    folder = stories(place, server)
    before = server.counters()
    process = place.start("run", folder, "--plain", **{KEY_VARIABLE: server.key})
    interrupt_in_mid_stream(process, folder / "events.jsonl")
    _out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    first, between = ledger(folder), server.counters()
    answered = [line for line in first if line["final"]]
    cancelled = [line for line in first if not line["final"]]
    assert answered
    assert 1 <= len(cancelled) <= SLOTS
    for line in cancelled:
        assert (line["status"], line["usage_source"]) == ("cancelled", "estimated")
        assert (line["usage_final"], line["billed"]) == (False, "unknown")
        assert line["prompt_tokens"] and line["total_tokens"]
    # What the server made beyond the answers is what was cancelled; the ledger's estimate is near it.
    made = between["tokens_predicted_total"] - before["tokens_predicted_total"]
    unanswered = made - tokens(answered, "completion_tokens")
    estimated = tokens(cancelled, "completion_tokens")
    assert 0 <= unanswered <= 60 * len(cancelled)
    assert abs(unanswered - estimated) <= 6 * len(cancelled), (unanswered, estimated)

    done = place.run("run", folder, "--plain", **{KEY_VARIABLE: server.key})
    assert done.returncode == 0, done.stderr
    after, lines = server.counters(), ledger(folder)
    second = lines[len(first) :]
    assert {line["call_id"] for line in cancelled} <= {line["call_id"] for line in second}
    assert not {line["call_id"] for line in answered} & {line["call_id"] for line in second}
    assert {(line["final"], line["usage_source"]) for line in second} == {(True, "server")}
    # Nothing was cancelled the second time: equal to the token, in every counter.
    grown = {name: after[name] - between[name] for name in after}
    assert tokens(second, "completion_tokens") == grown["tokens_predicted_total"]
    cached = tokens(second, "cached_tokens")
    assert tokens(second, "prompt_tokens") == grown["prompt_tokens_total"] + cached
    assert cached == grown["prompt_tokens_cached_total"]
    everything = after["tokens_predicted_total"] - before["tokens_predicted_total"]
    assert everything - unanswered == tokens(answered, "completion_tokens") + tokens(
        second, "completion_tokens"
    )
    print(
        f"{len(answered)} + {len(second)} answered, {len(cancelled)} cancelled: {unanswered} tokens, booked {estimated}"
    )


BODIES: tuple[tuple[str, str, str, str | None, dict[str, Any] | bytes], ...] = (
    # name, class, path, key (None: the right one), body
    ("wrong key", "bad_key", "chat", "sk-another", {"model": MODEL, "messages": []}),
    ("wrong key, messages", "bad_key", "messages", "sk-another", {"model": MODEL, "messages": []}),
    (
        "context",
        "context_too_long",
        "chat",
        None,
        {"model": MODEL, "messages": [{"role": "user", "content": "word " * 1500}]},
    ),
    ("wrong path", "wrong_path", "/v1/v1/chat/completions", None, {"model": MODEL}),
    ("no messages", "bad_request", "chat", None, {"model": MODEL}),
    ("broken JSON", "bad_request", "chat", None, b'{"model": '),
)


@pytest.mark.parametrize(
    ("name", "error_class", "path", "key", "body"), BODIES, ids=[row[0] for row in BODIES]
)
def test_what_it_refuses_is_named(
    server: Server, name: str, error_class: str, path: str, key: str | None, body: dict[str, Any] | bytes
) -> None:
    reply = ask_plainly(server.root, path, key or server.key, body)
    record(f"llama.cpp-{VERSION}", name, error_class, ERROR_CLASSES[error_class].retry, reply)
    assert classify(reply.status, reply.headers, reply.body.encode()).error_class == error_class, reply
