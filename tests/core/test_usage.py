"""Expected numbers: cases/accounting.md rows 6, 7, 9, 10 and the shapes that vendors document, worked by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elometer.core.usage import NO_USAGE, StreamUsage, is_additive, merge_messages, normalise, token_count


def counts(
    raw: object, protocol: str = "chat", **options: object
) -> tuple[int | None, int | None, int | None]:
    usage = normalise(raw, protocol, **options)  # type: ignore[arg-type]
    return usage.prompt_tokens, usage.completion_tokens, usage.total


def stream(protocol: str, *reports: object) -> StreamUsage:
    merged = StreamUsage(protocol)
    for report in reports:
        merged.feed(report)
    return merged


@pytest.mark.parametrize("raw", [None, {}, []])
def test_missing_usage_is_unknown_not_zero(raw: object) -> None:
    usage = normalise(raw, "chat")  # type: ignore[arg-type]
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total, usage.source) == (
        None,
        None,
        None,
        "none",
    )


def test_null_counts_stay_unknown() -> None:
    usage = normalise({"prompt_tokens": None, "completion_tokens": 3}, "chat")
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total) == (None, 3, None)


def test_anthropic_input_is_the_sum_of_its_three_parts() -> None:
    # Row 10.
    raw = {
        "input_tokens": 5,
        "cache_read_input_tokens": 128_955,
        "cache_creation_input_tokens": 1_253,
        "output_tokens": 7,
    }
    usage = normalise(raw, "messages")
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total) == (130_213, 7, 130_220)
    assert (usage.cached_tokens, usage.cache_write_tokens, usage.uncached_prompt_tokens) == (
        128_955,
        1_253,
        5,
    )
    assert "cache_semantics_unverified" in usage.flags


def test_openai_cached_tokens_are_inside_the_prompt() -> None:
    # Row 10, second half.
    raw = {
        "prompt_tokens": 17_903,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 17_817},
    }
    usage = normalise(raw, "chat")
    assert (usage.prompt_tokens, usage.cached_tokens, usage.uncached_prompt_tokens) == (17_903, 17_817, 86)


def test_reasoning_beside_completion_is_moved_into_it() -> None:
    # Row 9.
    raw = {"prompt_tokens": 21, "completion_tokens": 0, "total_tokens": 81, "reasoning_tokens": 60}
    usage = normalise(raw, "chat")
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total) == (21, 60, 81)
    assert usage.flags == ("reasoning_outside_completion",)


def test_reasoning_inside_completion_is_not_added_again() -> None:
    raw = {
        "prompt_tokens": 21,
        "completion_tokens": 80,
        "total_tokens": 101,
        "completion_tokens_details": {"reasoning_tokens": 60},
    }
    usage = normalise(raw, "chat")
    assert (usage.total, usage.reasoning_tokens, usage.flags) == (101, 60, ())


def test_a_larger_server_total_is_kept_as_unattributed() -> None:
    # Gemini-compatible: 20 + 198 against 623, of which thoughts are not said to be 405 here.
    usage = normalise({"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 623}, "chat")
    assert (usage.total, usage.unattributed_tokens, usage.flags) == (218, 405, ("total_mismatch",))


def test_a_smaller_server_total_is_only_flagged() -> None:
    # LiteLLM in front of llama.cpp, observed: cached tokens outside input and outside total; the true total is 53.
    raw = {"cache_read_input_tokens": 36, "input_tokens": 1, "output_tokens": 16, "total_tokens": 17}
    usage = normalise(raw, "messages")
    assert (usage.prompt_tokens, usage.total, usage.unattributed_tokens) == (37, 53, None)
    assert "total_mismatch" in usage.flags


def test_all_zero_usage_beside_content_is_no_server_count() -> None:
    raw = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    usage = normalise(raw, "chat", has_content=True)
    assert (usage.source, usage.prompt_tokens, usage.flags) == ("none", None, ("zero_usage_with_content",))
    assert counts(raw) == (0, 0, 0)


@pytest.mark.parametrize(
    ("raw", "protocol", "prompt", "flags"),
    [
        ({"prompt_tokens": 100, "input_tokens": 0, "completion_tokens": 1}, "chat", 100, ()),
        ({"prompt_tokens": 0, "input_tokens": 100, "completion_tokens": 1}, "chat", 100, ()),
        ({"prompt_tokens": 90, "input_tokens": 100, "completion_tokens": 1}, "chat", 90, ("usage_conflict",)),
        (
            {"prompt_tokens": 90, "input_tokens": 100, "output_tokens": 1},
            "responses",
            100,
            ("usage_conflict",),
        ),
        ({"prompt_tokens": None, "input_tokens": 7, "completion_tokens": 1}, "chat", 7, ()),
    ],
)
def test_both_names(raw: dict[str, object], protocol: str, prompt: int, flags: tuple[str, ...]) -> None:
    usage = normalise(raw, protocol)
    assert (usage.prompt_tokens, usage.flags) == (prompt, flags)


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        (
            {
                "input_tokens": 1,
                "output_tokens": 1,
                "cache_creation_input_tokens": 500,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            },
            500,
        ),
        (
            {
                "input_tokens": 1,
                "output_tokens": 1,
                "cache_creation_input_tokens": 0,
                "cache_creation": {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 200},
            },
            500,
        ),
        (
            {
                "prompt_tokens": 600,
                "completion_tokens": 1,
                "claude_cache_creation_5_m_tokens": 30,
                "claude_cache_creation_1_h_tokens": 40,
            },
            70,
        ),
    ],
)
def test_cache_writes_are_the_larger_of_whole_and_split(raw: dict[str, object], written: int) -> None:
    assert normalise(raw, "messages").cache_write_tokens == written


def test_the_first_of_those_totals_502() -> None:
    raw = {
        "input_tokens": 1,
        "output_tokens": 1,
        "cache_creation_input_tokens": 500,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    }
    assert normalise(raw, "messages").total == 502


@pytest.mark.parametrize(
    ("raw", "additive"),
    [
        ({"input_tokens": 5, "cache_read_input_tokens": 9}, True),
        ({"prompt_tokens": 14, "cache_read_input_tokens": 9}, False),
        (
            {"input_tokens": 14, "cache_read_input_tokens": 9, "input_tokens_details": {"cached_tokens": 9}},
            False,
        ),
        ({"input_tokens": 14, "input_tokens_details": {"cached_tokens": 9}}, False),
        ({"prompt_tokens": 14, "prompt_cache_hit_tokens": 9, "prompt_cache_miss_tokens": 5}, False),
        ({"prompt_tokens": 14, "cached_tokens": 9}, False),
    ],
)
def test_additive_or_inclusive_is_told_by_the_fields(raw: dict[str, object], additive: bool) -> None:
    assert is_additive(raw) is additive
    assert normalise({**raw, "output_tokens": 1}, "messages").prompt_tokens == 14


def test_a_profile_overrides_the_semantics() -> None:
    # DashScope behind /v1/messages: input already holds the cached part.
    raw = {"input_tokens": 6_394, "cache_read_input_tokens": 6_272, "output_tokens": 1}
    assert counts(raw, "messages", semantics="inclusive") == (6_394, 1, 6_395)
    assert normalise(raw, "messages", semantics="inclusive").cached_tokens == 6_272


def test_more_cached_than_prompt_keeps_both() -> None:
    raw = {"input_tokens": 3_602, "cache_read_input_tokens": 3_604, "output_tokens": 1}
    usage = normalise(raw, "messages", semantics="inclusive")
    assert (usage.prompt_tokens, usage.cached_tokens, usage.flags) == (3_602, 3_604, ("cache_gt_prompt",))


def test_compaction_is_outside_the_counts() -> None:
    raw = {
        "input_tokens": 10,
        "output_tokens": 5,
        "iterations": [
            {"type": "compaction", "input_tokens": 700, "output_tokens": 90},
            {"type": "message", "input_tokens": 10, "output_tokens": 5},
        ],
    }
    usage = normalise(raw, "messages")
    assert (usage.total, usage.unattributed_tokens) == (15, 790)


def test_llama_cpp_timings_stand_in_for_usage() -> None:
    usage = normalise({"timings": {"prompt_n": 10, "cache_n": 26, "predicted_n": 4}}, "chat")
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, usage.total) == (36, 26, 4, 40)


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (3, 3),
        (3.0, 3),
        ("12", 12),
        (0, 0),
        (True, None),
        (-1, None),
        (2.5, None),
        (math.nan, None),
        ("x", None),
    ],
)
def test_token_count(value: object, count: int | None) -> None:
    assert token_count(value) == count


def test_malformed_counts_are_flagged() -> None:
    assert normalise({"prompt_tokens": -4, "completion_tokens": 2}, "chat").flags == ("usage_malformed",)


def test_running_totals_are_not_summed() -> None:
    # Row 6.
    merged = stream("chat", *({"prompt_tokens": 35, "completion_tokens": n} for n in (1, 2, 3)))
    assert counts(merged.raw) == (35, 3, 38)


def test_a_smaller_later_report_is_ignored_and_flagged() -> None:
    merged = stream("chat", {"prompt_tokens": 35, "completion_tokens": 9}, None, {"prompt_tokens": 0})
    assert counts(merged.raw) == (35, 9, 44)
    assert merged.flags == ["usage_shrank"]


@pytest.mark.parametrize(
    ("start", "delta", "prompt", "total"),
    [
        # Row 7: the truth only in the delta; then a zero that must not erase.
        (
            {"input_tokens": 0, "output_tokens": 0},
            {"input_tokens": 4_522, "cache_creation_input_tokens": 4_511, "output_tokens": 5},
            9_033,
            9_038,
        ),
        ({"input_tokens": 15, "output_tokens": 1}, {"input_tokens": 0, "output_tokens": 9}, 15, 24),
        # The start has the full context, the delta the corrected block.
        (
            {"input_tokens": 1_000, "output_tokens": 1},
            {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 9},
            1_000,
            1_009,
        ),
        # The usual case: only output in the delta.
        (
            {"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": 1},
            {"output_tokens": 20},
            10,
            30,
        ),
        (
            {"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": 1},
            {"input_tokens": None, "cache_read_input_tokens": 0, "output_tokens": 20},
            10,
            30,
        ),
        # LiteLLM 1.82.6: message_start twice with zeros, then the truth.
        ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 12, "output_tokens": 16}, 12, 28),
    ],
)
def test_messages_merge(start: dict[str, int], delta: dict[str, int], prompt: int, total: int) -> None:
    usage = normalise(merge_messages(start, delta), "messages")
    assert (usage.prompt_tokens, usage.total) == (prompt, total)


@given(
    st.dictionaries(
        st.sampled_from(["prompt_tokens", "input_tokens", "total_tokens", "iterations", "x"]),
        st.none() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.integers(), max_size=3),
    )
)
def test_no_report_raises(raw: dict[str, object]) -> None:
    for protocol in ("chat", "responses", "messages"):
        usage = normalise(raw, protocol)
        assert usage.prompt_tokens is None or usage.prompt_tokens >= 0


def test_no_usage_is_empty() -> None:
    assert NO_USAGE.total is None and NO_USAGE.uncached_prompt_tokens is None
