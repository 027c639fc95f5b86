from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elometer.core.attempt import Call, Message
from elometer.core.errors import UsageError
from elometer.core.usage import normalise
from elometer.wire.protocols import chat, messages, protocol, responses
from elometer.wire.protocols.reply import BadBody, Parsed, finish_class
from elometer.wire.sse import EventSplitter


def call(**more: Any) -> Call:
    fields: dict[str, Any] = {
        "call_id": "c1",
        "experiment_id": "e",
        "run_id": "r",
        "strategy": "sample_1",
        "task": "t",
        "run": 1,
        "phase": "sample",
        "model": "m",
        "messages": (Message("user", "2+2?"),),
        "system": "Be terse.",
        "params": {"max_tokens": 64, "temperature": 0.7, "stop": "\n"},
        "seed": 7,
        "stream": True,
    }
    return Call(**{**fields, **more})


def test_chat_body() -> None:
    assert chat.body(call()) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "2+2?"}],
        "max_tokens": 64,
        "temperature": 0.7,
        "stop": "\n",
        "seed": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    whole = chat.body(call(stream=False, seed=None, system=None))
    assert "stream" not in whole and "stream_options" not in whole and "seed" not in whole
    assert whole["messages"] == [{"role": "user", "content": "2+2?"}]


def test_responses_body_renames_and_leaves_out() -> None:
    assert responses.body(
        call(params={"max_tokens": 64, "temperature": 0.7, "stop": "\n", "reasoning_effort": "low"})
    ) == {
        "model": "m",
        "input": [{"role": "user", "content": "2+2?"}],
        "instructions": "Be terse.",
        "max_output_tokens": 64,
        "temperature": 0.7,
        "reasoning": {"effort": "low"},
        "stream": True,
    }


def test_messages_body() -> None:
    assert messages.body(call()) == {
        "model": "m",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "2+2?"}],
        "system": "Be terse.",
        "stop_sequences": ["\n"],
        "temperature": 0.7,
        "stream": True,
    }
    # max_tokens is required by the protocol; a system turn stands beside the messages.
    bare = messages.body(
        call(params={}, system=None, stream=False, messages=(Message("system", "S"), Message("user", "U")))
    )
    assert bare == {
        "model": "m",
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": "U"}],
        "system": "S",
    }
    assert messages.headers == {"anthropic-version": "2023-06-01"}


def test_unknown_protocol() -> None:
    with pytest.raises(UsageError):
        protocol("soap")


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("COMPLETED", "stop"),
        ("max_output_tokens", "length"),
        ("tool_use", "tool"),
        ("SAFETY", "filter"),
        ("refusal", "refusal"),
        ("pause_turn", "paused"),
        ("insufficient_system_resource", "error"),
        (None, "unknown"),
        ("", "unknown"),
        ("surprise", "unknown"),
    ],
)
def test_finish_class(reason: str | None, name: str) -> None:
    assert finish_class(reason) == name


# -- whole replies -------------------------------------------------------------------------------------------------


