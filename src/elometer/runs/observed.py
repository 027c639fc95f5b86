"""What the ledger tells beside tokens: prompts that grow, canaries that change, answers of strangers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from elometer.core.natural import natural_key
from elometer.core.text import gettext as _
from elometer.ledger.reader import Reading
from elometer.runs.served import STRANGER_FLAG

FAILED = ("error", "cancelled")


class _Line(msgspec.Struct, gc=False):
    strategy: str | None = None
    model: str | None = None
    final: bool | None = None
    status: str | None = None
    phase: str | None = None
    round: int | None = None
    prompt_tokens: int | None = None
    latency_ms: float | None = None
    answer_sha: str | None = None
    usage_flags: list[str] | None = None
    block: int | None = None
    used_by: tuple[str, ...] | None = None


@dataclass(slots=True)
class Canaries:
    """The same question asked again and again: answers, how many were equal to the first, latencies in ms."""

    answers: int = 0
    failed: int = 0
    same: int = 0
    models: dict[str, int] = field(default_factory=dict)
    latency_first: float | None = None
    latency_second: float | None = None

    def line(self) -> str:
        """The canaries in a sentence."""
        said = _("Canary: {n} answers, {same} like the first, {failed} failed").format(
            n=self.answers, same=self.same, failed=self.failed
        )
        if self.latency_first is not None and self.latency_second is not None:
            said += _("; median latency {first:,.0f} ms in the first half, {second:,.0f} ms after").format(
                first=self.latency_first, second=self.latency_second
            )
        if len(self.models) > 1:
            said += _("; models {names}").format(names=", ".join(sorted(self.models)))
        return said + "."


@dataclass(slots=True)
class Observed:
    """`prompts`: strategy → round → mean prompt tokens, for strategies with rounds. `strangers`: model →
    answers under a name that nobody asked for."""

    prompts: dict[str, dict[int, float]] = field(default_factory=dict)
    strangers: dict[str, int] = field(default_factory=dict)
    canaries: Canaries | None = None

    def as_json(self) -> dict[str, Any]:
        """Keys of fit.json."""
        canary = self.canaries
        return {
            "prompt_tokens_by_round": self.prompts,
            "strangers": self.strangers,
            "canary": None
            if canary is None
            else {
                "answers": canary.answers,
                "failed": canary.failed,
                "same_as_first": canary.same,
                "models": canary.models,
                "latency_ms_first_half": canary.latency_first,
                "latency_ms_second_half": canary.latency_second,
            },
        }

    def lines(self) -> list[str]:
        """What there is to say."""
        said = []
        for name, means in self.prompts.items():
            shown = " → ".join(f"{mean:,.0f}" for mean in means.values())
            said.append(_("{name}: mean prompt tokens by round {means}.").format(name=name, means=shown))
        if self.canaries is not None:
            said.append(self.canaries.line())
        return said


def observe(ledger: Path, accepted: Collection[str] = ()) -> Observed:
    """Read a ledger once. Names in `accepted` are no strangers. Raises UsageError where it is missing."""
    prompts: dict[str, dict[int, list[int]]] = {}
    canaries: list[_Line] = []
    seen = Observed()
    for line in Reading(ledger, _Line):
        if not line.final:
            continue
        if line.phase == "canary":
            canaries.append(line)
        if line.status in FAILED:
            continue
        if STRANGER_FLAG in (line.usage_flags or ()) and line.model not in accepted:
            seen.strangers[line.model or "?"] = seen.strangers.get(line.model or "?", 0) + 1
        if line.strategy and line.round and line.prompt_tokens is not None:
            for name in line.used_by or (line.strategy,):
                prompts.setdefault(name, {}).setdefault(line.round, []).append(line.prompt_tokens)
    for name in sorted(prompts, key=natural_key):
        if len(prompts[name]) > 1:
            seen.prompts[name] = {
                number: sum(found) / len(found) for number, found in sorted(prompts[name].items())
            }
    seen.canaries = _canaries(canaries) if canaries else None
    return seen


def _canaries(lines: list[_Line]) -> Canaries:
    lines.sort(key=lambda line: line.block or 0)
    answered = [line for line in lines if line.status not in FAILED]
    found = Canaries(answers=len(answered), failed=len(lines) - len(answered))
    for line in answered:
        found.same += line.answer_sha == answered[0].answer_sha
        found.models[line.model or "?"] = found.models.get(line.model or "?", 0) + 1
    middle = len(answered) // 2
    first = [line.latency_ms for line in answered[:middle] if line.latency_ms is not None]
    second = [line.latency_ms for line in answered[middle:] if line.latency_ms is not None]
    found.latency_first = median(first) if first else None
    found.latency_second = median(second) if second else None
    return found
