"""Stand-ins for the use cases, so that screens are tested on files alone."""

from __future__ import annotations

import functools
import itertools
import json
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from elometer.core.limits import Boundary
from elometer.jobs.account import KeyDay
from elometer.jobs.profiles import ProfileRow
from elometer.profiles.presets import Preset
from elometer.rating.fit import FitResult, TokenUse, fit
from elometer.rating.records import read_records
from elometer.runs.ceilings import Ceiling
from elometer.runs.result import Derived, Remarks
from elometer.tui.verbs import Verbs


@functools.cache
def made_up_fit() -> FitResult:
    """A fit of made-up pairs with tokens like the founding ones: first steps clear, last ones not."""
    draw = random.Random(5)
    strength = {"sample_1": 0.30, "sample_2": 0.42, "sample_4": 0.55, "sample_8": 0.60, "sample_16": 0.62}
    tokens = {"sample_1": 330, "sample_2": 640, "sample_4": 1250, "sample_8": 2470, "sample_16": 4940}
    names = list(strength)
    lines = []
    charged = {}
    for task in range(24):
        hard = draw.uniform(-0.25, 0.25)
        for run in (1, 2, 3):
            scores = {name: float(draw.random() < strength[name] + hard) for name in names}
            for name in names:
                charged[(f"t{task}", run, name)] = int(tokens[name] * draw.uniform(0.8, 1.2))
            for one, other in itertools.combinations(names, 2):
                better = scores[one] - scores[other]
                outcome = "tie" if not better else "a" if better > 0 else "b"
                winner, loser = (None, None) if not better else (one, other) if better > 0 else (other, one)
                lines.append(
                    {
                        "experiment_id": "demo", "task": f"t{task}", "run": run, "winner": winner, "loser": loser,
                        "a": one, "b": other, "outcome": outcome, "source": "score",
                    }
                )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairwise_records.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        records = read_records(path)
    totals = {name: sum(spent for (_t, _r, who), spent in charged.items() if who == name) for name in names}
    keyed = {(name, task, run): spent for (task, run, name), spent in charged.items()}
    return fit(records, TokenUse(charged=keyed, total_tokens=totals))


@dataclass
class StandIns(Verbs):
    """Verbs that note what was asked."""

    asked: list[tuple[str, object]] = field(default_factory=list)
    fit: FitResult | None = None
    ceilings: tuple[Ceiling, ...] = ()
    remarks: Remarks | None = None
    found: list[object] = field(default_factory=list)
    fixed: bool = False  # profiles that never change, for pictures

    def start_demo(self) -> Path:
        self.asked.append(("demo", None))
        raise NotImplementedError

    def set_state(self, folder: Path, state: str) -> None:
        self.asked.append(("state", state))

    def set_limit(self, folder: Path, limit: int) -> None:
        self.asked.append(("limit", limit))

    def starts(self) -> list[object]:
        return self.found

    def current_fit(self, folder: Path) -> FitResult | None:
        return self.fit

    def current_result(self, folder: Path) -> Derived | None:
        return Derived([], self.fit, "", self.ceilings, self.remarks)

    def profiles(self) -> list[ProfileRow]:
        if not self.fixed:
            return list(super().profiles())
        limits = Boundary(("model-1",), 200_000, 4)
        return [
            ProfileRow(
                name, tool, "https://gateway.example", url, "eval", "a1b2c3d4", active, (), limits, "model-1"
            )
            for name, tool, url, active in (
                ("gateway-cc", "claude-code", "https://gateway.example", True),
                ("gateway-cx", "codex", "https://gateway.example/v1", False),
            )
        ]

    def key_days(self) -> dict[str, KeyDay]:
        if not self.fixed:
            return dict(super().key_days())
        return {"eval": KeyDay("eval", "2026-11-29", 12_345, 12_345, 200_000)}

    def presets(self) -> list[Preset]:
        return [] if self.fixed else list(super().presets())

    def standing(self, folder: Path) -> str:
        return "running"

    def live_cost(self) -> int:
        return 96

    def live_checks(self, folder: Path | None) -> list[object]:
        self.asked.append(("live", folder))
        return [
            answer("models.served", "models", "Does the gateway serve the model?", "pass", "m-1 answered")
        ]

    def active_profiles(self) -> dict[str, str]:
        return {"claude-code": "gateway-cc", "codex": "gateway-cx"}

    def checks(self, folder, *, only=(), known=None) -> list[object]:
        rows = [
            answer("key.set", "key", "Is the key set?", "pass", "env:EVAL_KEY is set (fingerprint a1b2c3d4)"),
            answer("key.two", "key", "Is there one authentication variable only?", "fail",
                   "ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN are both set",
                   cause="Claude Code sends both headers and the gateway takes the wrong one.",
                   fix="unset ANTHROPIC_API_KEY"),
            answer("url.v1", "url", "Does the root end in /v1 where the tool adds it?", "warn", "https://g.example/v1",
                   cause="Claude Code adds /v1 itself.", fix="elometer profile edit cc --base-url https://g.example"),
            answer("models.served", "models", "Does the gateway serve the model?", "unknown", "not asked: needs --live"),
        ]  # fmt: skip
        return [row for row in rows if not only or row.check.id in only]


def answer(
    id: str, family: str, question: str, status: str, *evidence: str, cause: str = "", fix: str = ""
) -> object:
    """A row as the engine of the checks makes it."""
    return SimpleNamespace(
        check=SimpleNamespace(id=id, family=family, question=question),
        status=status,
        result=SimpleNamespace(evidence=evidence, cause=cause, fix=fix, tokens=0),
    )
