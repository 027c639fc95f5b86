"""Why a strategy's number looks odd: metadata, ledger, pairs, fit, in that order, ending in one sentence."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from elometer.checks.why_findings import Case, Finding
from elometer.checks.why_fit import (
    Difference,
    Outcomes,
    difference_of,
    fit_findings,
    pair_findings,
    told_without,
    without_tasks,
)
from elometer.checks.why_ledger import Tally, ledger_findings
from elometer.core.clock import parse_timestamp
from elometer.core.text import gettext as _
from elometer.core.text import ngettext
from elometer.rating.fit import FitResult


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the metadata say of the last start. `peak` is the most attempts at once, None where unknown."""

    status: str
    reason: str = ""
    blocks_done: int = 0
    blocks_planned: int = 0
    peak: int | None = None
    cap: int | None = None
    expires_at: datetime | None = None
    latest: str = ""
    forced: tuple[str, ...] | None = None
    warned: tuple[str, ...] = ()
    damaged_lines: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that an explanation rests on."""

    folder: Path
    circumstances: Circumstances
    tallies: Mapping[str, Tally]
    outcomes: Outcomes
    fit: FitResult | None
    no_fit_because: str = ""


@dataclass(frozen=True, slots=True)
class Why:
    """The findings in their order, the difference that was asked about, and the sentence they end in."""

    case: Case
    findings: tuple[Finding, ...]
    difference: Difference
    conclusion: str

    @property
    def explained(self) -> bool:
        """True where a finding explains the number by itself."""
        return any(finding.weight == "cause" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """The fields that scripts rely on."""
        return {
            "strategy": self.case.strategy,
            "compared_with": self.case.compared,
            "delta_elo": self.difference.elo,
            "noise_elo": self.difference.noise,
            "explained": self.explained,
            "conclusion": self.conclusion,
            "findings": [finding.as_json() for finding in self.findings],
        }


def explain(case: Case, evidence: Evidence) -> Why:
    """Look at everything in the founding order, and say what explains the number or how large noise is."""
    folder, result = evidence.folder, evidence.fit
    findings = [
        *_metadata(case, evidence.circumstances, folder),
        *ledger_findings(case, evidence.tallies, folder / "token_ledger.jsonl"),
        *pair_findings(case, evidence.outcomes, result, folder),
    ]
    difference = Difference(None, None)
    if result is not None:
        findings += fit_findings(case, result, folder)
        difference = difference_of(case, result)
    else:
        text = _("nothing can be fitted: {reason}").format(reason=evidence.no_fit_because)
        command = f"elometer fit {shlex.quote(str(folder / 'pairwise_records.jsonl'))}"
        findings.append(case.cause("fit", "no-fit", text, command, because=text))
    return Why(case, tuple(findings), difference, _conclusion(case, findings, difference, result))


def _metadata(case: Case, facts: Circumstances, folder: Path) -> Iterator[Finding]:
    events = shlex.quote(str(folder / "events.jsonl"))
    command = f"grep -E 'start_(opened|ended)' {events}"
    if facts.status == "complete":
        text = _("the last start is complete: {n} blocks").format(n=facts.blocks_planned)
        yield case.fine("metadata", "status", text, command)
    else:
        text = _("the last start is {status} ({reason}): {done} of {planned} blocks").format(
            status=facts.status,
            reason=facts.reason or "?",
            done=facts.blocks_done,
            planned=facts.blocks_planned,
        )
        yield case.note("metadata", "status", text, command)
    if facts.forced is not None:
        names = ", ".join(facts.forced) or _("no failed check")
        yield case.note(
            "metadata", "forced", _("started with --force past {names}").format(names=names), command
        )
    if facts.warned:
        text = _("checks warned before the start: {names}").format(names=", ".join(facts.warned))
        yield case.note("metadata", "warned", text, f"elometer check --experiment {case.quoted}")
    yield _concurrency(case, facts, command)
    if facts.expires_at is not None:
        yield _expiry(case, facts, folder)
    if facts.damaged_lines:
        text = ngettext("{n} damaged ledger line", "{n} damaged ledger lines", facts.damaged_lines)
        yield case.note(
            "metadata", "damaged", text.format(n=facts.damaged_lines), f"elometer ledger verify {case.quoted}"
        )


def _concurrency(case: Case, facts: Circumstances, command: str) -> Finding:
    text = _("at most {peak} calls at once, {cap} allowed").format(
        peak="?" if facts.peak is None else facts.peak, cap="?" if facts.cap is None else facts.cap
    )
    over = facts.peak is not None and facts.cap is not None and facts.peak > facts.cap
    return (case.note if over else case.fine)("metadata", "concurrency", text, command)


def _expiry(case: Case, facts: Circumstances, folder: Path) -> Finding:
    assert facts.expires_at is not None
    command = f"grep expires_at {shlex.quote(str(folder / 'experiment.resolved.yaml'))}"
    text = _("boundary until {when}, last call at {latest}").format(
        when=facts.expires_at.isoformat(), latest=facts.latest or "?"
    )
    try:
        late = parse_timestamp(facts.latest) > facts.expires_at
    except ValueError:
        late = False
    return (case.note if late else case.fine)("metadata", "expiry", text, command)


def _conclusion(case: Case, findings: list[Finding], difference: Difference, result: FitResult | None) -> str:
    causes = [finding for finding in findings if finding.weight == "cause"]
    if not causes:
        if difference.noise is None:
            return _("nothing found; the data do not say how large noise is")
        return _("nothing found; noise is ±{noise:.0f} Elo").format(noise=difference.noise)
    first = causes[0]
    told = first.because
    if first.tasks and result is not None and case.compared is not None:
        if set(first.tasks) < set(result.records.tasks):
            told += "; " + told_without(case, without_tasks(case, result, first.tasks))
    elif first.stage == "ledger" and difference.elo is not None and difference.noise is not None:
        told += "; " + _("ΔElo to {other} is {elo:+.0f} ± {noise:.0f}").format(
            other=case.compared, elo=difference.elo, noise=difference.noise
        )
    more = len(causes) - 1
    if more:
        told += "; " + ngettext("{n} more cause above", "{n} more causes above", more).format(n=more)
    return _("explained: {told}").format(told=told)