def test_chat_parse() -> None:
    reply = {
        "id": "x",
        "created": 5,
        "model": "m-2026",
        "choices": [
            {
                "message": {"content": [{"type": "text", "text": "4"}], "refusal": None},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
    parsed = chat.parse(json.dumps(reply).encode())
    assert (parsed.text, parsed.finish_class, parsed.model, parsed.response_id, parsed.created) == (
        "4",
        "stop",
        "m-2026",
        "x",
        5,
    )
    assert parsed.usage == {"prompt_tokens": 3, "completion_tokens": 1} and parsed.complete


def test_chat_refusal_and_usage_inside_the_choice() -> None:
    reply = {
        "choices": [
            {
                "message": {"content": None, "refusal": "I cannot."},
                "finish_reason": "stop",
                "usage": {"prompt_tokens": 3, "completion_tokens": 4},
            }
        ]
    }
    parsed = chat.parse(json.dumps(reply).encode())
    assert (parsed.text, parsed.refusal, parsed.finish_class) == ("", "I cannot.", "refusal")
    assert parsed.usage == {"prompt_tokens": 3, "completion_tokens": 4}


def test_chat_timings_where_usage_is_missing() -> None:
    reply = {
        "choices": [{"message": {"content": "4"}, "finish_reason": "stop"}],
        "timings": {"prompt_n": 1, "cache_n": 9, "predicted_n": 2},
    }
    usage = normalise(chat.parse(json.dumps(reply).encode()).usage, "chat")
    assert (usage.prompt_tokens, usage.completion_tokens) == (10, 2)


def test_responses_parse() -> None:
    reply = {
        "id": "resp_1",
        "object": "response",
        "created_at": 9.0,
        "model": "m",
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [
            {"type": "reasoning", "summary": []},
            {
                "type": "message",
                "content": [{"type": "output_text", "text": "4"}, {"type": "output_text", "text": "2"}],
            },
        ],
        "usage": {"input_tokens": 3, "output_tokens": 16, "total_tokens": 19},
        "error": None,
    }
    parsed = responses.parse(json.dumps(reply).encode())
    assert (parsed.text, parsed.finish_reason, parsed.finish_class) == ("42", "max_output_tokens", "length")
    assert parsed.has_reasoning and parsed.error is None and parsed.response_id == "resp_1"


def test_messages_parse() -> None:
    reply = {
        "id": "msg_1",
        "type": "message",
        "model": "m",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "4"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    parsed = messages.parse(json.dumps(reply).encode())
    assert (parsed.text, parsed.finish_class, parsed.has_reasoning) == ("4", "stop", True)


@pytest.mark.parametrize("module", [chat, responses, messages])
@pytest.mark.parametrize(
    "body", [b"", b"<html></html>", b"[]", b"null", b'{"a":1}', b'{"choices":null}', b'{"choices":[]}']
)
def test_what_is_no_answer(module: Any, body: bytes) -> None:
    with pytest.raises(BadBody):
        module.parse(body)


@pytest.mark.parametrize("module", [chat, responses, messages])
def test_an_error_under_a_good_status_is_kept(module: Any) -> None:
    assert module.parse(b'{"error":{"message":"boom"}}').error == {"message": "boom"}


# -- streams -------------------------------------------------------------------------------------------------------


def read(module: Any, *payloads: object, names: tuple[str, ...] = ()) -> tuple[Parsed, list[str]]:
    reader = module.Stream()
    texts = []
    for index, payload in enumerate(payloads):
        data = payload.encode() if isinstance(payload, str) else json.dumps(payload).encode()
        texts.append(reader.feed(names[index] if index < len(names) else "", data))
    return reader.parsed(), [text for text in texts if text]


def delta(text: str | None, finish: str | None = None, **more: object) -> dict[str, object]:
    inner = {} if text is None else {"content": text}
    return {"id": "a", "model": "m", "choices": [{"delta": inner, "finish_reason": finish}], **more}


def test_chat_stream_with_usage_in_a_chunk_without_choices() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    parsed, texts = read(
        chat,
        delta("4", usage=None),
        delta("2", usage=None),
        delta(None, "stop"),
        {"choices": [], "usage": usage},
        "[DONE]",
    )
    assert (texts, parsed.text, parsed.chunks, parsed.usage, parsed.complete) == (
        ["4", "2"],
        "42",
        2,
        usage,
        True,
    )


@pytest.mark.parametrize("last", [{"choices": None}, {}, {"choices": [{"index": 0, "delta": {}}]}])
def test_chat_usage_chunk_in_its_other_shapes(last: dict[str, object]) -> None:
    usage = {"prompt_tokens": 14, "completion_tokens": 6}
    parsed, _texts = read(chat, delta("x", "stop"), {**last, "usage": usage}, "[DONE]")
    assert (parsed.usage, parsed.complete) == (usage, True)


def test_chat_running_totals_are_not_summed() -> None:
    # Row 6 of cases/accounting.md.
    chunks = [delta("x", usage={"prompt_tokens": 35, "completion_tokens": n}) for n in (1, 2, 3)]
    parsed, _texts = read(chat, *chunks, delta(None, "stop"), "[DONE]")
    usage = normalise(parsed.usage, "chat")
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total) == (35, 3, 38)


def test_chat_usage_inside_the_choice_of_a_stream() -> None:
    chunk = {
        "choices": [
            {"delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
        ]
    }
    parsed, _texts = read(chat, delta("x"), chunk, "[DONE]")
    assert parsed.usage == {"prompt_tokens": 3, "completion_tokens": 4}


def test_chat_server_usage_beats_timings() -> None:
    timings = {"prompt_n": 1, "cache_n": 0, "predicted_n": 1}
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    parsed, _texts = read(
        chat,
        delta("x", timings=timings),
        delta(None, "stop", timings=timings, usage=usage),
        delta(None, timings=timings),
        "[DONE]",
    )
    assert parsed.usage == usage


def test_chat_stream_without_its_end_marker_or_reason_is_not_complete() -> None:
    # Row 8: cut after two chunks. A finish reason without [DONE], and [DONE] without a reason, are cuts too.
    for payloads in ((delta("a"), delta("b")), (delta("a", "stop"),), (delta("a"), "[DONE]")):
        assert not read(chat, *payloads)[0].complete


def test_chat_error_inside_a_stream() -> None:
    parsed, _texts = read(chat, delta("a"), {"error": {"message": "boom", "code": "500"}})
    assert parsed.error == {"message": "boom", "code": "500"} and parsed.text == "a" and not parsed.complete
    assert read(chat, delta("a", "error"))[0].error


def test_chat_reasoning_is_no_text() -> None:
    chunk = {"choices": [{"delta": {"role": "assistant", "content": None, "reasoning_content": "hm"}}]}
    parsed, texts = read(chat, chunk, delta("4", "stop"), "[DONE]")
    assert (texts, parsed.has_reasoning) == (["4"], True)


def test_messages_stream_with_a_doubled_start() -> None:
    # LiteLLM 1.82.6, observed: message_start twice with zeros, the truth only in message_delta.
    start = {
        "type": "message_start",
        "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 0, "output_tokens": 0}},
    }
    parsed, texts = read(
        messages,
        start,
        start,
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "4"}},
        {"type": "ping"},
        {"type": "content_block_stop"},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 12, "output_tokens": 16},
        },
        {"type": "message_stop"},
    )
    assert (texts, parsed.complete, parsed.response_id) == (["4"], True, "msg_1")
    assert normalise(parsed.usage, "messages").total == 28


