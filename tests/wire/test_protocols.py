from __future__ import annotations

import json
from typing import Any

import pytest

from elometer.core.attempt import Call, Message
from elometer.core.errors import UsageError
from elometer.core.usage import normalise
from elometer.wire.protocols import chat, messages, protocol, responses
from elometer.wire.protocols.reply import BadBody, finish_class


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
        "input": [{"type": "message", "role": "user", "content": "2+2?"}],
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
