"""What a key may do is enforced, and refused in the shapes of real gateways."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from demo_client import KEY, MODEL, OTHER_KEY, PATHS, ask, body, headers

from elometer.core.limits import Boundary
from elometer.gateway.demo.server import create_app, serve_in_thread
from elometer.gateway.demo.tasks import short_tasks

PROTOCOLS = list(PATHS)
PROMPT = short_tasks(0, 1)[0].prompt


@contextmanager
def gateway(boundary: Boundary | None = None, **options: Any) -> Iterator[httpx.Client]:
    keys = {KEY: boundary or Boundary(allowed_models=(MODEL,))}
    app = create_app(0, **{"keys": keys, "latency": (0, 0), "rate_429": 0, **options})
    with serve_in_thread(app) as url, httpx.Client(base_url=url, timeout=20) as client:
        yield client


@pytest.fixture(scope="module")
def plain() -> Iterator[httpx.Client]:
    """A gateway that tests share where they leave nothing behind."""
    with gateway() as client:
        yield client


def refused(client: httpx.Client, protocol: str, *, key: str | None = KEY, **more: Any) -> httpx.Response:
    return client.post(
        PATHS[protocol], json=body(protocol, PROMPT, **more), headers=headers(protocol, key=key)
    )


def words(protocol: str, reply: httpx.Response) -> dict[str, Any]:
    """The error object, checked for the shape of its protocol."""
    data = reply.json()
    if protocol == "messages":
        assert set(data) == {"type", "error"}
        assert data["type"] == "error"
        assert {"type", "message"} <= set(data["error"])
    else:
        assert set(data) == {"error"}
        assert set(data["error"]) == {"message", "type", "param", "code"}
    return data["error"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_keys(plain: httpx.Client, protocol: str) -> None:
    for key in (None, "wrong-key-000"):
        reply = refused(plain, protocol, key=key)
        assert reply.status_code == 401
        error = words(protocol, reply)
        assert error["type"] == (
            "authentication_error" if protocol == "messages" else "invalid_request_error"
        )
        assert "wrong-key" not in reply.text
    for auth in ({"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}):
        assert plain.post(PATHS[protocol], json=body(protocol, PROMPT), headers=auth).status_code == 200


def test_with_two_keys_the_protocols_own_header_decides(plain: httpx.Client) -> None:
    both = {"authorization": f"Bearer {KEY}", "x-api-key": "retired-key"}
    assert plain.post(PATHS["chat"], json=body("chat", PROMPT), headers=both).status_code == 200
    assert plain.post(PATHS["messages"], json=body("messages", PROMPT), headers=both).status_code == 401


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_models(protocol: str) -> None:
    with gateway() as client:
        reply = refused(client, protocol, model="demo-agent-mini")
        error = words(protocol, reply)
        assert reply.status_code == 403
        assert "does not have access to model `demo-agent-mini`" in error["message"]
    with gateway(Boundary()) as client:
        assert refused(client, protocol, model="demo-agent-mini").status_code == 200
        reply = refused(client, protocol, model="demo-agnet")
        assert reply.status_code == 404
        assert "does not exist" in words(protocol, reply)["message"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path",
    ["/chat/completions", "/v1/v1/chat/completions", "/v1/chat/completions/", "/v1", "/", "/v1/v1/messages"],
)
def test_unknown_paths(plain: httpx.Client, method: str, path: str) -> None:
    reply = plain.request(method, path, headers=headers("chat"))
    assert reply.status_code == 404
    error = words("messages" if path.endswith("messages") else "chat", reply)
    assert error["message"] == f"Invalid URL ({method} {path})"


def test_a_prefix_stands_before_every_path() -> None:
    keys = {KEY: Boundary()}
    with serve_in_thread(create_app(0, keys=keys, latency=(0, 0), prefix="/api")) as url:
        assert url.endswith("/api")
        with httpx.Client(base_url=url) as client:
            assert ask(client, "chat", PROMPT, seed=1).text
            assert client.get("/health").status_code == 200
            outside = client.post(url.removesuffix("/api") + PATHS["chat"], json={}, headers=headers("chat"))
            assert outside.status_code == 404


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "change",
    [
        b"{",
        b"[]",
        b"",
        {"model": None},
        {"model": 7},
        {"messages": None, "input": None},
        {"messages": [], "input": []},
        {"messages": "hi", "input": 7},
        {"messages": [7], "input": [7]},
        {"messages": [{"role": "user", "content": 7}], "input": [{"role": "user", "content": 7}]},
        {"stream": "yes"},
        {"max_tokens": -1, "max_output_tokens": -1},
    ],
)
def test_bad_bodies(plain: httpx.Client, protocol: str, change: Any) -> None:
    content = change if isinstance(change, bytes) else None
    data = None if content is not None else {**body(protocol, PROMPT), **change}
    reply = plain.post(PATHS[protocol], content=content, json=data, headers=headers(protocol))
    assert reply.status_code == 400
    assert words(protocol, reply)["type"] == "invalid_request_error"


def test_a_seed_that_is_no_number(plain: httpx.Client) -> None:
    for seed in ("x", 1.5, True):
        data = {**body("chat", PROMPT), "seed": seed}
        assert plain.post(PATHS["chat"], json=data, headers=headers("chat")).status_code == 400
    named = {**headers("messages"), "x-elometer-seed": "soon"}
    assert plain.post(PATHS["messages"], json=body("messages", PROMPT), headers=named).status_code == 400


def test_an_expired_key() -> None:
    moment = datetime(2026, 11, 29, 12, tzinfo=UTC)
    boundary = Boundary(expires_at=moment)
    now = [moment.replace(hour=11)]
    with gateway(boundary, clock=lambda: now[0]) as client:
        assert refused(client, "chat").status_code == 200
        now[0] = moment
        reply = refused(client, "chat")
        assert reply.status_code == 401
        assert words("chat", reply)["code"] == "expired_key"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_daily_budget_and_its_new_day(protocol: str) -> None:
    now = [datetime(2026, 11, 29, 15, 59, tzinfo=UTC)]
    boundary = Boundary(daily_budget_tokens=100, timezone="Asia/Shanghai")
    with gateway(boundary, clock=lambda: now[0]) as client:
        spent = 0
        while spent < 100:
            said = ask(client, protocol, PROMPT, seed=spent)
            assert said.prompt is not None
            assert said.completion is not None
            spent += said.prompt + said.completion
        reply = refused(client, protocol)
        assert reply.status_code == 429
        assert "retry-after" not in reply.headers
        error = words(protocol, reply)
        assert f"{spent} of 100 tokens" in error["message"]
        if protocol == "messages":
            assert error["details"] == {"error_code": "enforced_spend_limit_reached"}
        else:
            assert error["code"] == "insufficient_quota"
        # 16:00 UTC is midnight in Shanghai.
        now[0] = datetime(2026, 11, 29, 16, tzinfo=UTC)
        assert ask(client, protocol, PROMPT, seed=1).text


def test_the_concurrency_limit_is_per_key_and_freed_before_the_answer_ends() -> None:
    keys = {KEY: Boundary(max_concurrency=2), OTHER_KEY: Boundary(max_concurrency=1)}
    with gateway(keys=keys, latency=(0.15, 0.15)) as client:
        gate = threading.Barrier(4)

        def call(stream: bool) -> httpx.Response:
            gate.wait()
            return refused(client, "chat", stream=stream)

        with ThreadPoolExecutor(4) as pool:
            replies = list(pool.map(call, [True, False, True, False]))
        turned_away = [reply for reply in replies if reply.status_code == 429]
        assert len(turned_away) == 2
        for reply in turned_away:
            assert "concurrent" in words("chat", reply)["message"]
            assert reply.headers["retry-after"] == "1"
            assert reply.headers["rate_limit_type"] == "max_parallel_requests"
        counters = client.get("/demo/counters").json()
        assert counters["peak_in_flight"] == 2
        assert counters["in_flight"] == 0


def test_back_to_back_calls_never_meet_their_own_place() -> None:
    with gateway(Boundary(max_concurrency=1)) as client:
        for number in range(60):
            assert refused(client, "chat", stream=number % 2 == 0).status_code == 200


def test_load_is_a_function_of_seed_and_attempt_and_passes_on_retry() -> None:
    def attempts(client: httpx.Client, seed: int) -> int:
        for attempt in range(1, 30):
            named = headers("chat", seed=seed)
            reply = client.post(PATHS["chat"], json=body("chat", PROMPT), headers=named)
            if reply.status_code == 200:
                return attempt
            assert reply.status_code == 429
            assert int(reply.headers["retry-after-ms"]) <= 1000
            assert reply.headers["retry-after"] == "1"
            assert words("chat", reply)["code"] == "rate_limit_exceeded"
        raise AssertionError("never served")

    with gateway(rate_429=0.3) as client:
        forward = [attempts(client, seed) for seed in range(100)]
        again = [attempts(client, seed) for seed in reversed(range(100))]
    assert forward == again[::-1]
    assert 15 <= sum(number > 1 for number in forward) <= 45
    with gateway(rate_429=0.01) as client:
        assert 0 <= sum(attempts(client, seed) > 1 for seed in range(200)) <= 8
