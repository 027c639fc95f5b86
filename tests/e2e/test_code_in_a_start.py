"""Verifiers and code graders within a start: chosen by what is visible, judged by what is hidden."""

from __future__ import annotations

import json

from tests.e2e.renaming_gateway import KEY, gateway, lines, write_experiment
from tests.e2e.workspace import Workspace

LONGEST = """\
def grade(answer, task):
    assert "answer" not in task
    return len(answer)
"""
HIDDEN = """\
def grade(answer, task):
    return answer.strip() == task["answer"]
"""


def test_a_verifier_chooses_and_a_hidden_grader_judges(place: Workspace) -> None:
    with gateway() as url:
        spec = write_experiment(
            place,
            "coded",
            url,
            strategies="strategies: [sample_1, {name: checked_4, samples: 4, select: verifier}]",
            tasks=3,
        )
        folder = spec.parent
        (folder / "visible.py").write_text(LONGEST)
        (folder / "hidden.py").write_text(HIDDEN)
        tasks = lines(folder / "tasks.jsonl")
        for task in tasks:
            task["grader"] = {"type": "python", "file": "hidden.py"}
            task["verify"] = {"type": "python", "file": "visible.py"}
        (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
        home = place.experiments / "coded"
        answers = {task["id"]: task["answer"] for task in tasks}
        texts: dict[str, dict[int, str]] = {}
        for sample in lines(home / "samples.jsonl"):
            if sample["strategy"] == "checked_4":
                texts.setdefault(sample["task"], {})[sample["sample"]] = sample["extracted"] or ""
        outcomes = lines(home / "outcomes.jsonl")
        assert len(outcomes) == 6
        for outcome in outcomes:
            # Without an answer there was nothing to judge.
            assert bool(outcome["isolation"]) == (outcome["outcome"] != "no_answer")
            right = (outcome["answer"] or "").strip() == answers[outcome["task"]]
            assert outcome["score"] == float(right)
            if outcome["strategy"] == "checked_4":
                made = texts[outcome["task"]]
                longest = max(made, key=lambda number: (len(made[number]), -number))
                assert outcome["sample"] == longest
        assert "Graders' code was kept apart by: rlimit" in done.stdout
        # The judges were copied with the tasks, and may not change between two starts.
        assert (home / "hidden.py").read_text() == HIDDEN
        (folder / "hidden.py").write_text(HIDDEN + "# changed\n")
        refused = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert refused.returncode == 2
        assert "hidden.py" in refused.stderr
        assert "Traceback" not in refused.stderr
        (folder / "hidden.py").unlink()
        assert place.run("run", home, "--plain", TAOTOKEN_API_KEY=KEY).returncode == 0
