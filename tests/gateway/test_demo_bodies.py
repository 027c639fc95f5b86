"""Whatever JSON arrives, a request is read or refused; nothing else happens."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.gateway.demo.protocols import FORMATS
from elometer.gateway.demo.protocols.conversation import Conversation, Refusal

WORDS = (
    "model",
    "messages",
    "input",
    "instructions",
    "system",
    "stream",
    "stream_options",
    "seed",
    "max_tokens",
    "temperature",
)
INNER = ("role", "content", "type", "text", "include_usage")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=3),
    max_leaves=8,
)
turns = st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": values}), max_size=2)
bodies = st.fixed_dictionaries(
    {"model": st.just("m") | values},
    optional={word: values | turns for word in WORDS if word != "model"},
)


@pytest.mark.parametrize("path", FORMATS)
@settings(max_examples=60)
@given(data=bodies)
def test_a_body_is_read_or_refused(path: str, data: dict[str, Any]) -> None:
    with contextlib.suppress(Refusal):
        conversation = FORMATS[path].read(data)
        assert isinstance(conversation, Conversation)
        assert conversation.turns
        assert all(isinstance(text, str) for turn in conversation.turns for text in turn)
