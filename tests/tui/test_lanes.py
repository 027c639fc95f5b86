"""What the Run pane says, against sums made by hand from the story's own lines."""

from __future__ import annotations

import msgspec
import tui_story

from elometer.runs import events as ev
from elometer.runs.state import Lane, RunState, fold_all
from elometer.tui.lanes import header_lines, lane_rows, phase_text
from elometer.tui.session import LaneRates, remaining_seconds


def told(until: float, **options: object) -> tuple[RunState, list[tui_story.Moment]]:
    moments = [moment for moment in tui_story.story(**options) if moment.at <= until]
    events = [ev.decode(moment.line) for moment in moments if moment.name == "events.jsonl"]
    return fold_all(events), moments


def text(state: RunState, now: float = 0.0, width: int = 80) -> str:
    return "\n".join("".join(piece for piece, _ in line) for line in header_lines(state, now, width))


def test_lanes_add_up_the_ledger_and_mark_what_still_streams() -> None:
    state, moments = told(6.0)
    rows = {row.key: row.cells for row in lane_rows(state, LaneRates())}
    lines = [msgspec.json.decode(moment.line) for moment in moments if moment.name == "token_ledger.jsonl"]
    for name, cells in rows.items():
        mine = [line for line in lines if line["strategy"] == name and line["status"] == "ok"]
        assert cells["prompt"] == f"{sum(line['prompt_tokens'] for line in mine):,}"
        lane = state.lanes[name]
        assert cells["total"].startswith("~") == bool(lane.streaming)
        shown = int(cells["total"].replace(",", "").removeprefix("~"))
        assert shown == sum(line["total_tokens"] for line in mine) + lane.streaming
    assert any(cells["total"].startswith("~") for cells in rows.values())


def test_lanes_stand_in_natural_order() -> None:
    state, _ = told(1.0)
    assert [row.key for row in lane_rows(state, LaneRates())] == list(tui_story.STRATEGIES)


def test_header_tells_progress_budget_failures_and_gate() -> None:
    state, _ = told(60.0)
    shown = text(state)
    assert f"blocks {state.blocks_done}/24" in shown
    assert "of 200,000" in shown
    assert f"rate_limit {state.retry_classes['rate_limit']}" in shown


def test_strangers_stand_in_words_and_in_the_error_style() -> None:
    state, _ = told(14.0, stranger=True)
    line = header_lines(state, 0.0, 80)[-1]
    assert line[0][1] == "error"
    assert "STRANGER: someone-else-9 answered for make-believe-1" in line[0][0]


def test_gate_line_appears_only_with_something_to_say() -> None:
    state, _ = told(1.0)
    assert "gate" not in text(state)
    closed = fold_all(
        [
            ev.GateChanged(
                at=tui_story_at(), in_flight=3, limit=3, waiting=2, closed_for_s=12, why="429 parallel"
            )
        ],
        state,
    )
    assert "gate closed for 0:12, 2 waiting: 429 parallel" in text(closed)


def tui_story_at() -> str:
    return "2026-11-29T12:00:01.000Z"


def test_time_to_go_is_the_pace_of_this_start() -> None:
    state, _ = told(14.0)
    assert state.started_at is not None
    done = state.blocks_done
    assert done > 0
    expected = 30.0 / done * (24 - done)
    assert remaining_seconds(state, state.started_at + 30.0) == expected
    fresh, _ = told(0.1)
    assert remaining_seconds(fresh, (fresh.started_at or 0) + 30.0) is None


def test_first_look_is_no_rate_and_later_ones_span_the_window() -> None:
    rates = LaneRates(window=5.0)
    rates.add({"a": Lane("a", completion_tokens=1_000)}, 0.0)
    assert rates.rate("a") is None
    rates.add({"a": Lane("a", completion_tokens=1_100, streaming=50)}, 2.0)
    assert rates.rate("a") == 75.0
    for second in range(3, 20):
        rates.add({"a": Lane("a", completion_tokens=1_150)}, float(second))
    assert rates.rate("a") == 0.0


def test_an_ended_start_gives_its_reason() -> None:
    state, _ = told(1.0)
    ended = fold_all(
        [ev.StartEnded(at=tui_story_at(), status="partial", reason="budget", message="Used up.")], state
    )
    assert phase_text(ended) == ("partial (budget)", "warning")
    assert "Used up." in text(ended)


def test_other_names_that_answer_are_said() -> None:
    state, _ = told(1.0)
    known = fold_all(
        [ev.Served(at=tui_story_at(), model_requested="m", names=("m-2026-11-01",), how="learnt")], state
    )
    assert "m is answered by m-2026-11-01" in text(known)
    own = fold_all([ev.Served(at=tui_story_at(), model_requested="m", names=("m",), how="given")], state)
    assert "answered by" not in text(own)
