"""The demo's experiment: an experiment.yaml and a tasks.jsonl that its gateway knows the truth of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from elometer.gateway.demo.faults import KEY_VARIABLE, MODEL
from elometer.gateway.demo.model import KNOWN_TASKS
from elometer.gateway.demo.speech import ANSWER_MARK
from elometer.gateway.demo.tasks import short_tasks
from elometer.gateway.demo.truth import K_VALUES, expected_call_tokens

SYSTEM = "Think briefly, then end with a line: ANSWER: <value>"
EXTRACT = ANSWER_MARK.rstrip() + r"\s*(.+)"
MAX_TOKENS = 256
# At the end of the demo about so much of the day's budget is used: enough to be seen, with room to plan.
BUDGET_SHARE = 0.7
BUDGET_STEP = 5000

_EXPERIMENT = """\
# The demo: how much Elo does each further sample buy? A simulation on this machine, whose true accuracies
# are known, answers every call. Copy the file, name a gateway and a key, and it measures a real model.
schema: 1
experiment_id: {experiment_id}
seed: {seed:<28}# decides tasks, order, samples, and what the simulation answers

taotoken:                         # the gateway (the key may also be written `gateway:`)
  # base_url is left out: the demo starts a gateway of its own on a free port.
  key_label: bt-eval-demo         # a name, never the key
  key_env: {key_env:<23}# the variable that holds the key; the demo makes one up
  key_boundary:
    allowed_models:
      - {model}
    daily_budget_tokens: {budget}
    max_concurrency: {concurrency:<13}# calls in flight at once

agent:
  framework: elometer-demo
  kind: demo                      # a simulation; `http` calls a real gateway
  model: {model}
  protocol: {protocol:<22}# chat, responses or messages
  system: "{system}"
  params: {{temperature: 0.8, max_tokens: {max_tokens}}}
  strategy: sample_k              # k separate answers to each task, then a majority vote
  k_values: [{k_values}]
  select: auto

sampling:
  runs: {runs:<26}# independent repetitions of each task

eval:
  tasks:                          # ids of tasks.jsonl; globs are fine
    - demo-*
  bradley_terry: true
  elo_scale: 400
  elo_base: 1000
  elo_anchor: {anchor}
"""


def demo_experiment(
    seed: int,
    *,
    experiment_id: str,
    tasks: int = 20,
    runs: int = 2,
    k_values: Sequence[int] = K_VALUES,
    protocol: str = "chat",
    max_concurrency: int = 8,
) -> tuple[str, str]:
    """The texts of experiment.yaml and tasks.jsonl of a demo with `tasks` short-answer tasks (1 to 200).

    The daily budget follows from the closed form of what the calls will cost. Raises ValueError where the
    gateway does not know that many tasks.
    """
    if not 1 <= tasks <= KNOWN_TASKS:
        raise ValueError(f"the demo has 1 to {KNOWN_TASKS} tasks, not {tasks}")
    text = _EXPERIMENT.format(
        experiment_id=experiment_id,
        seed=seed,
        key_env=KEY_VARIABLE,
        model=MODEL,
        budget=_budget(seed, tasks, runs, k_values),
        concurrency=max_concurrency,
        protocol=protocol,
        system=SYSTEM,
        max_tokens=MAX_TOKENS,
        k_values=", ".join(map(str, k_values)),
        runs=runs,
        anchor=f"sample_{min(k_values)}",
    )
    return text, tasks_text(seed, tasks)


def tasks_text(seed: int, count: int) -> str:
    """The first `count` short-answer tasks of a seed as lines of tasks.jsonl."""
    rows: list[dict[str, Any]] = [
        {
            "id": task.id,
            "prompt": task.prompt,
            "answer": task.right,
            "grader": task.grader,
            "extract": EXTRACT,
            "tags": [task.topic],
        }
        for task in short_tasks(seed, count)
    ]
    return "".join(msgspec.json.encode(row).decode() + "\n" for row in rows)


def _budget(seed: int, tasks: int, runs: int, k_values: Sequence[int]) -> int:
    """The daily budget, rounded up to a round number."""
    calls = tasks * runs * sum(k_values)
    expected = calls * expected_call_tokens(short_tasks(seed, tasks), system=SYSTEM)
    return -(-int(expected / BUDGET_SHARE) // BUDGET_STEP) * BUDGET_STEP
