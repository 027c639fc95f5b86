"""Whatever stands in experiment.yaml or tasks.jsonl: an experiment, or three lines; nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elometer.core.errors import ElometerError
from elometer.runs.spec import load_experiment, resolved_yaml
from elometer.runs.tasks import read_tasks

FULL = """\
schema: 1
experiment_id: e-1
seed: 7
taotoken:
  base_url: https://g.example/api
  key_label: label
  key_env: NAME
  key_boundary: {allowed_models: [m], daily_budget_tokens: 5, headroom: 0.2, max_concurrency: 4, expires_at: 2026-12-31}
  timezone: UTC
  served_as: {m: [m-1, m-2]}
agent:
  kind: http
  model: m
  params: {temperature: 0.8}
  limits: {seconds: 3}
  strategies: [sample_1, {name: b, samples: 8, select: majority, role: control}]
sampling: {plan: independent, runs: 3}
eval: {tasks: [a, b], ties: half, ci: {level: 0.9}, elo_anchor: b}
retry: {infra: 4, backoff: [1, 60]}
stop: {looks: [0.25, 0.5, 0.75, 1.0]}
x-own: {a: [1]}
"""
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12), st.dates(), st.datetimes()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)
quick = settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def holds(file: Path) -> None:
    try:
        experiment = load_experiment(file)
    except ElometerError as error:
        assert 2 <= len(error.lines()) <= 3
        assert all("\n" not in line for line in error.lines())
    else:
        resolved_yaml(experiment)


@quick
@given(st.integers(0, len(FULL)), st.integers(0, 12), st.text(max_size=6))
def test_damaged_text(tmp_path: Path, place: int, removed: int, added: str) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_bytes((FULL[:place] + added + FULL[place + removed :]).encode("utf-8", "surrogatepass"))
    holds(file)


@quick
@given(st.data())
def test_any_value_in_any_place(tmp_path: Path, data: st.DataObject) -> None:
    tree = yaml.safe_load(FULL)
    node = tree
    while True:
        key = data.draw(st.sampled_from(sorted(node)))
        if not isinstance(node[key], dict) or data.draw(st.booleans()):
            break
        node = node[key]
    node[key] = data.draw(VALUES)
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8", errors="surrogatepass")
    holds(file)


@quick
@given(st.binary(max_size=80))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_bytes(content)
    holds(file)


TASK_KEYS = (
    "id",
    "prompt",
    "messages",
    "answer",
    "grader",
    "extract",
    "cluster",
    "weight",
    "tags",
    "direction",
)
JSON_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(max_size=12),
        st.sampled_from(["numeric", "choice", "regex", "exact", "contains", "(a", "A) x B) y", "code:", "1"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["type", "pattern", "all", "options", "tolerance", "role", "content", "A", "B"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=5,
)


@quick
@given(st.dictionaries(st.sampled_from(TASK_KEYS), JSON_VALUES, max_size=4))
def test_any_task(tmp_path: Path, changed: dict[str, object]) -> None:
    task = {"id": "t", "prompt": "A) x B) y", "answer": "1", **changed}
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(task) + "\n")
    try:
        read_tasks(file)
    except ElometerError as error:
        assert len(error.lines()) == 3
        assert all("\n" not in line for line in error.lines())


@quick
@given(st.binary(max_size=60))
def test_any_task_bytes(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(content)
    try:
        read_tasks(file)
    except ElometerError as error:
        assert len(error.lines()) == 3
