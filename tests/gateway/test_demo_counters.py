"""The gateway's own sums equal the sum of the usage that its clients saw, cut streams included."""

from __future__ import annotations

import time

import httpx
import pytest
from demo_client import KEY, MODEL, OTHER_KEY, PATHS, ask, body, headers

from elometer.core.limits import Boundary
from elometer.gateway.demo.server import create_app, serve_in_thread
from elometer.gateway.demo.speech import answer
from elometer.gateway.demo.tasks import short_tasks
from elometer.gateway.demo.tokenizer import count, prompt_tokens

TASK = short_tasks(0, 1)[0]


def test_counters_equal_the_sums_of_usage() -> None:
    keys = {KEY: Boundary(), OTHER_KEY: Boundary()}
    app = create_app(0, keys=keys, latency=(0, 0), rate_429=0)
    with serve_in_thread(app) as url, httpx.Client(base_url=url) as client:
        said = [
            ask(client, protocol, TASK.prompt, seed=seed, stream=stream)
            for protocol in PATHS
            for stream in (False, True)
            for seed in range(4)
        ]
        client.post(PATHS["chat"], json={}, headers=headers("chat"))
        client.post(PATHS["chat"], json={}, headers=headers("chat", key="nobody"))
        other = client.post(
            PATHS["chat"],
            json={**body("chat", TASK.prompt), "model": "demo-agent-mini"},
            headers=headers("chat", key=OTHER_KEY),
        ).json()["usage"]
        counters = client.get("/demo/counters").json()
    prompt = sum(one.prompt or 0 for one in said)
    completion = sum(one.completion or 0 for one in said)
    assert counters["models"][MODEL] == counters["keys"]["key-1"]
    assert counters["models"][MODEL] == {
        "calls": 24,
        "cut": 0,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    assert counters["keys"]["key-2"]["total_tokens"] == other["total_tokens"]
    assert counters["total_tokens"] == prompt + completion + other["total_tokens"]
    assert counters["requests"] == 27
    assert counters["statuses"] == {"200": 25, "400": 1, "401": 1}
    assert KEY not in str(counters)


@pytest.mark.parametrize("protocol", list(PATHS))
def test_a_client_that_leaves_stops_the_stream_and_pays_for_what_was_made(protocol: str) -> None:
    app = create_app(0, keys={KEY: Boundary()}, latency=(1, 1), rate_429=0)
    full = count(answer(TASK, 2))
    with serve_in_thread(app) as url, httpx.Client(base_url=url) as client:
        data = body(protocol, TASK.prompt, stream=True)
        named = headers(protocol, seed=2)
        with client.stream("POST", PATHS[protocol], json=data, headers=named) as reply:
            heard = 0
            for line in reply.iter_lines():
                heard += "delta" in line and "data:" in line
                if heard == 4:
                    break
        deadline = time.monotonic() + 10
        while (counters := client.get("/demo/counters").json())["in_flight"]:
            assert time.monotonic() < deadline
    assert (counters["calls"], counters["cut"]) == (1, 1)
    assert counters["prompt_tokens"] == prompt_tokens([TASK.prompt])
    assert 0 < counters["completion_tokens"] < full


def test_a_client_that_leaves_before_the_first_token_pays_for_the_prompt() -> None:
    app = create_app(0, keys={KEY: Boundary()}, latency=(60, 60), rate_429=0)
    with serve_in_thread(app) as url, httpx.Client(base_url=url) as client:
        with pytest.raises(httpx.ReadTimeout):
            data = body("chat", TASK.prompt, stream=True)
            client.post(PATHS["chat"], json=data, headers=headers("chat"), timeout=0.3)
        deadline = time.monotonic() + 10
        while (counters := client.get("/demo/counters").json())["in_flight"]:
            assert time.monotonic() < deadline
    assert counters["cut"] == 1
    assert counters["total_tokens"] == counters["prompt_tokens"] == prompt_tokens([TASK.prompt])
