"""Attempts that were on the wire when a start died get an estimate, and say that it is one."""

from __future__ import annotations

from elometer.core.attempt import Attempt, Call, Message
from elometer.runs import events as ev
from elometer.runs.journal import Sample
from elometer.runs.recovery import CallTokens, lost_attempts
from elometer.runs.resume import Past

AT = "2026-11-29T19:00:00.000Z"


def call(call_id: str, task: str = "t", limit: str = "max_tokens") -> Call:
    return Call(
        call_id=call_id, experiment_id="e", run_id="e-2", strategy="sample_2", task=task, run=1, phase="sample",
        model="m", messages=(Message("user", "x" * 100),), params={limit: 50}, sample=1, round=1,
    )  # fmt: skip


def answered(task: str, prompt: int, completion: int) -> Sample:
    line = Attempt(
        experiment_id="e", strategy="sample_2", task=task, run=1, model="m", timestamp=AT, round=1,
        prompt_tokens=prompt, completion_tokens=completion,
    )  # fmt: skip
    return Sample(
        call_id=f"c{prompt}", strategy="sample_2", task=task, run=1, sample=1, text="", attempt=line
    )


def test_prompts_are_those_of_the_same_task_and_answers_the_mean_of_all() -> None:
    tokens = CallTokens([answered("t", 40, 10), answered("t", 42, 20), answered("u", 90, 60)])
    assert tokens.of(call("c1", "t")) == (41, 30)
    assert tokens.of(call("c2", "u")) == (90, 30)


def test_the_worst_case_stands_in_where_nothing_is_known() -> None:
    # 100 bytes at half a token a byte, 16 a message and 16 for the frame; the answer's limit
    assert CallTokens([]).of(call("c1")) == (82, 50)
    assert CallTokens([]).of(call("c1", limit="max_completion_tokens")) == (82, 50)
    assert CallTokens([]).of(call("c1", limit="top_k")) == (82, 1024)


def test_a_lost_attempt_is_booked_as_estimated_and_not_final() -> None:
    sent = ev.CallSent(at=AT, call_id="c1", strategy="sample_2", block=0, attempt=3)
    gone = ev.CallSent(at=AT, call_id="not of this experiment", strategy="x", block=0, attempt=1)
    past = Past(answers={"c40": answered("t", 40, 10)}, in_flight=[sent, gone])
    (line,) = lost_attempts(past, {"c1": call("c1")})
    assert (line.call_id, line.attempt, line.final, line.timestamp) == ("c1", 3, False, AT)
    assert (line.prompt_tokens, line.completion_tokens, line.total_tokens) == (40, 10, 50)
    assert (line.status, line.error_class, line.usage_source, line.usage_final, line.billed) == (
        "cancelled", "process_died", "estimated", False, "unknown",
    )  # fmt: skip
