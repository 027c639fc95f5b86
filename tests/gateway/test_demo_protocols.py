"""The three protocols: the same seed says the same, the shapes are the real ones, usage is what was said."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from demo_client import KEY, MODEL, PATHS, ask, body, headers

from elometer.core.limits import Boundary
from elometer.gateway.demo.experiment import SYSTEM
from elometer.gateway.demo.server import create_app, serve_in_thread
from elometer.gateway.demo.speech import answer
from elometer.gateway.demo.tasks import continuous_tasks, short_tasks
from elometer.gateway.demo.tokenizer import count, prompt_tokens

SEED = 17
PROTOCOLS = list(PATHS)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    app = create_app(SEED, keys={KEY: Boundary(allowed_models=(MODEL,))}, latency=(0, 0), rate_429=0)
    with serve_in_thread(app) as url, httpx.Client(base_url=url) as client:
        yield client


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_seed_decides_what_is_said(client: httpx.Client, protocol: str, stream: bool) -> None:
    for task in (*short_tasks(SEED, 3), *continuous_tasks(SEED, 2)):
        for seed in (0, 1, 2**62):
            said = ask(client, protocol, task.prompt, seed=seed, stream=stream, system=SYSTEM)
            assert said.text == answer(task, seed)
            assert said.completion == count(said.text)
            assert said.prompt == prompt_tokens([SYSTEM, task.prompt])
            assert said.model == MODEL


def test_the_order_of_arrival_decides_nothing(client: httpx.Client) -> None:
    tasks = short_tasks(SEED, 5)
    wanted = {(task.prompt, seed): answer(task, seed) for task in tasks for seed in range(12)}
    calls = [(random.choice(PROTOCOLS), prompt, seed) for prompt, seed in wanted]
    random.shuffle(calls)
    with ThreadPoolExecutor(8) as pool:
        texts = pool.map(lambda call: ask(client, call[0], call[1], seed=call[2]).text, calls)
        assert [wanted[prompt, seed] for _, prompt, seed in calls] == list(texts)


def test_a_chat_body_names_the_seed_too_and_the_others_refuse_it(client: httpx.Client) -> None:
    task = short_tasks(SEED, 1)[0]
    reply = client.post(
        PATHS["chat"], json={**body("chat", task.prompt), "seed": 41}, headers=headers("chat", seed=7)
    )
    assert reply.json()["choices"][0]["message"]["content"] == answer(task, 41)
    for protocol in ("responses", "messages"):
        data = {**body(protocol, task.prompt), "seed": 41}
        assert client.post(PATHS[protocol], json=data, headers=headers(protocol)).status_code == 400


def test_without_a_seed_the_body_and_its_repetition_decide() -> None:
    prompt = short_tasks(SEED, 1)[0].prompt

    def texts(protocol: str, **more: float) -> list[str]:
        app = create_app(SEED, keys={KEY: Boundary()}, latency=(0, 0), rate_429=0.2)
        with serve_in_thread(app) as url, httpx.Client(base_url=url) as client:
            said: list[str] = []
            while len(said) < 12:
                with contextlib.suppress(httpx.HTTPStatusError):  # a busy moment changes nothing
                    said.append(ask(client, protocol, prompt, **more).text)
            return said

    for protocol in PROTOCOLS:
        first = texts(protocol)
        assert len(set(first)) > 6
        assert texts(protocol) == first
        assert len(set(texts(protocol, temperature=0))) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("protocol", "limit", "cut", "done"),
    [
        ("chat", "max_tokens", "length", "stop"),
        ("chat", "max_completion_tokens", "length", "stop"),
        ("messages", "max_tokens", "max_tokens", "end_turn"),
        ("responses", "max_output_tokens", "incomplete", "completed"),
    ],
)
def test_a_token_limit_cuts_and_says_so(
    client: httpx.Client, protocol: str, limit: str, cut: str, done: str, stream: bool
) -> None:
    task = short_tasks(SEED, 1)[0]
    full = answer(task, 5)
    short = ask(client, protocol, task.prompt, seed=5, stream=stream, **{limit: 7})
    assert (short.completion, short.finish) == (7, cut)
    assert full.startswith(short.text)
    exact = ask(client, protocol, task.prompt, seed=5, stream=stream, **{limit: count(full)})
    assert (exact.text, exact.finish) == (full, done)


def test_chat_stream_usage_is_one_last_chunk_without_choices(client: httpx.Client) -> None:
    prompt = short_tasks(SEED, 1)[0].prompt
    said = ask(client, "chat", prompt, seed=1, stream=True)
    assert said.events[-1]["choices"] == []
    assert [chunk["usage"] for chunk in said.events[:-1]] == [None] * (len(said.events) - 1)
    assert said.events[-2]["choices"][0]["finish_reason"] == "stop"
    unasked = ask(client, "chat", prompt, seed=1, stream=True, stream_options=None)
    assert unasked.completion is None
    assert all("usage" not in chunk and chunk["choices"] for chunk in unasked.events)
    assert unasked.text == said.text


def test_content_may_come_in_parts(client: httpx.Client) -> None:
    task = short_tasks(SEED, 1)[0]
    for protocol, kind in (("chat", "text"), ("messages", "text"), ("responses", "input_text")):
        place = "input" if protocol == "responses" else "messages"
        data = body(protocol, "")
        data[place] = [{"role": "user", "content": [{"type": kind, "text": task.prompt}]}]
        reply = client.post(PATHS[protocol], json=data, headers=headers(protocol, seed=3))
        assert answer(task, 3).splitlines()[-1] in reply.text
    plain = {"model": MODEL, "input": task.prompt}
    reply = client.post(PATHS["responses"], json=plain, headers=headers("responses", seed=3))
    assert reply.json()["output"][0]["content"][0]["text"] == answer(task, 3)


def test_a_known_task_is_found_in_a_longer_conversation(client: httpx.Client) -> None:
    task = short_tasks(SEED, 1)[0]
    turns = [
        {"role": "user", "content": task.prompt},
        {"role": "assistant", "content": "ANSWER: 1"},
        {"role": "user", "content": "Look at your answer again."},
    ]
    data = {"model": MODEL, "messages": turns}
    reply = client.post(PATHS["chat"], json=data, headers=headers("chat", seed=8)).json()
    assert reply["choices"][0]["message"]["content"] == answer(task, 8)


def test_ids_are_never_repeated(client: httpx.Client) -> None:
    prompt = short_tasks(SEED, 1)[0].prompt
    ids = [ask(client, protocol, prompt, seed=1).id for protocol in PROTOCOLS for _ in range(5)]
    assert len(set(ids)) == len(ids)


def test_it_says_that_it_is_a_simulation(client: httpx.Client) -> None:
    listed = client.get("/v1/models", headers=headers("chat")).json()
    assert listed["simulation"] is True
    assert "simulation" in listed["note"]
    assert [row["id"] for row in listed["data"]] == [MODEL]
    assert client.get("/health").json() == {"status": "ok", "simulation": True}


def test_count_tokens(client: httpx.Client) -> None:
    data = {"model": MODEL, "system": "a", "messages": [{"role": "user", "content": "b c"}]}
    reply = client.post("/v1/messages/count_tokens", json=data, headers=headers("messages"))
    assert reply.json() == {"input_tokens": 1 + 2 + 2 * 4 + 2}
