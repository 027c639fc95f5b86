"""LiteLLM with keys of every boundary: each refusal in its class, in two versions that disagree on statuses."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.real_gateways.bodies import Reply, ask_plainly, record
from tests.e2e.real_gateways.one_try import ONCE, call_of, send
from tests.e2e.real_gateways.servers import free_port, program, running
from tests.e2e.workspace import Workspace

from elometer.wire.classes import ERROR_CLASSES
from elometer.wire.failures import classify

pytestmark = pytest.mark.real_gateways

HERE = Path(__file__).parent
MASTER = "sk-master-planted-77aa"
OLD, NEW = "1.82.6", "1.108.5"
VARIABLES = {OLD: "ELOMETER_LITELLM_1_82_6", NEW: "ELOMETER_LITELLM_1_108_5"}
QUIET = {
    "LITELLM_MASTER_KEY": MASTER,
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "DISABLE_ADMIN_UI": "True",
    "HF_HUB_OFFLINE": "1",
}


@dataclass(frozen=True)
class Proxy:
    """A running LiteLLM."""

    version: str
    root: str


@pytest.fixture(scope="module", params=[OLD, NEW])
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    version = str(request.param)
    litellm, port = program(VARIABLES[version]), free_port()
    folder = tmp_path_factory.mktemp("litellm")
    for name in ("boundary_keys.py", "config.yaml"):
        shutil.copy(HERE / "litellm" / name, folder / name)
    command = [litellm, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with running(command, port, ready="/health/liveliness", folder=folder, environment=QUIET) as root:
        yield Proxy(version, root)


@dataclass(frozen=True)
class Row:
    """A key's boundary and what comes of crossing it. `statuses`: in the old version and in the new one.

    `spend`: calls that use the boundary up first.
    """

    name: str
    error_class: str
    statuses: tuple[int, int]
    key: str = "open"
    model: str = "mock-a"
    protocol: str = "chat"
    wait: float | None = None
    spend: int = 0


ROWS = (
    Row("model denied", "model_not_allowed", (401, 403), "only-a", "mock-b"),
    Row("model denied, messages", "model_not_allowed", (401, 403), "only-a", "mock-b", "messages"),
    Row("model unknown", "model_unknown", (400, 400), "open", "nope"),
    Row("wrong key", "bad_key", (401, 401), "nobody"),
    Row("budget used up", "quota", (400, 422), "spent"),
    Row("budget used up, messages", "quota", (400, 422), "spent", protocol="messages"),
    Row("expired", "key_expired", (400, 401), "expired"),
    Row("expired, messages", "key_expired", (400, 401), "expired", protocol="messages"),
    Row("requests a minute", "rpm_limit", (429, 429), "two-a-minute", wait=60.0, spend=2),
    Row("requests a minute, messages", "rpm_limit", (429, 429), "two-a-minute", protocol="messages", spend=2),
    Row("tokens a minute", "tpm_limit", (429, 429), "thirty-tokens", wait=60.0, spend=3),
    Row("provider's rate limit", "rate_limit", (429, 429), model="mock-rate"),
    Row("context", "context_too_long", (400, 400), model="mock-context"),
    Row("provider's failure", "server_error", (500, 500), model="mock-broken"),
    Row("provider away", "server_error", (500, 500), model="dead-upstream"),
    Row("provider away, messages", "server_error", (500, 500), model="dead-upstream", protocol="messages"),
)


def plainly(proxy: Proxy, key: str, model: str, protocol: str = "chat") -> Reply:
    body = {"model": model, "max_tokens": 8, "messages": [{"role": "user", "content": "What is 6*7?"}]}
    return ask_plainly(proxy.root, protocol, f"sk-bounded-{key}", body)


def keep(proxy: Proxy, name: str, error_class: str, reply: Reply) -> None:
    record(f"litellm-{proxy.version}", name, error_class, ERROR_CLASSES[error_class].retry, reply)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_boundary_is_named(proxy: Proxy, row: Row) -> None:
    for _ in range(row.spend):
        await asyncio.to_thread(plainly, proxy, row.key, "mock-a")
    reply = await asyncio.to_thread(plainly, proxy, row.key, row.model, row.protocol)
    status = row.statuses[proxy.version == NEW]
    assert reply.status == status, reply.body
    call = call_of("What is 6*7?", model=row.model, protocol=row.protocol)
    told = await send(proxy.root, call, key=f"sk-bounded-{row.key}", retry=ONCE)
    assert told.classes == [row.error_class], told.last.error_message
    assert told.last.http_status == status
    assert told.last.retry_after_s == row.wait
    keep(proxy, row.name, row.error_class, reply)


async def test_a_blocked_key_is_named_where_the_proxy_names_it(proxy: Proxy) -> None:
    # 1.108.5 answers `Internal Server Error` as plain text: nobody can know that it means the key.
    right = {OLD: (401, "key_disabled"), NEW: (500, "server_error")}[proxy.version]
    reply = await asyncio.to_thread(plainly, proxy, "blocked", "mock-a")
    told = await send(proxy.root, call_of("x", model="mock-a"), key="sk-bounded-blocked", retry=ONCE)
    assert (reply.status, told.last.error_class) == right
    keep(proxy, "blocked", right[1], reply)


async def test_a_missing_place_is_no_matter_of_time(proxy: Proxy) -> None:
    released = threading.Event()

    def hold() -> None:
        # Refused itself where one of our short calls was first: then it tries again.
        while not released.is_set():
            plainly(proxy, "one-at-once", "mock-slow")

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        for protocol in ("chat", "messages"):
            reply = await refused_for_a_place(proxy, protocol)
            failure = classify(reply.status, reply.headers, reply.body.encode())
            assert (failure.error_class, failure.wait) == ("concurrency_limit", "slot")
            keep(proxy, f"one at once, {protocol}", "concurrency_limit", reply)
    finally:
        released.set()
        holder.join()


async def refused_for_a_place(proxy: Proxy, protocol: str) -> Reply:
    for _ in range(40):
        reply = await asyncio.to_thread(plainly, proxy, "one-at-once", "mock-a", protocol)
        if reply.status == 429:
            return reply
        await asyncio.sleep(0.05)
    raise AssertionError("the held place was never missed")


@pytest.mark.parametrize("protocol", ["chat", "messages"])
async def test_an_answer_is_read(proxy: Proxy, protocol: str) -> None:
    # Over messages LiteLLM answers `stream: true` with a whole body here.
    call = call_of("What is 6*7?", model="mock-a", protocol=protocol)
    told = await send(proxy.root, call, key="sk-bounded-open")
    assert told.classes == [None], told.last.error_message
    assert told.answer is not None and told.answer.text == "The answer is 42."
    assert told.last.usage_source == "server"


def experiment_against(place: Workspace, proxy: Proxy, model: str) -> Path:
    folder = place.experiments / "litellm"
    folder.mkdir(parents=True)
    spec: dict[str, Any] = {
        "experiment_id": "litellm",
        "gateway": {
            "base_url": proxy.root,
            "key_env": "LITELLM_KEY",
            "key_boundary": {"allowed_models": [model], "max_concurrency": 4},
        },
        "agent": {
            "kind": "http",
            "model": model,
            "params": {"max_tokens": 8},
            "strategies": ["sample_1", "sample_2"],
        },
        "eval": {"tasks_file": "tasks.jsonl"},
        "sampling": {"runs": 1},
    }
    (folder / "experiment.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    rows = [
        {"id": f"t{n}", "prompt": f"Say {n}.", "answer": "42", "grader": "contains", "extract": "(.+)"}
        for n in range(8)
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def ledger(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "token_ledger.jsonl").read_text().splitlines()]


def test_a_start_above_the_parallel_limit_ends_in_seconds(place: Workspace, proxy: Proxy) -> None:
    # Each refusal says `retry-after: 60`, though the place is free as soon as one of our calls ends.
    folder = experiment_against(place, proxy, "mock-a")
    began = time.monotonic()
    done = place.run("run", folder, "--plain", LITELLM_KEY="sk-bounded-one-at-once")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 45
    lines = ledger(folder)
    assert sum(line["final"] for line in lines) == 24
    assert {line["error_class"] for line in lines} <= {None, "concurrency_limit"}


@pytest.mark.parametrize(
    ("key", "model", "error_class"),
    [
        ("nobody", "mock-a", "bad_key"),
        ("expired", "mock-a", "key_expired"),
        ("spent", "mock-a", "quota"),
        ("only-a", "mock-b", "model_not_allowed"),
    ],
)
def test_a_start_beyond_its_boundary_ends_at_once(
    place: Workspace, proxy: Proxy, key: str, model: str, error_class: str
) -> None:
    folder = experiment_against(place, proxy, model)
    done = place.run("run", folder, "--plain", LITELLM_KEY=f"sk-bounded-{key}")
    assert done.returncode == 3, done.stderr
    assert error_class in done.stderr
    lines = ledger(folder)
    assert {line["error_class"] for line in lines} == {error_class}
    assert {line["attempt"] for line in lines} == {1}
    # 1.108.5 names the key's alias, here its value, in the refusal of a spent one.
    assert f"sk-bounded-{key}" not in (folder / "token_ledger.jsonl").read_text() + done.stderr
