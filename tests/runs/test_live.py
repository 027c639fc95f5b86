"""The live fit has the numbers of the fit that is derived from the whole files, at every moment."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from elometer.core.attempt import Attempt
from elometer.runs.folder import ExperimentFolder
from elometer.runs.journal import Outcome
from elometer.runs.live import LiveFit
from elometer.runs.result import derive
from elometer.runs.sharing import draws
from elometer.runs.spec import load_experiment

SPEC = """\
experiment_id: live
taotoken: {key_label: k, key_boundary: {allowed_models: [m]}}
agent: {kind: demo, k_values: [1, 2, 4]}
eval: {tasks: ["*"]}
"""
encode = msgspec.json.Encoder().encode


def append(folder: ExperimentFolder, task: int, strategy: str, score: float | None, tokens: int) -> None:
    line = Attempt(
        experiment_id="live", strategy=strategy, task=f"t{task}", run=1, model="m", timestamp="2026-11-29T00:00:00Z",
        prompt_tokens=tokens, completion_tokens=1, total_tokens=tokens + 1, call_id=f"{task}{strategy}", final=True,
        usage_source="server",
    )  # fmt: skip
    outcome = Outcome(
        experiment_id="live", task=f"t{task}", run=1, strategy=strategy, block=task,
        outcome="infra_error" if score is None else "ok", score=score,
    )  # fmt: skip
    with folder.ledger.open("ab") as ledger, folder.outcomes.open("ab") as outcomes:
        ledger.write(encode(line) + b"\n")
        outcomes.write(encode(outcome) + b"\n")


def test_it_agrees_with_the_whole_files_after_every_block(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text(SPEC)
    folder = ExperimentFolder(tmp_path)
    experiment = load_experiment(folder.source)
    folder.ledger.touch()
    folder.outcomes.touch()
    live = LiveFit(experiment, folder)
    assert live.update() is None
    for task in range(12):
        for number, strategy in enumerate(("sample_1", "sample_2", "sample_4")):
            score = None if (task, number) == (5, 1) else float((task * 7 + number * number) % 3 > 0)
            append(folder, task, strategy, score, 100 * 2**number)
        now, whole = live.update(), derive(experiment, folder).fit
        assert now is not None
        assert whole is not None
        assert [row.strategy for row in now.strategies] == [row.strategy for row in whole.strategies]
        for mine, theirs in zip(now.strategies, whole.strategies, strict=True):
            assert mine.elo == pytest.approx(theirs.elo, abs=1e-8)
            assert mine.total_tokens == theirs.total_tokens
            assert mine.delta_lo == pytest.approx(theirs.delta_lo, abs=1e-8)
            assert mine.marginal_lo == pytest.approx(theirs.marginal_lo, abs=1e-8)


@pytest.mark.parametrize("plan", ["nested", "pool"])
def test_it_agrees_under_plans_that_share_calls(tmp_path: Path, plan: str) -> None:
    more = f"sampling: {{plan: {plan}, runs: 2}}\n" + ("eval: {ties: drop}\n" if plan == "nested" else "")
    (tmp_path / "experiment.yaml").write_text(SPEC.replace('eval: {tasks: ["*"]}\n', more))
    folder = ExperimentFolder(tmp_path)
    experiment = load_experiment(folder.source)
    live, names = LiveFit(experiment, folder), ("sample_1", "sample_2", "sample_4")
    shares = {draw.key: draw for draw in draws(experiment)}
    for task in range(10):
        for run in (1, 2):
            lines, outcomes = [], []
            for key, draw in shares.items():
                lines.append(Attempt(
                    experiment_id="live", strategy="sample_4", task=f"t{task}", run=run, model="m",
                    timestamp="2026-11-29T00:00:00Z", prompt_tokens=90 + task, completion_tokens=key[1],
                    total_tokens=90 + task + key[1], call_id=f"{task}{run}{key}", final=True,
                    usage_source="server", used_by=draw.used_by, use_share=draw.use_share,
                ))  # fmt: skip
            for number, strategy in enumerate(names):
                against = dict.fromkeys(names[number + 1 :], (0.2, 0.3 + 0.1 * (task % 3)))
                outcomes.append(Outcome(
                    experiment_id="live", task=f"t{task}", run=run, strategy=strategy, block=2 * task + run,
                    outcome="ok", score=float((task * 7 + number * number + run) % 3 > 0),
                    against=against if plan == "pool" else None,
                ))  # fmt: skip
            for path, items in ((folder.ledger, lines), (folder.outcomes, outcomes)):
                with path.open("ab") as file:
                    file.write(b"".join(encode(item) + b"\n" for item in items))
        now, whole = live.update(), derive(experiment, folder).fit
        assert now is not None
        assert whole is not None
        for mine, theirs in zip(now.strategies, whole.strategies, strict=True):
            assert mine.elo == pytest.approx(theirs.elo, abs=1e-8)
            assert mine.total_tokens == theirs.total_tokens
            assert mine.tokens_per_task_run == pytest.approx(theirs.tokens_per_task_run)


def test_an_outcome_that_is_filled_later_replaces_the_open_one(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text(SPEC)
    folder = ExperimentFolder(tmp_path)
    for task in range(4):
        for number, strategy in enumerate(("sample_1", "sample_2", "sample_4")):
            append(folder, task, strategy, None if task == 0 else float(number > task % 2), 100)
    live = LiveFit(load_experiment(folder.source), folder)
    first = live.update()
    assert first is not None
    assert first.comparisons == 9
    for strategy in ("sample_1", "sample_2", "sample_4"):
        append(folder, 0, strategy, 1.0, 100)
    second = live.update()
    assert second is not None
    assert second.comparisons == 12