def test_messages_usage_only_in_the_delta() -> None:
    # Row 7.
    parsed, _texts = read(
        messages,
        {"type": "message_start", "message": {"usage": {"input_tokens": 0, "output_tokens": 0}}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 4522, "cache_creation_input_tokens": 4511, "output_tokens": 5},
        },
        {"type": "message_stop"},
    )
    usage = normalise(parsed.usage, "messages")
    assert (usage.prompt_tokens, usage.total) == (9033, 9038)


def test_messages_without_message_stop_or_with_an_error() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
    assert not read(messages, start, end)[0].complete
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    parsed, _texts = read(messages, start, error, names=("message_start", "error"))
    assert parsed.error == {"type": "overloaded_error", "message": "Overloaded"}
    assert parsed.usage == {"input_tokens": 5, "output_tokens": 1}


def test_responses_stream_without_event_names() -> None:
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    parsed, texts = read(
        responses,
        {"type": "response.created", "response": {"id": "resp_1", "model": "m", "created_at": 3}},
        {"type": "response.output_text.delta", "delta": "4"},
        {"type": "response.output_text.delta", "delta": "2"},
        {
            "type": "response.completed",
            "response": {
                "id": "resp_1",
                "status": "completed",
                "output": [{"type": "message", "content": [{"type": "output_text", "text": "42"}]}],
                "usage": usage,
            },
        },
    )
    assert (texts, parsed.text, parsed.usage, parsed.complete) == (["4", "2"], "42", usage, True)


@pytest.mark.parametrize(
    ("kind", "response", "finish", "failed"),
    [
        (
            "response.incomplete",
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "length",
            False,
        ),
        (
            "response.failed",
            {"status": "failed", "error": {"code": "server_error", "message": "x"}},
            "error",
            True,
        ),
        ("response.failed", {"status": "failed"}, "error", True),
    ],
)
def test_responses_other_ends_carry_usage_too(
    kind: str, response: dict[str, object], finish: str, failed: bool
) -> None:
    usage = {"input_tokens": 5, "output_tokens": 2}
    parsed, _texts = read(responses, {"type": kind, "response": {**response, "output": [], "usage": usage}})
    assert (parsed.usage, parsed.finish_class, bool(parsed.error)) == (usage, finish, failed)


def test_responses_text_only_in_the_last_event() -> None:
    output = [{"type": "message", "content": [{"type": "output_text", "text": "42"}]}]
    parsed, texts = read(
        responses, {"type": "response.completed", "response": {"status": "completed", "output": output}}
    )
    assert (texts, parsed.text, parsed.usage) == (["42"], "42", None)


def test_responses_refusal_and_error() -> None:
    parsed, _texts = read(responses, {"type": "response.refusal.delta", "delta": "No."})
    assert parsed.refusal == "No."
    assert read(responses, {"type": "error", "code": "x", "message": "boom"})[0].error


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "usage",
                    "error",
                    "message",
                    "response",
                    "output",
                    "type",
                    "finish_reason",
                    "item",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)
KINDS = st.sampled_from(
    [
        "",
        "message_start",
        "message_delta",
        "content_block_delta",
        "content_block_start",
        "response.completed",
        "response.created",
    ]
)


@given(st.sampled_from([chat, responses, messages]), st.lists(st.tuples(KINDS, JSON), max_size=4))
def test_no_stream_raises_anything_but_bad_body(module: Any, events: list[tuple[str, object]]) -> None:
    reader = module.Stream()
    for name, document in events:
        try:
            reader.feed(name, json.dumps(document).encode())
            module.parse(json.dumps(document).encode())
        except BadBody:
            pass
    assert isinstance(reader.parsed().text, str)


@given(st.text(max_size=40), st.lists(st.integers(0, 400), max_size=8))
def test_text_survives_any_split(text: str, cuts: list[int]) -> None:
    stream = (
        b"".join(f"data: {json.dumps(delta(piece))}\n\n".encode() for piece in text) + b"data: [DONE]\n\n"
    )
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    splitter, reader = EventSplitter(), chat.Stream()
    for left, right in itertools.pairwise(bounds):
        for name, data in splitter.feed(stream[left:right]):
            reader.feed(name, data)
    assert reader.parsed().text == text and reader.ended
