"""Stand-ins for the use cases, so that screens are tested on files alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from elometer.tui.verbs import Verbs

# The founding table; the intervals are made up.
TABLE = [
    ("sample_1", 12_000, 1000.0, None, None, None),
    ("sample_2", 23_000, 1028.0, 28.0, 11_000, 2.55),
    ("sample_4", 45_000, 1044.0, 16.0, 22_000, 0.73),
    ("sample_8", 89_000, 1053.0, 9.0, 44_000, 0.20),
    ("sample_16", 178_000, 1058.0, 5.0, 89_000, 0.06),
]


def founding_fit() -> SimpleNamespace:
    """A fit with the numbers of the founding table; 36 task-runs."""
    strategies = []
    for at, (name, tokens, elo, delta, step, marginal) in enumerate(TABLE):
        per_run = None if marginal is None else marginal * 36
        half = 9.0 + at
        strategies.append(
            SimpleNamespace(
                strategy=name,
                total_tokens=tokens,
                elo=elo,
                elo_lo=elo - half if at else 1000.0,
                elo_hi=elo + half if at else 1000.0,
                delta_elo=delta,
                delta_lo=None if delta is None else delta - 12,
                delta_hi=None if delta is None else delta + 12,
                delta_token=step,
                marginal_elo_per_1k=marginal,
                marginal_per_1k_task_run=per_run,
                marginal_lo=None if per_run is None else per_run - 10,
                marginal_hi=None if per_run is None else per_run + 10,
                elo_per_doubling=delta,
                tokens_per_task_run=tokens / 36,
                win_rate_vs_anchor=0.5,
                win_rate_round_robin=0.5,
                resolved=delta is not None and delta > 12,
            )  # fmt: skip
        )
    return SimpleNamespace(
        strategies=strategies, tasks=12, comparisons=360, tie_rate=0.41, identified=True, components=[],
        unbounded=[], warnings=[SimpleNamespace(code="few_tasks", message="12 tasks: intervals are approximate.")],
        estimator="firth", anchor="sample_1",
    )  # fmt: skip


@dataclass
class StandIns(Verbs):
    """Verbs that note what was asked."""

    asked: list[tuple[str, object]] = field(default_factory=list)
    fit: object = None
    found: list[object] = field(default_factory=list)

    def start_demo(self) -> Path:
        self.asked.append(("demo", None))
        raise NotImplementedError

    def set_state(self, folder: Path, state: str) -> None:
        self.asked.append(("state", state))

    def set_limit(self, folder: Path, limit: int) -> None:
        self.asked.append(("limit", limit))

    def starts(self) -> list[object]:
        return self.found

    def current_fit(self, folder: Path) -> object:
        return self.fit

    def active_profiles(self) -> dict[str, str]:
        return {"claude-code": "gateway-cc", "codex": "gateway-cx"}

    def checks(self, folder: Path | None, only: str | None = None) -> list[object]:
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
        return [row for row in rows if only in (None, row.check.id)]


def answer(
    id: str, family: str, question: str, status: str, *evidence: str, cause: str = "", fix: str = ""
) -> object:
    """A row as the engine of the checks makes it."""
    return SimpleNamespace(
        check=SimpleNamespace(id=id, family=family, question=question),
        status=status,
        result=SimpleNamespace(evidence=evidence, cause=cause, fix=fix, tokens=0),
    )
