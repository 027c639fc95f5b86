"""A start that is interrupted in mid-stream, against llama.cpp's own counters.

/metrics counts every token that the model took in or gave, whether anybody waited for it or not. What was
answered must be in our ledger to the token, and so must what was cancelled, as long as the server still tells.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
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
from tests.e2e.real_gateways.one_try import call_of
from tests.e2e.real_gateways.servers import program
from tests.e2e.workspace import Workspace

from elometer.boundary.gate import FixedGate
from elometer.core.attempt import Attempt, Protocol
from elometer.core.redact import Secret
from elometer.runs.calls import worst_case
from elometer.wire.classes import ERROR_CLASSES
from elometer.wire.client import GatewayClient
from elometer.wire.exchange import Outcome
from elometer.wire.failures import classify
from elometer.wire.protocols.reply import Parsed
from elometer.wire.server_tokens import LLAMA_CPP

pytestmark = pytest.mark.real_gateways

SERVE = Path(__file__).parents[1] / "real_model" / "serve.py"
KEY_VARIABLE = "REAL_MODEL_KEY"
VERSION = "2026.10.11549"
MODEL = "smollm2-135m"
SLOTS = 4
# Tokens that the server may make after a hang-up, until it notices.
AFTER_A_HANG_UP = 3


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


def stories(
    place: Workspace, server: Server, *, seed: int = 20261129, retry: Any = None, **agent: Any
) -> Path:
    """Long answers, so that an interruption meets streams that are under way."""
    folder = place.experiments / "stories"
    folder.mkdir(parents=True)
    spec = {
        "experiment_id": "stories",
        "seed": seed,
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
            **agent,
        },
        **({"retry": retry} if retry else {}),
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


def wait_for(process: subprocess.Popen[str], events: Path, what: bytes, more_than: int = 0) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if events.exists() and events.read_bytes().count(what) > more_than:
            return
        time.sleep(0.01)
    raise AssertionError(f"{what!r} was never seen")


def in_mid_stream(process: subprocess.Popen[str], events: Path) -> None:
    """Return once calls are answered and others are under way, each of which has brought some text.

    One that was only just sent may not have reached the server: its slots cannot tell of it.
    """
    wait_for(process, events, b'"event":"attempt_ended"', 5)
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        brought: dict[str, bool] = {}  # of each call on the wire
        for line in events.read_bytes().splitlines():
            event = json.loads(line)
            if event["event"] == "call_received":
                del brought[event["call_id"]]
            elif event["event"] in ("call_sent", "call_progress"):
                brought[event["call_id"]] = event["event"] == "call_progress"
        if brought and all(brought.values()):
            return
        time.sleep(0.01)
    raise AssertionError("no moment at which every call had brought some text")


def interrupt(process: subprocess.Popen[str], events: Path, *, twice: bool) -> None:
    """ctrl+c in mid-stream; `twice`: again while it drains."""
    in_mid_stream(process, events)
    process.send_signal(signal.SIGINT)
    if twice:
        wait_for(process, events, b'"state":"stopping"')
        process.send_signal(signal.SIGINT)


COUNTERS = ("prompt_tokens_total", "prompt_tokens_cached_total", "tokens_predicted_total")


def grown(now: dict[str, int], before: dict[str, int]) -> tuple[int, int, int]:
    """Prompt tokens (fresh and cached), the cached part, and generated tokens between two looks."""
    fresh, cached, made = (now[name] - before[name] for name in COUNTERS)
    return fresh + cached, cached, made


def booked(lines: list[dict[str, Any]]) -> tuple[int, int]:
    """Prompt and completion tokens of ledger lines, all of which must be known."""
    assert all(line["total_tokens"] is not None for line in lines)
    return tokens(lines, "prompt_tokens"), tokens(lines, "completion_tokens")


def test_a_start_that_is_drained_books_exactly_what_the_server_counted(
    place: Workspace, server: Server
) -> None:
    """ctrl+c once: what is on the wire comes to its natural end, so its usage is final."""
    folder = stories(place, server)
    before = server.counters()
    process = place.start("run", folder, "--plain", **{KEY_VARIABLE: server.key})
    interrupt(process, folder / "events.jsonl", twice=False)
    _out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    lines = ledger(folder)
    assert {(line["final"], line["usage_source"], line["usage_final"]) for line in lines} == {
        (True, "server", True)
    }
    prompt, cached, made = grown(server.counters(), before)
    assert booked(lines) == (prompt, made)
    assert tokens(lines, "cached_tokens") == cached


@pytest.mark.parametrize("number", range(3))
def test_a_start_that_hangs_up_books_exactly_what_the_server_counted(
    place: Workspace, server: Server, number: int
) -> None:
    """ctrl+c twice: the slots tell what the calls in flight had used, the tokens after the hang-up too."""
    folder = stories(place, server, seed=20261129 + number)
    before = server.counters()
    process = place.start("run", folder, "--plain", **{KEY_VARIABLE: server.key})
    interrupt(process, folder / "events.jsonl", twice=True)
    _out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    first, between = ledger(folder), server.counters()
    answered = [line for line in first if line["final"]]
    cancelled = [line for line in first if not line["final"]]
    assert answered
    assert 1 <= len(cancelled) <= SLOTS
    for line in cancelled:
        assert (line["status"], line["usage_final"], line["billed"]) == ("cancelled", False, "unknown")
        assert (line["usage_source"], line["tokenizer"]) == ("server", "server:/slots"), line
        assert "usage_from_slots" in line["usage_flags"]
    prompt, _cached, made = grown(between, before)
    assert booked(first) == (prompt, made)

    done = place.run("run", folder, "--plain", **{KEY_VARIABLE: server.key})
    assert done.returncode == 0, done.stderr
    after, lines = server.counters(), ledger(folder)
    second = lines[len(first) :]
    assert {line["call_id"] for line in cancelled} <= {line["call_id"] for line in second}
    assert not {line["call_id"] for line in answered} & {line["call_id"] for line in second}
    assert {(line["final"], line["usage_source"]) for line in second} == {(True, "server")}
    prompt, cached, made = grown(after, between)
    assert booked(second) == (prompt, made)
    assert tokens(second, "cached_tokens") == cached
    prompt, _cached, made = grown(after, before)
    assert booked(lines) == (prompt, made)
    print(f"{len(answered)} + {len(second)} answered, {len(cancelled)} cancelled: {made} made, {made} booked")


def test_a_start_that_is_killed_is_settled_by_the_next(place: Workspace, server: Server) -> None:
    """kill -9: nothing is booked then; the next start asks the slots before it asks for anything else."""
    folder = stories(place, server, seed=7)
    before = server.counters()
    process = place.start("run", folder, "--plain", **{KEY_VARIABLE: server.key})
    in_mid_stream(process, folder / "events.jsonl")
    process.kill()
    process.communicate(timeout=60)
    server.counters()  # at rest
    done = place.run("run", folder, "--plain", **{KEY_VARIABLE: server.key})
    assert done.returncode == 0, done.stderr
    lines = ledger(folder)
    lost = [line for line in lines if line["error_class"] == "process_died"]
    assert 1 <= len(lost) <= SLOTS
    assert {(line["tokenizer"], line["usage_final"]) for line in lost} == {("server:/slots", False)}
    prompt, _cached, made = grown(server.counters(), before)
    assert booked(lines) == (prompt, made)


def test_calls_that_time_out_while_others_go_on_are_bounded(place: Workspace, server: Server) -> None:
    """A slot that the next call takes at once tells nothing: then the text that came is counted.

    The server decodes on until it notices the hang-up: the line is marked, and never above what was made.
    """
    folder = stories(place, server, limits={"seconds": 1.5}, retry={"infra": 0})
    before = server.counters()
    process = place.run("run", folder, "--plain", **{KEY_VARIABLE: server.key})
    lines = ledger(folder)
    cut = [line for line in lines if not line["final"]]
    assert cut, process.stdout
    assert {line["usage_final"] for line in cut} == {False}
    by_slot = [line for line in cut if line["tokenizer"] == "server:/slots"]
    by_text = [line for line in cut if line["tokenizer"] == "server:/tokenize"]
    assert len(by_slot) + len(by_text) == len(cut), [line["tokenizer"] for line in cut]
    prompt, _cached, made = grown(server.counters(), before)
    known = [line for line in lines if line["total_tokens"] is not None]
    missed = made - tokens(known, "completion_tokens")
    unknown = len(lines) - len(known)
    print(
        f"{len(lines)} lines, {len(cut)} cut: {len(by_slot)} by slot, {len(by_text)} by text, "
        f"{unknown} unknown; {missed} of {made} tokens not seen"
    )
    assert tokens(lines, "prompt_tokens") >= prompt
    assert 0 <= missed <= AFTER_A_HANG_UP * len(by_text)


@pytest.mark.parametrize("number", range(6))
async def test_calls_cancelled_at_any_moment_are_exact_or_bounded(server: Server, number: int) -> None:
    """Four calls at once, each left after a random time: as it is sent, while its prompt is read, in mid-stream.

    Where every count is known the sums are the server's. What stays unknown is within what is kept for it.
    """
    draw, gate = random.Random(number), FixedGate(SLOTS)
    attempts: list[Attempt] = []

    async def on_attempt(attempt: Attempt, _text: str) -> None:
        attempts.append(attempt)

    before = await asyncio.to_thread(server.counters)
    client = GatewayClient(server.root, Secret(server.key), gate_for=lambda _model: gate, count_missing=True)
    calls = [
        call_of(
            f"{draw.random()} "
            + draw.choice(("Tell me a long story.", "Say 漢字 and 🐶 often.", "word " * 200)),
            model=MODEL,
            params={"max_tokens": 60, "temperature": 0.8},
            seed=draw.randrange(1, 2**31),
        )
        for _slot in range(SLOTS)
    ]
    async with client:
        tasks = [asyncio.create_task(client.send(call, on_attempt=on_attempt)) for call in calls]
        for task in tasks:
            longest = draw.choice((0.0, 0.1, 0.5, 1.0, 2.0, 4.0))
            asyncio.get_running_loop().call_later(longest * draw.random(), task.cancel)
        await asyncio.wait(tasks)
    # A server that reads a prompt notices nothing until it has read it.
    await asyncio.sleep(0.5)
    prompt, _cached, made = grown(await asyncio.to_thread(server.counters), before)
    # A call that was left before it had its place was no attempt.
    known = [attempt for attempt in attempts if attempt.total_tokens is not None]
    unknown = {attempt.call_id for attempt in attempts} - {attempt.call_id for attempt in known}
    by_text = [attempt for attempt in known if attempt.tokenizer == LLAMA_CPP]
    missed = prompt + made - sum(attempt.total_tokens or 0 for attempt in known)
    bound = sum(worst_case(call) for call in calls if call.call_id in unknown)
    print(
        f"{len(known)} known, {len(unknown)} unknown: {missed} tokens of {prompt + made} missed, bound {bound}"
    )
    assert 0 <= missed <= bound + AFTER_A_HANG_UP * len(by_text)


QUESTIONS = (
    "Say hi.",
    "What is 2+2? Answer with a number only.",
    "Name three colours.",
    "Who was Ada Lovelace?",
)


@pytest.mark.parametrize("protocol", ["chat", "messages"])
async def test_its_tokenizer_counts_what_its_usage_says(server: Server, protocol: Protocol) -> None:
    """The same replies, counted as if they had come without usage: prompts with their template, and answers."""
    gate, finished = FixedGate(1), set()
    client = GatewayClient(server.root, Secret(server.key), gate_for=lambda _model: gate, count_missing=True)

    async def on_attempt(attempt: Attempt, text: str) -> None:
        usage = (attempt.usage_source, attempt.prompt_tokens, attempt.completion_tokens)
        finished.add(attempt.finish_class)
        parsed = Parsed(text=text, finish_reason=attempt.finish_reason)
        assert client._counting is not None
        await client._counting.recount(asked, Outcome(parsed=parsed, whole=True), attempt)
        assert usage == ("server", attempt.prompt_tokens, attempt.completion_tokens), text
        assert attempt.usage_source == "local-tokenizer"
        assert attempt.tokenizer is not None and attempt.tokenizer.endswith("server:/tokenize")

    async with client:
        for number, question in enumerate(QUESTIONS):
            asked = call_of(
                question,
                model=MODEL,
                protocol=protocol,
                system="Be terse." if number % 2 else None,
                params={"max_tokens": 40, "temperature": 0.0},
            )
            await client.send(asked, on_attempt=on_attempt)
    assert finished == {"stop", "length"}


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
