"""The demo's experiment: an experiment.yaml and a tasks.jsonl that its gateway knows the truth of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from elometer.gateway.demo.faults import KEY_VARIABLE, MODEL
from elometer.gateway.demo.model import KNOWN_TASKS
from elometer.gateway.demo.speech import ANSWER_MARK
from elometer.gateway.demo.tasks import continuous_tasks, short_tasks
from elometer.gateway.demo.truth import K_VALUES, expected_call_tokens

SYSTEM = "Think briefly, then end with a line: ANSWER: <value>"
EXTRACT = ANSWER_MARK.rstrip() + r"\s*(.+)"
CLOSENESS = {"type": "numeric", "score": "closeness"}
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
{strategies}

sampling:
  runs: {runs:<26}# independent repetitions of each task

eval:
  tasks:                          # ids of tasks.jsonl; globs are fine
    - {tasks}
  bradley_terry: true
  elo_scale: 400
  elo_base: 1000
  elo_anchor: {anchor}
"""

_MAJORITY = """\
  strategy: sample_k              # k separate answers to each task, then a majority vote
  k_values: [{k_values}]
  select: auto"""

_ORACLE = """\
  strategies:                     # the best of k by the grader itself: the ceiling that is known exactly
"""
_ORACLE_ROW = "    - {{name: {name}, samples: {k}, select: oracle, role: contestant}}"


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
    known = short_tasks(seed, _known(tasks))
    text = _text(
        seed,
        experiment_id=experiment_id,
        runs=runs,
        protocol=protocol,
        max_concurrency=max_concurrency,
        calls=tasks * runs * sum(k_values),
        tokens_a_call=expected_call_tokens(known, system=SYSTEM),
        strategies=_MAJORITY.format(k_values=", ".join(map(str, k_values))),
        tasks="demo-*",
        anchor=f"sample_{min(k_values)}",
    )
    rows = [(task.id, task.prompt, task.right, task.grader, [task.topic]) for task in known]
    return text, _tasks_text(rows)


def continuous_experiment(
    seed: int,
    *,
    experiment_id: str,
    tasks: int = 20,
    runs: int = 2,
    k_values: Sequence[int] = K_VALUES,
    protocol: str = "chat",
    max_concurrency: int = 8,
) -> tuple[str, str]:
    """The texts of an experiment whose answers are numbers, scored by closeness, with oracle strategies.

    The best of n beats the best of m with probability n / (n + m), so each doubling is worth 120.4 Elo. The
    smallest k is the anchor. Raises ValueError where the gateway does not know that many tasks.
    """
    known = continuous_tasks(seed, _known(tasks))
    text = _text(
        seed,
        experiment_id=experiment_id,
        runs=runs,
        protocol=protocol,
        max_concurrency=max_concurrency,
        calls=tasks * runs * sum(k_values),
        tokens_a_call=expected_call_tokens(known, system=SYSTEM),
        strategies=_ORACLE + "\n".join(_ORACLE_ROW.format(name=f"best_{k}", k=k) for k in k_values),
        tasks="estimate-*",
        anchor=f"best_{min(k_values)}",
    )
    rows = [(task.id, task.prompt, repr(task.truth), CLOSENESS, ["estimate"]) for task in known]
    return text, _tasks_text(rows)


def _known(tasks: int) -> int:
    if not 1 <= tasks <= KNOWN_TASKS:
        raise ValueError(f"the demo has 1 to {KNOWN_TASKS} tasks, not {tasks}")
    return tasks


def _text(
    seed: int, *, runs: int, max_concurrency: int, calls: int, tokens_a_call: float, **texts: str
) -> str:
    budget = -(-int(calls * tokens_a_call / BUDGET_SHARE) // BUDGET_STEP) * BUDGET_STEP
    return _EXPERIMENT.format(
        seed=seed,
        runs=runs,
        concurrency=max_concurrency,
        budget=budget,
        key_env=KEY_VARIABLE,
        model=MODEL,
        system=SYSTEM,
        max_tokens=MAX_TOKENS,
        **texts,
    )


def _tasks_text(rows: Iterable[tuple[str, str, str, dict[str, Any], list[str]]]) -> str:
    """Lines of tasks.jsonl from id, prompt, answer, grader and tags."""
    lines = []
    for name, prompt, right, grader, tags in rows:
        row = {
            "id": name,
            "prompt": prompt,
            "answer": right,
            "grader": grader,
            "extract": EXTRACT,
            "tags": tags,
        }
        lines.append(msgspec.json.encode(row).decode() + "\n")
    return "".join(lines)
