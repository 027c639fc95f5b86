"""Streams of the three protocols, event by event."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elometer.core.usage import normalise
from elometer.wire.protocols import chat, messages, responses
from elometer.wire.protocols.reply import BadBody, Parsed
from elometer.wire.sse import EventSplitter


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
