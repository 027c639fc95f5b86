"""RunState: hand-counted numbers for hand-written events."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elometer.runs import events as ev
from elometer.runs.state import RunState, fold_all

T0 = "2026-11-29T19:00:00.000Z"


def opened(**changes: object) -> ev.StartOpened:
    facts: dict[str, object] = {
        "at": T0,
        "run_id": "e-1",
        "experiment_id": "e",
        "origin": "demo",
        "pid": 1,
        "host": "h",
        "gateway": "http://127.0.0.1:1",
        "protocol": "chat",
        "model": "m",
        "strategies": ("sample_1", "sample_2"),
        "tasks": 2,
        "runs": 1,
        "blocks": 2,
        "calls_per_block": {"sample_1": 1, "sample_2": 2},
        "max_concurrency": 4,
        "budget_tokens": 1000,
        "spent_today": 100,
    }
    return ev.StartOpened(**{**facts, **changes})


def sent(call_id: str, strategy: str, attempt: int = 1, at: str = T0) -> ev.CallSent:
    return ev.CallSent(at=at, call_id=call_id, strategy=strategy, block=0, attempt=attempt)


def ended(call_id: str, strategy: str | None, at: str = T0, **changes: object) -> ev.AttemptEnded:
    facts: dict[str, object] = {"attempt": 1, "final": True, "status": "ok", "model": "m"}
    return ev.AttemptEnded(at=at, call_id=call_id, strategy=strategy, **{**facts, **changes})


def test_planned_calls_are_calls_per_block_times_blocks() -> None:
    state = fold_all([opened()])
    assert {name: lane.planned for name, lane in state.lanes.items()} == {"sample_1": 2, "sample_2": 4}
    assert (state.phase, state.limit, state.blocks) == ("running", 4, 2)


def test_a_call_moves_from_the_wire_to_done_and_its_chunks_give_way_to_usage() -> None:
    before = fold_all(
        [
            opened(),
            sent("a", "sample_1"),
            ev.CallProgress(at=T0, call_id="a", strategy="sample_1", chunks=7),
            ev.CallProgress(at=T0, call_id="a", strategy="sample_1", chunks=9),
        ]
    )
    lane = before.lanes["sample_1"]
    assert (lane.in_flight, lane.streaming, lane.total_tokens, before.in_flight) == (1, 9, 0, 1)
    after = fold_all([ended("a", "sample_1", prompt_tokens=30, completion_tokens=12)], before)
    lane = after.lanes["sample_1"]
    assert (lane.in_flight, lane.streaming, lane.done) == (0, 0, 1)
    assert (lane.prompt_tokens, lane.completion_tokens, lane.total_tokens) == (30, 12, 42)
    assert after.budget_share == pytest.approx(0.142)  # (100 + 42) of 1000
    assert after.models == {"m": 42}


def test_a_refused_attempt_waits_is_sent_again_and_counts_once_as_done() -> None:
    state = fold_all(
        [
            opened(),
            sent("a", "sample_2"),
            ended("a", "sample_2", final=False, status="error", error_class="rate_limit", http_status=429),
            ev.CallWaiting(at=T0, call_id="a", strategy="sample_2", seconds=1.0, why="rate_limit"),
        ]
    )
    assert (state.lanes["sample_2"].in_flight, state.lanes["sample_2"].waiting) == (0, 1)
    state = fold_all(
        [sent("a", "sample_2", 2), ended("a", "sample_2", attempt=2, prompt_tokens=5, completion_tokens=5)],
        state,
    )
    lane = state.lanes["sample_2"]
    assert (lane.waiting, lane.in_flight, lane.done, lane.failed_attempts) == (0, 0, 1, 1)
    assert state.retry_classes == {"rate_limit": 1}


def test_null_usage_is_unknown_and_not_zero_tokens_known() -> None:
    state = fold_all([opened(), ended("a", "sample_1", usage_source="none")])
    assert state.lanes["sample_1"].unknown_usage == 1
    assert state.lanes["sample_1"].total_tokens == 0


@pytest.mark.parametrize("source", ["estimated", "local-tokenizer"])
def test_what_no_server_counted_is_told_apart(source: str) -> None:
    counts = {"prompt_tokens": 5, "completion_tokens": 6}
    events = [ended("a", "sample_1", **counts), ended("b", "sample_1", usage_source=source, **counts)]
    lane = fold_all([opened(), *events]).lanes["sample_1"]
    assert (lane.total_tokens, lane.estimated_tokens) == (22, 11)


def test_calls_charged_to_no_strategy_are_spent_but_in_no_lane() -> None:
    state = fold_all([opened(), ended("p", None, phase="probe", prompt_tokens=3, completion_tokens=4)])
    assert state.uncharged_tokens == 7
    assert state.total_tokens == 7
    assert all(lane.total_tokens == 0 for lane in state.lanes.values())


def test_rate_counts_tokens_of_the_last_five_seconds() -> None:
    state = fold_all(
        [
            opened(),
            ended("a", "sample_1", at="2026-11-29T19:00:01.000Z", prompt_tokens=1000, completion_tokens=0),
            ended("b", "sample_1", at="2026-11-29T19:00:09.000Z", prompt_tokens=50, completion_tokens=0),
        ]
    )
    now = state.last_at
    assert now is not None
    assert state.tokens_per_second(now) == pytest.approx(10.0)  # 50 tokens in 5 s


def test_blocks_scores_and_exclusions() -> None:
    done = ev.BlockEnded(
        at=T0,
        block=0,
        task="t",
        run=1,
        outcomes={"sample_1": "ok", "sample_2": "infra_error"},
        scores={"sample_1": 1.0, "sample_2": None},
    )
    state = fold_all([opened(), ev.BlockAdmitted(at=T0, block=0, task="t", run=1), done])
    assert (state.blocks_done, state.blocks_active, state.excluded_blocks) == (1, {}, 1)
    assert state.lanes["sample_1"].mean_score == 1.0
    assert state.lanes["sample_2"].mean_score is None


def test_restored_blocks_do_not_count_twice() -> None:
    old = ev.BlockEnded(
        at=T0, block=0, task="t", run=1, outcomes={"sample_1": "ok"}, scores={"sample_1": 1.0}, restored=True
    )
    state = fold_all([opened(resumed=True, blocks_done=1), old])
    assert state.blocks_done == 1
    assert state.lanes["sample_1"].mean_score == 1.0


def test_the_end_leaves_nothing_in_flight() -> None:
    state = fold_all(
        [opened(), sent("a", "sample_1"), ev.StartEnded(at=T0, status="partial", reason="budget")]
    )
    assert (state.phase, state.reason, state.in_flight, state.ended) == ("partial", "budget", 0, True)
    assert state.lanes["sample_1"].in_flight == 0


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["send", "chunk", "wait", "got", "ok", "error", "give"]),
    ),
    max_size=40,
)


@given(CALLS)
def test_lanes_always_agree_with_the_calls_they_hold(script: list[tuple[str, str]]) -> None:
    kinds = {
        "send": lambda call: sent(call, "sample_1"),
        "chunk": lambda call: ev.CallProgress(at=T0, call_id=call, strategy="sample_1", chunks=3),
        "wait": lambda call: ev.CallWaiting(at=T0, call_id=call, strategy="sample_1", seconds=1, why="x"),
        "got": lambda call: ev.CallReceived(at=T0, call_id=call, strategy="sample_1"),
        "ok": lambda call: ended(call, "sample_1", prompt_tokens=1, completion_tokens=1),
        "error": lambda call: ended(call, "sample_1", final=False, status="error", error_class="x"),
        "give": lambda call: ev.CallFailed(
            at=T0, call_id=call, strategy="sample_1", error_class="x", message=""
        ),
    }
    state = fold_all([opened(), *(kinds[what](call) for call, what in script)])
    lane = state.lanes["sample_1"]
    assert lane.in_flight == sum(call.where == "wire" for call in state.calls.values()) == state.in_flight
    assert lane.waiting == sum(call.waiting for call in state.calls.values())
    assert lane.streaming == sum(call.chunks for call in state.calls.values())


def test_events_survive_their_file_form() -> None:
    for event in (opened(), sent("a", "sample_1"), ended("a", None), ev.StartEnded(at=T0, status="complete")):
        assert ev.decode(ev.encode(event)) == event


def test_fold_changes_nothing_it_was_given() -> None:
    first = fold_all([opened()])
    copy = replace(first)
    fold_all([sent("a", "sample_1")], first)
    assert first == copy
    assert RunState().opened is None
