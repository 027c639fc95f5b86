"""The engine: order, limits, cancelling, and that nothing secret leaves it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elometer.checks.catalogue import LIVE, STATIC
from elometer.checks.context import Context
from elometer.checks.engine import FAMILIES, Check, Result, ask_all, ordered, passed
from elometer.core.errors import UsageError
from elometer.core.redact import MASK, register


def check(name: str, run: object = None, after: Sequence[str] = ()) -> Check:
    return Check(name, "key", f"{name}?", 0, run or (lambda context: passed(name)), tuple(after))  # type: ignore[arg-type]


def rows(checks: Sequence[Check], context: object = None, **options: object) -> dict[str, Result]:
    return {row.check.id: row.result for row in ask_all(checks, context, **options)}  # type: ignore[arg-type]


def test_a_check_comes_behind_what_it_depends_on_and_keeps_its_place_otherwise() -> None:
    given_order = [check("c", after=("a",)), check("b"), check("a")]
    assert [item.id for item in ordered(given_order)] == ["b", "a", "c"]


@given(st.permutations(range(8)), st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7))))
def test_order_respects_every_dependency(order: list[int], edges: set[tuple[int, int]]) -> None:
    forward = {(low, high) for low, high in edges if low < high}
    checks = [check(str(n), after=[str(low) for low, high in forward if high == n]) for n in order]
    place = {item.id: position for position, item in enumerate(ordered(checks))}
    assert all(place[str(low)] < place[str(high)] for low, high in forward)


def test_a_circle_and_a_doubled_id_are_refused() -> None:
    with pytest.raises(ValueError, match="wait for one another"):
        ordered([check("a", after=("b",)), check("b", after=("a",))])
    with pytest.raises(ValueError, match="same id"):
        ordered([check("a"), check("a")])


def test_what_depends_on_a_failure_is_not_asked() -> None:
    failing = check("a", lambda context: Result("fail", (), "cause", "fix"))
    found = rows([failing, check("b", after=("a",))])
    assert (found["b"].status, found["b"].evidence) == ("unknown", ("not asked: a failed",))


def test_what_was_not_asked_blocks_what_comes_after_it() -> None:
    failing = check("a", lambda context: Result("fail", (), "cause", "fix"))
    found = rows([failing, check("b", after=("a",)), check("c", after=("b",))])
    assert found["c"].evidence == ("not asked: a failed",)


def test_an_earlier_answer_counts_when_one_check_is_asked_again() -> None:
    again = [check("b", after=("a",))]
    assert rows(again)["b"].status == "pass"
    assert rows(again, known={"a": "fail"})["b"].status == "unknown"


def test_a_check_that_hangs_or_breaks_takes_nothing_with_it() -> None:
    never = threading.Event()

    def hangs(_context: object) -> Result:
        never.wait(20)
        return passed()

    def breaks(_context: object) -> Result:
        raise RuntimeError("planted")

    found = rows([check("hangs", hangs), check("breaks", breaks), check("good")], time_limit_s=0.1)
    never.set()
    assert found["hangs"].evidence == ("no answer within 0.1 s",)
    assert found["breaks"].evidence == ("the check itself broke: RuntimeError: planted",)
    assert found["good"].status == "pass"


def test_a_file_that_cannot_be_read_leaves_the_question_open_in_its_own_words() -> None:
    def unreadable(_context: object) -> Result:
        raise UsageError("expires_at is no date.", evidence="[keys.k.boundary]")

    found = rows([check("boundary", unreadable), check("good")])
    assert (found["boundary"].status, found["boundary"].evidence) == ("unknown", ("expires_at is no date.",))
    assert found["good"].status == "pass"


def test_cancelling_ends_a_request_that_is_under_way() -> None:
    cancelled, ended, begun = threading.Event(), threading.Event(), threading.Event()

    async def waits(_context: object) -> Result:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()
        return passed()

    threading.Thread(target=lambda: (begun.wait(5), cancelled.set()), daemon=True).start()
    assert rows([check("waits", waits), check("later")], cancelled=cancelled) == {}
    assert ended.wait(5)


def test_evidence_cause_and_fix_are_masked_by_value() -> None:
    secret = "planted-value-5b1f"
    register(secret)
    leaky = check("a", lambda context: Result("warn", (f"x {secret}",), f"c {secret}", f"f {secret}"))
    result = rows([leaky])["a"]
    assert (result.evidence, result.cause, result.fix) == ((f"x {MASK}",), f"c {MASK}", f"f {MASK}")


def test_a_warning_without_cause_or_fix_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="needs a cause and a fix"):
        Result("warn", ("evidence",), "cause")


def test_the_catalogue_has_every_family_and_is_in_order() -> None:
    both = (*STATIC, *LIVE)
    assert {item.family for item in both} == set(FAMILIES)
    assert len(ordered(both)) == len(both)
    known = {item.id for item in both}
    assert all(set(item.after) <= known for item in both)
    assert all(item.cost_tokens == 0 and not item.live for item in STATIC)
    assert all(item.cost_tokens > 0 and item.live for item in LIVE)


def test_a_shared_computation_runs_once_and_its_error_reaches_all() -> None:
    context = Context(environ={}, home=None, folder=None, workspace=None)  # type: ignore[arg-type]
    calls = []

    def compute() -> int:
        calls.append(1)
        raise RuntimeError("planted")

    for _ in range(2):
        with pytest.raises(RuntimeError):
            context.once("key", compute)
    assert calls == [1]
