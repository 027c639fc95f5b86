"""Attempts without usage: counted by a tokenizer file, by the server's endpoints, or estimated as before."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from client_recorder import GOOD_STREAM, Recorder, call
from loopback import STREAM, Loopback, Request, Script, chat_chunk, loopback, named_events, sse

from elometer.core.attempt import Attempt, Message, labels
from elometer.core.errors import UsageError
from elometer.wire import server_tokens
from elometer.wire.tokenizer_file import TokenizerFile, load_tokenizer

COUNTED: dict[str, Any] = {"count_missing": True}
LLAMA = {**STREAM, "server": "llama.cpp"}


def silent_stream(*words: str, finish: str | None = "stop", headers: dict[str, str] = STREAM) -> Script:
    """A stream that never reports usage; without a finish reason it is cut."""
    chunks = [chat_chunk(word) for word in words]
    if finish is None:
        return Script(headers=headers, pieces=[*sse(*chunks, done=False), "cut"])
    return Script(headers=headers, pieces=sse(*chunks, chat_chunk(None, finish)))


def said(value: object, status: int = 200) -> Script:
    return Script(status, body=json.dumps(value).encode())


def word_server(answer: Script, **paths: Callable[[Request], Script]) -> Callable[[Request], Script]:
    """A server whose tokens are words: the template puts two before each message and one at the end."""

    def template(request: Request) -> Script:
        turns = [f"<s> {turn['role']} {turn['content']}" for turn in request.body["messages"]]
        return said({"prompt": " ".join([*turns, "<s>"])})

    def tokenize(request: Request) -> Script:
        return said({"tokens": list(range(len(request.body["content"].split())))})

    known = {"apply_template": template, "tokenize": tokenize, **paths}

    def decide(request: Request) -> Script:
        name = request.path.strip("/").replace("-", "_").replace("/", "_")
        if name in ("v1_chat_completions", "v1_messages"):
            return answer
        return known[name](request) if name in known else said({"error": {"message": "Not Found"}}, 404)

    return decide


async def asked(
    decide: Callable[[Request], Script], calls: int = 1, options: dict[str, Any] = COUNTED, **more: Any
) -> tuple[list[Attempt], Loopback]:
    from elometer.wire.client import RetryPolicy

    recorder = Recorder()
    options = {"retry": RetryPolicy(infra=0), **options}
    async with loopback(decide=decide) as gateway, recorder.client(gateway.root, **options) as client:
        for number in range(calls):
            await recorder.send(client, call(f"c{number}", **more))
    return [attempt for attempt, _text in recorder.attempts], gateway


# -- the server's endpoints ----------------------------------------------------------------------------------


async def test_the_servers_tokenizer_counts_prompt_with_template_and_answer_with_its_end() -> None:
    # By hand: "<s> system Be terse. <s> user 6*7? <s>" has 8 words, "it is 42" three, and one ends the turn.
    attempts, gateway = await asked(word_server(silent_stream("it ", "is ", "42")), system="Be terse.")
    (attempt,) = attempts
    assert (attempt.prompt_tokens, attempt.completion_tokens, attempt.total_tokens) == (8, 4, 12)
    assert (attempt.usage_source, attempt.usage_final) == ("local-tokenizer", False)
    assert attempt.tokenizer == "server:/tokenize"
    assert (attempt.status, attempt.final) == ("ok", True)
    paths = [request.path for request in gateway.requests]
    assert paths == ["/v1/chat/completions", "/apply-template", "/tokenize", "/tokenize"]
    assert gateway.requests[2].body["add_special"] and gateway.requests[2].body["parse_special"]
    assert {request.headers["authorization"] for request in gateway.requests} == {
        gateway.requests[0].headers["authorization"]
    }


async def test_nothing_is_asked_where_the_server_gives_usage() -> None:
    attempts, gateway = await asked(word_server(GOOD_STREAM), 3)
    assert [request.path for request in gateway.requests] == ["/v1/chat/completions"] * 3
    assert {(attempt.usage_source, attempt.tokenizer) for attempt in attempts} == {("server", None)}


async def test_a_prompt_is_counted_once_for_all_its_samples() -> None:
    _attempts, gateway = await asked(word_server(silent_stream("42")), 4)
    paths = [request.path for request in gateway.requests]
    assert (paths.count("/apply-template"), paths.count("/tokenize")) == (1, 1 + 4)


async def test_an_answer_cut_by_the_limit_or_by_a_stop_word_has_no_end_token() -> None:
    (by_limit,), _ = await asked(word_server(silent_stream("it ", "is", finish="length")))
    (by_word,), _ = await asked(word_server(silent_stream("it ", "is")), params={"stop": ["\n"]})
    assert (by_limit.completion_tokens, by_word.completion_tokens) == (2, 2)


async def test_a_cut_stream_keeps_its_marks_and_gets_the_better_count() -> None:
    (attempt,), _ = await asked(word_server(silent_stream("it ", "is", finish=None)))
    assert (attempt.prompt_tokens, attempt.completion_tokens) == (4, 2)
    assert (attempt.status, attempt.error_class) == ("error", "net_reset")
    assert (attempt.usage_source, attempt.usage_final, attempt.billed) == (
        "local-tokenizer",
        False,
        "unknown",
    )


async def test_without_such_endpoints_it_is_estimated_and_they_are_asked_once() -> None:
    def bare(request: Request) -> Script:
        stream = silent_stream("it ", "is ", "42")
        return stream if request.path == "/v1/chat/completions" else said({"error": {}}, 404)

    attempts, gateway = await asked(bare, 5)
    assert {(one.usage_source, one.usage_final, one.tokenizer) for one in attempts} == {
        ("estimated", False, None)
    }
    paths = [request.path for request in gateway.requests]
    assert paths.count("/apply-template") == 1 and "/tokenize" not in paths


@pytest.mark.parametrize(
    "reply",
    [Script(body=b"<html>"), Script(body=b"[" * 100_000), said([1, 2]), said({"prompt": 3}), said({}, 500)],
)
async def test_an_endpoint_that_talks_nonsense_changes_nothing(reply: Script) -> None:
    (attempt,), _ = await asked(word_server(silent_stream("42"), apply_template=lambda _request: reply))
    assert (attempt.usage_source, attempt.tokenizer, attempt.status) == ("estimated", None, "ok")


async def test_an_endpoint_that_never_answers_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_tokens, "ANSWER_S", 0.2)
    mute = word_server(silent_stream("42"), apply_template=lambda _request: Script(delay=30.0, body=b""))
    attempts, gateway = await asked(mute, 3)
    assert {one.usage_source for one in attempts} == {"estimated"}
    assert [request.path for request in gateway.requests].count("/apply-template") == 1


async def test_who_waits_for_a_place_does_not_wait_for_an_endpoint_that_fell_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_tokens, "ANSWER_S", 0.1)
    monkeypatch.setattr(server_tokens, "AT_ONCE", 1)
    seen = 0

    def tokenize(request: Request) -> Script:
        nonlocal seen
        seen += 1
        return said({"tokens": [1]}) if seen == 1 else Script(delay=30.0, body=b"")

    recorder, words = Recorder(), word_server(silent_stream("42"), tokenize=tokenize)
    async with loopback(decide=words) as gateway, recorder.client(gateway.root, **COUNTED) as client:
        async with asyncio.timeout(10):
            await asyncio.gather(*(recorder.send(client, call(f"c{number}")) for number in range(40)))
    assert len(recorder.attempts) == 40
    assert seen == 1 + server_tokens.FAILURES


async def test_each_models_prompt_is_counted_by_its_own_tokenizer() -> None:
    def tokenize(request: Request) -> Script:
        return said({"tokens": [0] * (50 if "other" in request.body["content"] else 5)})

    def template(request: Request) -> Script:
        return said({"prompt": request.body["model"]})

    recorder = Recorder()
    words = word_server(silent_stream("42"), tokenize=tokenize, apply_template=template)
    async with loopback(decide=words) as gateway, recorder.client(gateway.root, **COUNTED) as client:
        await recorder.send(client, call("a"))
        await recorder.send(client, call("b", model="other"))
    assert [attempt.prompt_tokens for attempt, _text in recorder.attempts] == [5, 50]


async def test_anthropic_counts_the_prompt_and_the_answer_stays_an_estimate() -> None:
    stream = Script(
        headers=STREAM,
        pieces=named_events(
            ("message_start", {"type": "message_start", "message": {"id": "msg_1", "model": "m"}}),
            (
                "content_block_delta",
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "42"}},
            ),
            ("message_delta", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            ("message_stop", {"type": "message_stop"}),
        ),
    )

    def decide(request: Request) -> Script:
        if request.path == "/v1/messages":
            return stream
        if request.path == "/v1/messages/count_tokens":
            assert set(request.body) == {"model", "messages"}
            return said({"input_tokens": 23})
        return said({}, 404)

    (attempt,), _ = await asked(decide, protocol="messages")
    assert (attempt.prompt_tokens, attempt.completion_tokens, attempt.total_tokens) == (23, 1, 24)
    assert attempt.usage_source == "estimated" and "only_prompt_counted" in attempt.usage_flags
    assert attempt.tokenizer == "server:/v1/messages/count_tokens"


async def test_what_is_not_in_the_text_is_named() -> None:
    stream = Script(
        headers=STREAM,
        pieces=sse(
            {"choices": [{"index": 0, "delta": {"reasoning_content": "let me see"}}]},
            chat_chunk("42"),
            chat_chunk(None, "stop"),
        ),
    )
    (attempt,), _ = await asked(word_server(stream))
    assert attempt.usage_flags == ["reasoning_not_counted"]


# -- llama.cpp's slots ---------------------------------------------------------------------------------------


def slot(seed: int, held: int, busy: bool = False, task: int = 1) -> dict[str, Any]:
    return {
        "id": 0,
        "id_task": task,
        "is_processing": busy,
        "n_prompt_tokens": held,
        "params": {"seed": seed},
    }


async def hung_up(
    slots: Callable[[], list[dict[str, Any]]], stream: Script | None = None
) -> tuple[Attempt, Loopback]:
    """Leave a stream of llama.cpp after two chunks, or another one as soon as it was asked for."""
    early, recorder = stream is not None, Recorder()
    pieces = [*sse(chat_chunk("it "), chat_chunk("is "), done=False), 30.0, "cut"]
    stream = stream or Script(headers=LLAMA, pieces=pieces)
    decide = word_server(stream, slots=lambda _request: said(slots()))
    async with loopback(decide=decide) as gateway, recorder.client(gateway.root, **COUNTED) as client:
        task = asyncio.create_task(recorder.send(client, call()))
        await (gateway.arrived.wait() if early else recorder.wait_for_chunks(2))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return recorder.attempts[0][0], gateway


async def test_a_call_that_was_hung_up_on_is_settled_by_its_slot() -> None:
    # The prompt has 4 words; the slot holds it and all but the last of 3 tokens: one came after the hang-up.
    looks = iter([[slot(7, 5, busy=True)], [slot(9, 50), slot(7, 6)]])
    attempt, _gateway = await hung_up(lambda: next(looks))
    assert (attempt.prompt_tokens, attempt.completion_tokens, attempt.total_tokens) == (4, 3, 7)
    assert (attempt.status, attempt.usage_source, attempt.usage_final) == ("cancelled", "server", False)
    assert (attempt.billed, attempt.tokenizer) == ("unknown", "server:/slots")
    assert attempt.usage_flags == ["usage_from_slots"]


async def test_the_latest_task_with_the_seed_is_meant() -> None:
    slots = [slot(7, 9, task=2), slot(7, 6, task=5), slot(7, 30, task=3)]
    attempt, _gateway = await hung_up(lambda: slots)
    assert attempt.completion_tokens == 3


async def test_a_call_that_was_left_before_its_first_byte_is_settled_too() -> None:
    # llama.cpp decodes the prompt and one token before it notices; the slot appears a moment later.
    looks = iter([[], [slot(7, 4, busy=True)], [slot(7, 4)]])
    attempt, _gateway = await hung_up(lambda: next(looks), Script(delay=30.0, body=b""))
    assert (attempt.prompt_tokens, attempt.completion_tokens, attempt.status) == (4, 1, "cancelled")
    assert (attempt.usage_source, attempt.tokenizer) == ("server", "server:/slots")


async def test_what_a_process_that_died_left_is_settled_by_its_slot_alone() -> None:
    def lost(number: int) -> Attempt:
        return Attempt(
            **labels(call()), model="m", timestamp="", attempt=number, seed=7, status="cancelled",
            prompt_tokens=30, completion_tokens=64, total_tokens=94, usage_source="estimated",
        )  # fmt: skip

    first, again = lost(1), lost(2)
    decide = word_server(GOOD_STREAM, slots=lambda _request: said([slot(7, 20)]))
    async with loopback(decide=decide) as gateway, Recorder().client(gateway.root, **COUNTED) as client:
        await client.settle(call(), again)
        await client.settle(call(), first)
    # 4 words of prompt, 20 + 1 in all; a second try may not be what the slot tells of.
    assert (first.prompt_tokens, first.completion_tokens, first.total_tokens) == (4, 17, 21)
    assert (first.usage_source, first.usage_final) == ("server", False)
    assert (again.total_tokens, again.usage_source) == (94, "estimated")


async def test_where_it_never_had_a_slot_what_it_used_stays_unknown() -> None:
    attempt, _gateway = await hung_up(lambda: [slot(9, 4)], Script(delay=30.0, body=b""))
    assert (attempt.prompt_tokens, attempt.completion_tokens, attempt.total_tokens) == (4, None, None)
    assert (attempt.usage_source, attempt.usage_final) == ("local-tokenizer", False)


@pytest.mark.parametrize(
    "slots",
    [
        [],
        [slot(8, 6)],  # another call took the slot
        [slot(7, 4)],  # fewer tokens than were seen
        [slot(7, 200)],  # more than were allowed
        [{"id": 0, "is_processing": False}],
        [{**slot(7, 6), "id_task": None}],
    ],
)
async def test_a_slot_that_tells_of_something_else_is_not_believed(slots: list[dict[str, Any]]) -> None:
    attempt, _gateway = await hung_up(lambda: slots)
    assert (attempt.prompt_tokens, attempt.completion_tokens) == (4, 2)
    assert (attempt.usage_source, attempt.tokenizer) == ("local-tokenizer", "server:/tokenize")
    assert (attempt.usage_final, attempt.billed) == (False, "unknown")


async def test_another_server_is_never_asked_for_its_slots() -> None:
    _attempts, gateway = await asked(word_server(silent_stream("it ", "is", finish=None)))
    assert "/slots" not in [request.path for request in gateway.requests]


# -- a tokenizer file ----------------------------------------------------------------------------------------


@pytest.fixture
def tokenizer_json(tmp_path: Path) -> Path:
    """A byte-level tokenizer whose vocabulary is the 256 bytes and one merge, cutting at 3 tokens."""
    tokenizers = pytest.importorskip("tokenizers", reason="the extra 'tokenizers' is not installed")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)} | {"it": len(letters)}
    model = tokenizers.models.BPE(vocab=vocabulary, merges=[("i", "t")])
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.enable_truncation(3)
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    return path


def test_a_file_counts_texts_whole_and_is_named_by_its_content(tokenizer_json: Path) -> None:
    found = load_tokenizer(tokenizer_json)
    # One token a byte, but "it" is one; the file's own truncation to 3 tokens is no count.
    assert [found.count(text) for text in ("", "it is", "Ünï")] == [0, 4, 5]
    digest = hashlib.sha256(tokenizer_json.read_bytes()).hexdigest()[:8]
    assert found.name == f"tokenizer.json@{digest}"


async def test_the_users_tokenizer_goes_before_the_servers(tokenizer_json: Path) -> None:
    options = {**COUNTED, "tokenizer": load_tokenizer(tokenizer_json)}
    (attempt,), gateway = await asked(
        word_server(silent_stream("it ", "is")), options=options, messages=(Message("user", "six times"),)
    )
    # "six times" 9 bytes, "it is" 4 tokens: no template, no end token, and the line says so.
    assert (attempt.prompt_tokens, attempt.completion_tokens) == (9, 4)
    assert (attempt.usage_source, attempt.usage_flags) == ("local-tokenizer", ["template_not_counted"])
    assert attempt.tokenizer is not None and attempt.tokenizer.startswith("tokenizer.json@")
    assert [request.path for request in gateway.requests] == ["/v1/chat/completions"]


async def test_a_tokenizer_without_a_count_loses_no_attempt_and_leaves_it_to_the_server() -> None:
    def count(text: str) -> int:
        raise Exception("Missing [UNK] token from the vocabulary")  # noqa: TRY002  # as the library does

    options = {**COUNTED, "tokenizer": TokenizerFile("t", count)}
    (attempt,), _ = await asked(word_server(silent_stream("it ", "is")), options=options)
    assert (attempt.prompt_tokens, attempt.completion_tokens) == (4, 3)
    assert (attempt.tokenizer, attempt.usage_flags) == ("server:/tokenize", [])


async def test_counting_does_not_hold_up_the_loop() -> None:
    threads: list[int] = []

    def count(text: str) -> int:
        threads.append(threading.get_ident())
        return len(text)

    options = {**COUNTED, "tokenizer": TokenizerFile("t", count)}
    await asked(word_server(silent_stream("42")), options=options)
    assert threads and threading.get_ident() not in threads


def test_a_missing_file_a_wrong_one_and_a_missing_extra_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer_json: Path
) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_tokenizer(tmp_path / "none.json")
    other = tmp_path / "other.json"
    other.write_text('{"a": 1}')
    with pytest.raises(UsageError, match="no tokenizer"):
        load_tokenizer(other)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError) as found:
        load_tokenizer(tokenizer_json)
    assert "pip install 'elometer[tokenizers]'" in found.value.fix
    assert found.value.exit_code == 2
