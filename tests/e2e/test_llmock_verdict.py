"""The llmock package judges our client: no retry storm, Retry-After heeded, no cut stream accepted.

ELOMETER_LLMOCK names its program (`pip install llmock==0.2.2`). Run with `pytest -m real_gateways`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elometer.boundary.gate import AdaptiveGate
from elometer.core.attempt import Attempt, Call, Message
from elometer.core.redact import Secret
from elometer.wire.client import GatewayClient, Timeouts

pytestmark = pytest.mark.real_gateways

LLMOCK = os.environ.get("ELOMETER_LLMOCK", "")

# (behaviour of the server, class of the first attempt, tries)
FAULTS: list[tuple[dict[str, object], str, int]] = [
    ({"type": "fail", "status": 429, "retry_after": 2}, "rate_limit", 2),
    ({"type": "fail", "status": 500}, "server_error", 2),
    ({"type": "fail", "status": 503}, "overloaded", 2),
    ({"type": "fail", "status": 529}, "overloaded", 2),
    ({"type": "fail", "status": 400}, "bad_request", 1),
    ({"type": "fail", "status": 401}, "bad_key", 1),
    ({"type": "stream_fault", "kind": "truncate", "after_chunks": 3}, "stream_truncated", 2),
    ({"type": "stream_fault", "kind": "disconnect", "after_chunks": 3}, "net_reset", 2),
    ({"type": "stream_fault", "kind": "stall", "after_chunks": 3}, "net_timeout_read", 2),
    ({"type": "stream_fault", "kind": "malformed", "after_chunks": 3}, "bad_body", 2),
]
ROOTS = {"chat": "", "responses": "", "messages": "/anthropic"}


@pytest.fixture(scope="module")
def llmock() -> Iterator[str]:
    if not Path(LLMOCK).is_file():
        pytest.skip("ELOMETER_LLMOCK names no program")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen(
        [LLMOCK, "serve", "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            root = f"http://127.0.0.1:{port}"
            for _ in range(300):
                try:
                    ask(root, "/_llmock/verdict")
                    break
                except OSError:
                    time.sleep(0.1)
            yield root
        finally:
            process.terminate()


def ask(root: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(root + path, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.loads(reply.read())


async def test_verdict(llmock: str) -> None:
    number = 0
    for protocol, prefix in ROOTS.items():
        gates = iter(AdaptiveGate(8) for _ in FAULTS)
        async with GatewayClient(
            llmock + prefix,
            Secret("sk-planted-llmock-0123456789"),
            gate_for=lambda _model, gates=gates: next(gates),  # type: ignore[misc]
            timeout=Timeouts(read_s=3.0),
        ) as client:
            for behaviour, error_class, tries in FAULTS:
                ask(llmock, "/_llmock/scenario", {"behaviors": [behaviour]})
                number += 1
                attempts: list[Attempt] = []

                async def on_attempt(
                    attempt: Attempt, _text: str, attempts: list[Attempt] = attempts
                ) -> None:
                    attempts.append(attempt)

                call = Call(
                    call_id=f"c{number}",
                    experiment_id="e",
                    run_id="r",
                    strategy="sample_1",
                    task="t",
                    run=1,
                    phase="sample",
                    model="gpt-4o",
                    messages=(Message("user", f"Question {number}"),),
                    params={"max_tokens": 20},
                    protocol=protocol,  # type: ignore[arg-type]
                    seed=number,
                )
                answer = await client.send(call, on_attempt=on_attempt)
                found = (attempts[0].error_class, len(attempts), answer.answered)
                assert found == (error_class, tries, tries == 2), (protocol, behaviour)
    verdict = ask(llmock, "/_llmock/verdict")
    assert verdict["passed"] and verdict["errors"] == 0, verdict["findings"]
