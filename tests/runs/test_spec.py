"""experiment.yaml: what is accepted, what it comes to, and that its resolved form says the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elometer.runs.spec import (
    Experiment,
    Strategy,
    default_seed,
    load_experiment,
    resolved_yaml,
    spec_difference,
)

FOUNDING = Path(__file__).parents[1] / "fixtures" / "founding" / "experiment.yaml"


def load(folder: Path, text: str) -> Experiment:
    file = folder / "experiment.yaml"
    file.write_text(text, encoding="utf-8")
    return load_experiment(file)


def minimal(**agent: object) -> dict[str, object]:
    return {
        "experiment_id": "e-1",
        "gateway": {"base_url": "https://gateway.example/api"},
        "agent": {"model": "m", **agent},
    }


def load_data(folder: Path, data: dict[str, object]) -> Experiment:
    return load(folder, yaml.safe_dump(data, sort_keys=False))


def test_the_founding_file_is_valid_as_it_stands() -> None:
    experiment = load_experiment(FOUNDING)
    boundary = experiment.gateway.boundary
    assert experiment.experiment_id == "bt-eval-001"
    assert experiment.gateway.base_url == "https://taotoken.net/api"
    assert experiment.gateway.key_label == "bt-eval-sample-k"
    assert boundary.allowed_models == ("your-agent-model",)
    assert (boundary.daily_budget_tokens, boundary.max_concurrency) == (200_000, 4)
    # The end of 2025-12-31 in UTC.
    assert boundary.expires_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert experiment.agent.model == "your-agent-model"
    assert [(one.name, one.samples) for one in experiment.strategies] == [
        ("sample_1", 1),
        ("sample_2", 2),
        ("sample_4", 4),
        ("sample_8", 8),
        ("sample_16", 16),
    ]
    assert experiment.eval.tasks == ("task-a", "task-b", "task-c")
    assert (experiment.eval.elo_scale, experiment.eval.elo_base) == (400, 1000)
    assert experiment.eval.elo_anchor == "sample_1"
    assert experiment.sampling.runs == 3


def test_the_resolved_file_reads_back_as_the_same_experiment(tmp_path: Path) -> None:
    experiment = load_experiment(FOUNDING)
    text = resolved_yaml(experiment)
    again = load(tmp_path, text)
    assert again == experiment
    assert resolved_yaml(again) == text


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    k_values=st.lists(st.integers(1, 64), min_size=1, max_size=5, unique=True),
    runs=st.integers(1, 9),
    notes=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30),
    temperature=st.floats(0.01, 2),
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]),
    expires=st.one_of(st.none(), st.dates(), st.datetimes()),
    served=st.dictionaries(st.sampled_from(["m", "m-2"]), st.sampled_from(["m-2026", ["x", "y"]])),
)
def test_any_experiment_survives_its_resolved_form(
    tmp_path: Path, k_values, runs, notes, temperature, timezone, expires, served
) -> None:
    data = minimal(k_values=k_values, params={"temperature": temperature})
    data["notes"] = notes
    data["sampling"] = {"runs": runs}
    boundary = {"expires_at": expires} if expires is not None and expires.year < 9999 else {}
    data["gateway"] = {
        "base_url": "https://gateway.example",
        "timezone": timezone,
        "served_as": served,
        "key_boundary": boundary,
    }
    experiment = load_data(tmp_path, data)
    assert load(tmp_path, resolved_yaml(experiment)) == experiment


def test_a_bare_date_ends_with_its_day_in_the_time_zone(tmp_path: Path) -> None:
    data = minimal()
    data["gateway"] |= {"timezone": "Asia/Tokyo", "key_boundary": {"expires_at": "2026-12-31"}}
    expires = load_data(tmp_path, data).gateway.boundary.expires_at
    # Tokyo is nine hours ahead of UTC.
    assert expires == datetime(2026, 12, 31, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-12-31T18:00:00Z", datetime(2026, 12, 31, 18, tzinfo=UTC)),
        ("2026-12-31 18:00:00", datetime(2026, 12, 31, 17, tzinfo=UTC)),  # Berlin in winter: UTC+1
        ("'2026-12-31T18:00:00+05:30'", datetime(2026, 12, 31, 12, 30, tzinfo=UTC)),
    ],
)
def test_a_time_keeps_its_offset_or_takes_the_time_zone(
    tmp_path: Path, written: str, moment: datetime
) -> None:
    text = (
        "experiment_id: e\nagent: {model: m}\n"
        "gateway:\n  base_url: https://g.example\n  timezone: Europe/Berlin\n"
        f"  key_boundary:\n    expires_at: {written}\n"
    )
    assert load(tmp_path, text).gateway.boundary.expires_at == moment


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("https://g.example/api", "https://g.example/api"),
        ("https://g.example/api/", "https://g.example/api"),
        ("https://g.example/api/v1", "https://g.example/api"),
        ("https://g.example/v1/?x=1", "https://g.example"),
        ("https://g.example/api/v1/v1", "https://g.example/api"),
        ("https://g.example//api/v1/chat/completions", "https://g.example/api"),
        ("https://g.example/api/paas/v4", "https://g.example/api/paas/v4"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_the_root_is_what_clients_append_to(tmp_path: Path, url: str, root: str) -> None:
    data = minimal()
    data["gateway"] = {"base_url": url}
    assert load_data(tmp_path, data).gateway.base_url == root


def test_strategies_by_short_form_and_by_mapping(tmp_path: Path) -> None:
    listed = [
        "sample_1",
        "sample_4",
        "random_8",
        "oracle_8",
        {"name": "vote", "samples": 3},
        {"name": "best", "samples": 8, "select": "oracle", "role": "contestant"},
    ]
    experiment = load_data(tmp_path, minimal(strategies=listed))
    assert experiment.strategies == (
        Strategy("sample_1", 1, "first", "contestant"),
        Strategy("sample_4", 4, "auto", "contestant"),
        Strategy("random_8", 8, "random", "control"),
        Strategy("oracle_8", 8, "oracle", "ceiling"),
        Strategy("vote", 3, "auto", "contestant"),
        Strategy("best", 8, "oracle", "contestant"),
    )
    assert [one.name for one in experiment.contestants] == [
        "sample_1",
        "sample_4",
        "random_8",
        "vote",
        "best",
    ]


def test_k_values_stand_in_natural_order_whatever_the_file_says(tmp_path: Path) -> None:
    experiment = load_data(tmp_path, minimal(k_values=[16, 2, 1]))
    assert [one.name for one in experiment.strategies] == ["sample_1", "sample_2", "sample_16"]
    assert experiment.eval.elo_anchor == "sample_1"


def test_a_path_among_tasks_is_a_tasks_file(tmp_path: Path) -> None:
    data = minimal()
    data["eval"] = {"tasks": "problems/math.jsonl"}
    evaluation = load_data(tmp_path, data).eval
    assert (evaluation.tasks, evaluation.tasks_file) == (("*",), "problems/math.jsonl")


def test_anchors_and_merges_of_yaml_work(tmp_path: Path) -> None:
    text = (
        "experiment_id: e\n"
        "x-common: &common {temperature: 0.5, top_p: 0.9}\n"
        "gateway: {base_url: 'https://g.example'}\n"
        "agent:\n  model: m\n  params:\n    <<: *common\n    top_p: 0.8\n"
    )
    experiment = load(tmp_path, text)
    assert experiment.agent.params == {"temperature": 0.5, "top_p": 0.8}
    assert experiment.extra == {"x-common": {"temperature": 0.5, "top_p": 0.9}}


def test_x_keys_are_kept_at_every_level_and_bind_nothing(tmp_path: Path) -> None:
    plain = load_data(tmp_path, minimal())
    data = {**minimal(), "x-team": ["a", "b"]}
    data["gateway"] = {**data["gateway"], "x-ticket": 7}
    experiment = load_data(tmp_path, data)
    assert experiment.extra == {"x-team": ["a", "b"], "taotoken.x-ticket": 7}
    assert load(tmp_path, resolved_yaml(experiment)) == experiment
    assert spec_difference(resolved_yaml(plain), resolved_yaml(experiment)) == []


def test_a_demo_needs_no_base_url(tmp_path: Path) -> None:
    text = "experiment_id: d\nagent: {kind: demo, model: m}\n"
    experiment = load(tmp_path, text)
    assert experiment.gateway.base_url == ""
    assert load(tmp_path, resolved_yaml(experiment)) == experiment


def test_the_seed_follows_from_the_id_and_stays(tmp_path: Path) -> None:
    assert load_data(tmp_path, minimal()).seed == default_seed("e-1")
    assert default_seed("e-1") != default_seed("e-2")
    assert 0 <= default_seed("e-1") < 2**31
    assert load_data(tmp_path, {**minimal(), "seed": 0}).seed == 0


@pytest.mark.parametrize("written", ["1e-3", "1.0e-3", "0.001"])
def test_numbers_as_people_write_them(tmp_path: Path, written: str) -> None:
    text = (
        "experiment_id: e\nagent: {model: m}\ngateway: {base_url: 'https://g.example'}\n"
        f"eval: {{tie_epsilon: {written}}}\n"
    )
    assert load(tmp_path, text).eval.tie_epsilon == 0.001


def test_a_difference_names_key_and_both_values(tmp_path: Path) -> None:
    before = load_data(tmp_path, minimal(params={"temperature": 0.8}))
    after = load_data(tmp_path, minimal(params={"temperature": 0.7}, k_values=[1, 2]))
    changes = spec_difference(resolved_yaml(before), resolved_yaml(after))
    assert changes[0] == "agent.params.temperature: 0.8 → 0.7"
    assert len(changes) == 2
    assert changes[1].startswith("agent.strategies: sample_1/1/first")


def test_what_moves_no_number_may_change_between_starts(tmp_path: Path) -> None:
    before = load_data(tmp_path, minimal())
    gateway = replace(
        before.gateway,
        key_env="OTHER_KEY",
        headroom=0.5,
        boundary=replace(before.gateway.boundary, daily_budget_tokens=5, max_concurrency=9),
    )
    after = replace(before, gateway=gateway, notes="tomorrow again")
    assert spec_difference(resolved_yaml(before), resolved_yaml(after)) == []
    other = replace(before, gateway=replace(before.gateway, key_label="another-key"))
    assert spec_difference(resolved_yaml(before), resolved_yaml(other)) == [
        "taotoken.key_label: null → another-key"
    ]
