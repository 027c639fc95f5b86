"""The demo's texts: a valid experiment whose tasks the gateway knows and whose budget fits."""

from __future__ import annotations

import json

import pytest
import yaml

from elometer.gateway.demo.experiment import SYSTEM, continuous_experiment, demo_experiment
from elometer.gateway.demo.speech import answer
from elometer.gateway.demo.tasks import continuous_tasks, short_tasks
from elometer.gateway.demo.tokenizer import count, prompt_tokens

FOUNDING = {"experiment_id", "taotoken", "agent", "eval"}


@pytest.mark.parametrize("seed", [0, 7, 2**31 - 1])
def test_the_texts_say_what_the_gateway_knows(seed: int) -> None:
    text, tasks_text = demo_experiment(seed, experiment_id="demo-20261129T193000Z")
    spec = yaml.safe_load(text)
    assert set(spec) >= FOUNDING
    assert spec["seed"] == seed
    assert spec["agent"]["kind"] == "demo"
    assert spec["agent"]["k_values"] == [1, 2, 4, 8, 16]
    assert spec["agent"]["system"] == SYSTEM
    assert spec["agent"]["model"] in spec["taotoken"]["key_boundary"]["allowed_models"]
    rows = [json.loads(line) for line in tasks_text.splitlines()]
    known = short_tasks(seed, 20)
    assert [(row["id"], row["prompt"], row["answer"]) for row in rows] == [
        (task.id, task.prompt, task.right) for task in known
    ]
    assert {row["grader"]["type"] for row in rows} == {"exact", "choice", "numeric"}


@pytest.mark.parametrize("seed", range(8))
def test_the_budget_is_used_by_three_fifths_to_four_fifths(seed: int) -> None:
    text, _ = demo_experiment(seed, experiment_id="x")
    budget = yaml.safe_load(text)["taotoken"]["key_boundary"]["daily_budget_tokens"]
    spent = sum(
        prompt_tokens([SYSTEM, task.prompt]) + count(answer(task, sample))
        for task in short_tasks(seed, 20)
        for sample in range(2 * 31)
    )
    assert 0.6 <= spent / budget <= 0.8
    # What a plan asks for: a fifth of headroom over the estimate.
    assert spent * 1.2 <= budget


def test_options_and_their_limits() -> None:
    text, tasks_text = demo_experiment(
        1, experiment_id="x", tasks=3, runs=1, k_values=(2, 4), protocol="messages", max_concurrency=3
    )
    spec = yaml.safe_load(text)
    assert spec["agent"]["protocol"] == "messages"
    assert spec["agent"]["k_values"] == [2, 4]
    assert spec["eval"]["elo_anchor"] == "sample_2"
    assert spec["taotoken"]["key_boundary"]["max_concurrency"] == 3
    assert spec["sampling"]["runs"] == 1
    assert len(tasks_text.splitlines()) == 3
    for wrong in (0, 201):
        with pytest.raises(ValueError, match="1 to 200"):
            demo_experiment(1, experiment_id="x", tasks=wrong)


def test_the_continuous_experiment_scores_by_closeness_with_oracles_in_the_fit() -> None:
    text, tasks_text = continuous_experiment(4, experiment_id="x", tasks=6, k_values=(1, 2, 4))
    spec = yaml.safe_load(text)
    assert [row["name"] for row in spec["agent"]["strategies"]] == ["best_1", "best_2", "best_4"]
    assert {(row["select"], row["role"]) for row in spec["agent"]["strategies"]} == {("oracle", "contestant")}
    assert spec["eval"]["elo_anchor"] == "best_1"
    for line, task in zip(tasks_text.splitlines(), continuous_tasks(4, 6), strict=True):
        row = json.loads(line)
        assert (row["id"], row["prompt"], float(row["answer"])) == (task.id, task.prompt, task.truth)
        assert row["grader"] == {"type": "numeric", "score": "closeness"}
    spent = sum(
        prompt_tokens([SYSTEM, task.prompt]) + count(answer(task, sample))
        for task in continuous_tasks(4, 6)
        for sample in range(2 * 7)
    )
    assert 0.5 <= spent / spec["taotoken"]["key_boundary"]["daily_budget_tokens"] <= 0.8
