"""What the Run pane says, against sums made by hand from the story's own lines."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace

import msgspec
import pytest
import tui_story
from tui_stand_ins import made_up_fit

from elometer.core.clock import parse_timestamp
from elometer.runs import events as ev
from elometer.runs.exclusions import Exclusions
from elometer.runs.result import Derived
from elometer.runs.state import Lane, RunState, fold_all
from elometer.tui.lanes import (
    exclusion_lines,
    gauge,
    growth_lines,
    header_lines,
    held_by_stranger,
    lane_rows,
    phase_text,
    spent_today,
)
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
    at = parse_timestamp(tui_story_at()).timestamp()
    clock = datetime.fromtimestamp(at + 12).strftime("%H:%M:%S")
    assert f"gate limit 3, 2 waiting, closed until {clock} (0:08): 429 parallel" in text(closed, at + 4)
    assert "closed" not in text(closed, at + 13)


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


def gate(**fields: object) -> ev.GateChanged:
    return ev.GateChanged(at=tui_story_at(), in_flight=2, limit=4, waiting=0, **fields)


def test_budget_shows_what_calls_in_flight_hold_back() -> None:
    state, _ = told(14.0)
    own = 5_000 + state.spent_tokens
    held = fold_all([gate(reserved_tokens=20_000, spent_today=own)], state)
    line = next(line for line in header_lines(held, 0.0, 80) if "budget" in line[0][0])
    assert f"spent {own:,}" in line[0][0]
    assert "reserved 20.0k" in line[0][0]
    assert "▒" in line[2][0]
    nearly = fold_all([gate(reserved_tokens=180_000, spent_today=own)], state)
    line = next(line for line in header_lines(nearly, 0.0, 80) if "budget" in line[0][0])
    assert line[1][1] == "warning"


def test_spent_is_the_keys_over_all_starts_and_begins_anew_with_its_day() -> None:
    state, _ = told(14.0)
    own = 5_000 + state.spent_tokens
    assert spent_today(state) == own
    assert spent_today(fold_all([gate(spent_today=own + 7_000)], state)) == own + 7_000  # others spent too
    assert spent_today(fold_all([gate(spent_today=own - 100)], state)) == own  # told before the last answers
    assert spent_today(fold_all([gate(spent_today=300)], state)) == 300  # midnight in the key's time zone


@pytest.mark.parametrize(
    ("spent", "reserved", "bar"),
    [
        (0.0, 0.0, "──────────"),
        (0.5, 0.2, "━━━━━▒▒───"),
        (0.5, 0.001, "━━━━━▒────"),
        (0.9, 0.4, "━━━━━━━━━▒"),
        (1.2, 0.1, "━━━━━━━━━━"),
    ],
)
def test_gauge_is_whole(spent: float, reserved: float, bar: str) -> None:
    assert "".join(gauge(spent, reserved, 10)) == bar


def test_permits_are_told_only_where_others_share_the_key() -> None:
    state, _ = told(14.0)
    assert "other process" not in text(fold_all([gate(permits=4, others=0)], state))
    assert "1 other process leaves 2" in text(fold_all([gate(permits=2, others=1)], state))


def test_an_accepted_name_is_no_stranger_any_more() -> None:
    state, _ = told(14.0, stranger=True)
    paused = fold_all([ev.Control(at=tui_story_at(), state="paused", limit=4, why="stranger")], state)
    assert held_by_stranger(paused)
    assert "A takes the name for right" in text(paused)
    accepted = ev.Served(
        at=tui_story_at(), model_requested="make-believe-1", names=("someone-else-9",), how="accepted"
    )
    known = fold_all([accepted], paused)
    assert not held_by_stranger(known)
    assert "STRANGER" not in text(known)


def test_growth_of_prompts_is_the_mean_of_each_round() -> None:
    state, _ = told(1.0)
    assert growth_lines(state) == []
    ended = [
        ev.AttemptEnded(
            at=tui_story_at(), call_id=f"r{number}-{n}", strategy="sample_4", attempt=1, final=True, status="ok",
            model="m", round=number, prompt_tokens=prompt, completion_tokens=5,
        )
        for number, n, prompt in ((1, 0, 100), (1, 1, 200), (2, 0, 900))
    ]  # fmt: skip
    ((words, _style),) = growth_lines(fold_all(ended, state))[0]
    assert words == "sample_4: prompt tokens by round  1: 150  2: 900"


def test_excluded_blocks_stand_with_the_bounds_of_what_they_could_move() -> None:
    fit = made_up_fit()
    names = [row.strategy for row in fit.strategies]
    found = Exclusions(
        {"sample_16": {"timeout": 3}}, {}, dict.fromkeys(names, 72), "Fisher", 0.01,
        dict.fromkeys(names, 1000.0), dict.fromkeys(names, 990.0),
    )  # fmt: skip
    beside = Derived([], fit, "", (), SimpleNamespace(exclusions=found))
    lines = exclusion_lines(beside, 60)
    said = " ".join(words for ((words, _style),) in lines)
    assert "sample_16 3 of 72 (timeout 3)" in said
    assert "[990, 1000]" in said
    assert {style for ((_words, style),) in lines} == {"warning"}
    assert max(len(words) for ((words, _style),) in lines) <= 60
    assert exclusion_lines(None, 60) == []


def test_lanes_of_a_plan_that_shares_calls_say_so() -> None:
    state, _ = told(1.0)
    assert state.opened is not None
    assert "shared" not in text(state)
    opened = msgspec.structs.replace(
        state.opened,
        sampling_plan="nested",
        calls_per_block={"sample_4": 4},
        strategies=("sample_1", "sample_4"),
    )
    ended = ev.AttemptEnded(
        at=opened.at, call_id="c1", strategy="sample_4", attempt=1, final=True, status="ok", model="m", round=1,
        prompt_tokens=50, completion_tokens=7, used_by=("sample_1", "sample_4"),
    )  # fmt: skip
    state = fold_all([opened, ended])
    rows = {row.key: row.cells for row in lane_rows(state, LaneRates())}
    assert rows["sample_1"]["calls"] == "shared"
    assert rows["sample_4"]["calls"].startswith("1/")
    assert state.total_tokens == 57  # once
    assert state.lanes["sample_1"].prompt_growth == {1: 50.0}
    assert "plan nested: a shared call counts once" in text(state)
    assert all(len("".join(piece for piece, _ in line)) <= 80 for line in header_lines(state, 0.0, 80))
