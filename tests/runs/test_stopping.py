"""Stop rules, served names and rounds as pure functions: right values by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from elometer.core.attempt import Message
from elometer.core.errors import SpecError
from elometer.runs.calls import NO_ANSWER_TURN, REVIEW, places, turns
from elometer.runs.folder import ExperimentFolder
from elometer.runs.graders.kinds import Exact
from elometer.runs.plan import Block
from elometer.runs.served import ServedNames, frozen_names
from elometer.runs.spec import Experiment, Stop, Strategy, load_experiment, resolved_yaml, spec_difference
from elometer.runs.stopping import Looks, spent_enough, too_late
from elometer.runs.tasks import Task

SPEC = """\
experiment_id: e
gateway: {{base_url: https://g.example, timezone: Europe/Berlin{gateway}}}
agent: {{model: m, {agent}}}
{more}
"""


def loaded(folder: Path, *, agent: str = "k_values: [1, 2]", gateway: str = "", more: str = "") -> Experiment:
    file = folder / "experiment.yaml"
    file.write_text(SPEC.format(agent=agent, gateway=gateway, more=more))
    return load_experiment(file)


# ── looks ──────────────────────────────────────────────────────────────────────────────────────────────


def test_looks_fall_on_the_block_that_completes_a_share() -> None:
    looks = Looks((0.25, 0.5, 0.75, 1.0), blocks=10, done=0)
    due = [looks.block_done() for _block in range(10)]
    assert due == [None, None, 0.25, None, 0.5, None, None, 0.75, None, 1.0]


def test_a_resumed_start_does_not_look_again() -> None:
    looks = Looks((0.5, 0.25), blocks=8, done=3)
    assert [looks.block_done() for _block in range(5)] == [0.5, None, None, None, None]


@given(
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6, unique=True),
    st.integers(1, 60),
    st.integers(0, 60),
)
def test_two_starts_look_as_often_as_one(shares: list[float], blocks: int, cut: int) -> None:
    cut = min(cut, blocks)
    whole = Looks(tuple(shares), blocks, 0)
    undisturbed = [whole.block_done() for _block in range(blocks)]
    first, second = Looks(tuple(shares), blocks, 0), Looks(tuple(shares), blocks, cut)
    assert [first.block_done() for _block in range(cut)] + [
        second.block_done() for _block in range(blocks - cut)
    ] == undisturbed


def test_spending_counts_what_open_blocks_still_need() -> None:
    stop = Stop(spend_tokens=1000)
    assert not spent_enough(stop, 700, {}, 300)
    assert spent_enough(stop, 701, {}, 300)
    assert not spent_enough(stop, 500, {4: 100}, 300)  # 500 + 200 to come + 300
    assert spent_enough(stop, 501, {4: 100}, 300)
    assert not spent_enough(stop, 999, {}, 0)  # nothing is known of a block yet
    assert spent_enough(stop, 1000, {}, 0)
    assert not spent_enough(Stop(), 10**9, {}, 10**9)


def test_a_bare_date_is_the_end_of_that_day_where_the_key_lives(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, more="stop: {deadline: 2026-07-01}")
    assert experiment.stop.deadline is not None
    assert experiment.stop.deadline.astimezone(UTC) == datetime(2026, 7, 1, 22, tzinfo=UTC)
    assert not too_late(experiment.stop, datetime(2026, 7, 1, 21, 59, 59, tzinfo=UTC))
    assert "2026-07-02" in too_late(experiment.stop, datetime(2026, 7, 1, 22, tzinfo=UTC))
    (tmp_path / "again.yaml").write_text(resolved_yaml(experiment))
    assert load_experiment(tmp_path / "again.yaml").stop == experiment.stop


# ── served names ───────────────────────────────────────────────────────────────────────────────────────


def test_the_first_answer_names_the_model_and_others_are_strangers(tmp_path: Path) -> None:
    names = ServedNames(loaded(tmp_path), {}, {})
    learnt = names.look("m", "m-2026")
    assert learnt is not None
    assert (learnt.names, learnt.how) == (("m-2026",), "learnt")
    assert names.look("m", "other") is None
    assert not names.stranger("m", "m-2026")
    assert not names.stranger("m", "m")  # a server that says nothing is booked so
    assert names.stranger("m", "other")
    (accepted,) = names.accept()
    assert accepted.names == ("m-2026", "other")
    assert not names.stranger("m", "other")


def test_the_users_word_beats_what_was_learnt(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, gateway=", served_as: {m: [m-2027]}")
    names = ServedNames(experiment, {"m": ("m-2026",)}, {"m": Counter({"m-2026": 9})})
    assert names.stranger("m", "m-2026")
    assert not names.stranger("m", "m-2027")
    assert [event.how for event in names.known()] == ["given"]


def test_a_model_outside_the_boundary_is_a_stranger_whoever_answers(tmp_path: Path) -> None:
    names = ServedNames(loaded(tmp_path, gateway=", key_boundary: {allowed_models: [m]}"), {}, {})
    assert names.look("small", "small") is None
    assert names.stranger("small", "small")


def test_freezing_changes_the_served_names_and_nothing_else(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, more="x-mine: {a: 1}\nnotes: n")
    folder = ExperimentFolder(tmp_path)
    before = resolved_yaml(experiment)
    folder.resolved.write_text(before)
    names = ServedNames(experiment, frozen_names(folder), {})
    names.look("m", "m-2026")
    assert names.unsaved
    names.freeze(folder)
    assert not names.unsaved
    assert frozen_names(folder) == {"m": ("m-2026",)}
    then, now = yaml.safe_load(before), yaml.safe_load(folder.resolved.read_text())
    assert now["taotoken"].pop("served_as") == {"m": ["m-2026"]}
    then["taotoken"].pop("served_as")
    assert now == then
    assert spec_difference(before, folder.resolved.read_text()) == []


# ── rounds ─────────────────────────────────────────────────────────────────────────────────────────────

TASK = Task("t", (Message("user", "Why?"),), "42", Exact(("42",)), answers=("42",))


def test_a_later_round_sees_task_last_answer_and_instruction_alone() -> None:
    assert turns(TASK, None) == TASK.messages
    shown = turns(TASK, "<think>secret</think>41")
    assert shown == (*TASK.messages, Message("assistant", "41"), Message("user", REVIEW))
    assert turns(TASK, "  ")[1].content == NO_ANSWER_TURN
    assert "42" not in REVIEW


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("strategy: rounds_n, k_values: [4, 1]", [Strategy("rounds_1"), Strategy("rounds_4", rounds=4)]),
        ("strategies: [sample_1, rounds_3]", [Strategy("sample_1"), Strategy("rounds_3", rounds=3)]),
        ("strategies: [{name: deep, rounds: 3, keep: last}]", [Strategy("deep", rounds=3)]),
        (
            "strategies: [{name: rounds_3, role: control}, {name: random_4, role: control}]",
            [
                Strategy("rounds_3", role="control", rounds=3),
                Strategy("random_4", 4, "random", role="control"),
            ],
        ),
    ],
)
def test_rounds_in_all_their_forms(tmp_path: Path, agent: str, expected: list[Strategy]) -> None:
    experiment = loaded(tmp_path, agent=agent)
    assert list(experiment.strategies) == expected
    (tmp_path / "again.yaml").write_text(resolved_yaml(experiment))
    assert replace(load_experiment(tmp_path / "again.yaml"), extra={}) == replace(experiment, extra={})


@pytest.mark.parametrize(
    "agent",
    [
        "strategies: [rounds_65]",
        "strategy: rounds_n, k_values: [100]",
        "strategies: [{name: r, rounds: 3, samples: 2}]",
        "strategies: [{name: r, rounds: 3, select: majority}]",
    ],
)
def test_rounds_that_mean_nothing_are_refused(tmp_path: Path, agent: str) -> None:
    with pytest.raises(SpecError):
        loaded(tmp_path, agent=agent)


def test_places_count_rounds_up_and_every_place_has_its_own_name(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, agent="strategies: [sample_2, rounds_4]")
    found = places(experiment, Block(0, "t", 1))
    assert [place.draw.round for place in found if place.draw.owner.name == "rounds_4"] == [1, 2, 3, 4]
    assert [place.draw.sample for place in found if place.draw.owner.name == "sample_2"] == [1, 2]
    assert len({place.call_id for place in found}) == 6
