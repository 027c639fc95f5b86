"""What pairs and fit tell about one strategy: whom errors hit, what the number hangs on, what is noise."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from elometer.checks.why_findings import Case, Finding, percent
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.fit import FitResult, fit
from elometer.rating.influence import (
    halves_in_time,
    most_influential_tasks,
    sensitivity,
    surprising_pairs,
)
from elometer.rating.result import StrategyFit
from elometer.rating.student import t_tail
from elometer.runs.journal import COUNTED, Outcome

# A false alarm among this many clean questions; the tests below ask many at once.
ERRORS_P, OUTLIER_P, DRIFT_P = 0.005, 0.002, 0.001
FEWEST_TASKS, FEWEST_BLOCKS = 4, 2
SMALLEST_MOVE_ELO = 5.0
LARGE_RESIDUAL = 3.5
# What a strategy brought about itself, and what is no answer all the same.
UNFINISHED = ("truncated", "no_answer", "refusal", "agent_timeout")

Outcomes = Mapping[tuple[str, int, str], Outcome]


def pair_findings(
    case: Case, outcomes: Outcomes, result: FitResult | None, folder: Path
) -> Iterator[Finding]:
    """Exclusions and unfinished answers, by strategy; then ties."""
    path = shlex.quote(str(folder / "outcomes.jsonl"))
    command = f"jq -r '[.strategy, .outcome] | @tsv' {path} | sort | uniq -c"
    even = True
    for strategy in case.both:
        for kinds, code in ((None, "exclusions"), (UNFINISHED, "unfinished")):
            hit = _hits(outcomes, kinds)
            total = Counter(name for _task, _run, name in outcomes)
            rest = [name for name in total if name != strategy]
            a, n = hit[strategy], total[strategy]
            b, m = sum(hit[name] for name in rest), sum(total[name] for name in rest)
            if a < 2 or a * m <= 2 * b * n or _more_by_chance(a, n, b, m) > ERRORS_P:
                continue
            worst = _names(outcomes, strategy, kinds)
            what = (
                _("are not compared ({why})")
                if kinds is None
                else _("count as lost without an answer ({why})")
            )
            text = _("{a} of {n} blocks of {strategy} {what}; {b} of {m} of the others").format(
                a=a, n=n, strategy=strategy, what=what.format(why=worst), b=b, m=m
            )
            if kinds is None:
                even = False
                because = _("errors are unequal: {text}").format(text=text)
                yield case.cause("pairs", code, text, command, because=because)
            else:
                # A vote passes over answers that are none, so that one sample alone has more of them.
                yield case.note("pairs", code, text, command)
    if even:
        counts = Counter(name for (_t, _r, name), found in outcomes.items() if not found.counted)
        text = _("errors are even: {own} blocks of {strategy} excluded, {rest} of all others").format(
            own=counts[case.strategy], strategy=case.strategy, rest=counts.total() - counts[case.strategy]
        )
        yield case.fine("pairs", "exclusions", text, command)
    if result is not None and case.compared is not None:
        yield from _ties(case, result, folder)


def _hits(outcomes: Outcomes, kinds: tuple[str, ...] | None) -> Counter[str]:
    """Blocks by strategy that are excluded (None), or that ended in one of some ways."""
    return Counter(
        name
        for (_task, _run, name), found in outcomes.items()
        if (not found.counted if kinds is None else found.outcome in kinds)
    )


def _names(outcomes: Outcomes, strategy: str, kinds: tuple[str, ...] | None) -> str:
    names = Counter(
        found.outcome
        for (_task, _run, name), found in outcomes.items()
        if name == strategy and (found.outcome not in COUNTED if kinds is None else found.outcome in kinds)
    )
    return ", ".join(f"{name} {count}" for name, count in names.most_common(3)) or _("without a score")


def _more_by_chance(a: int, n: int, b: int, m: int) -> float:
    """Fisher's exact test, one-sided: P(at least `a` of the a + b hits fall on the n of n + m)."""
    hits, whole = a + b, math.comb(n + m, a + b)
    return sum(math.comb(n, k) * math.comb(m, hits - k) for k in range(a, min(n, hits) + 1)) / whole


def _ties(case: Case, result: FitResult, folder: Path) -> Iterator[Finding]:
    assert case.compared is not None
    one, other = (result.records.strategies.index(name) for name in case.both)
    records = result.records
    here = ((records.first == one) & (records.second == other)) | (
        (records.first == other) & (records.second == one)
    )
    tied, all_of_them = int(records.tied_records[here].sum()), int(records.records[here].sum())
    text = _("{tied} of {n} comparisons with {other} are ties").format(
        tied=tied, n=all_of_them, other=case.compared
    )
    path = shlex.quote(str(folder / "pairwise_records.jsonl"))
    both = " and ".join(f"(.a == {_text(name)} or .b == {_text(name)})" for name in case.both)
    command = f"jq -r {shlex.quote(f'select({both}) | .outcome')} {path} | sort | uniq -c"
    yield case.fine("pairs", "ties", text, command)


def _text(name: str) -> str:
    return msgspec.json.encode(name).decode()


@dataclass(frozen=True, slots=True)
class Difference:
    """ΔElo of the strategy to the one it is compared with, and half the width of its interval."""

    elo: float | None
    noise: float | None


def difference_of(case: Case, result: FitResult) -> Difference:
    """The difference in question; of the lowest rung, the step from it to the next one."""
    row = _row(case, result)
    if row is None or row.delta_elo is None:
        return Difference(None, None)
    sign = 1.0 if row.strategy == case.strategy else -1.0
    noise = None
    if row.delta_lo is not None and row.delta_hi is not None:
        noise = (row.delta_hi - row.delta_lo) / 2
    return Difference(sign * row.delta_elo, noise)


def _row(case: Case, result: FitResult) -> StrategyFit | None:
    """The row that holds the difference of the two strategies."""
    for one, other in (case.both, case.both[::-1]):
        row = next((row for row in result.strategies if row.strategy == one), None)
        if row is not None and row.compared_with == other:
            return row
    return None


def without_tasks(case: Case, result: FitResult, tasks: tuple[str, ...]) -> Difference:
    """The difference after a fit without some tasks; unknown where nothing is left to fit."""
    records = result.records
    out = [records.tasks.index(name) for name in tasks if name in records.tasks]
    keep = ~np.isin(records.block_task, out)
    if not keep.any():
        return Difference(None, None)
    try:
        return difference_of(case, fit(records.restricted(keep), None, result.options))
    except UsageError:
        return Difference(None, None)


def fit_findings(case: Case, result: FitResult, folder: Path) -> Iterator[Finding]:
    """Connectivity, single tasks, pairs, other choices of the fit, halves in time."""
    records = shlex.quote(str(folder / "pairwise_records.jsonl"))
    yield from _connectivity(case, result, records)
    if case.compared is None or _row(case, result) is None:
        return
    if result.options.model == "bradley-terry" and result.options.aggregation == "pooled":
        yield from _tasks(case, result, records)
        yield from _halves(case, result, folder)
    yield from _pairs(case, result, records)
    yield from _choices(case, result, records)


def _connectivity(case: Case, result: FitResult, records: str) -> Iterator[Finding]:
    command = f"elometer fit {records} --json | jq '{{identified,components,unbounded}}'"
    loose = [found for found in result.unbounded if found.strategy in case.both]
    for found in loose:
        text = _("the data do not bound {strategy}: {why}").format(strategy=found.strategy, why=found.reason)
        yield case.cause("fit", "unbounded", text, command, because=text)
    if not loose:
        text = _("{n} comparisons in {tasks} tasks bound it").format(n=result.comparisons, tasks=result.tasks)
        yield case.fine("fit", "connected", text, command)


def _tasks(case: Case, result: FitResult, records: str) -> Iterator[Finding]:
    """One task that moves the difference far beyond what the others' spread lets expect.

    Simulated ladders without any fault (10 to 60 tasks, 2 or 3 runs) gave a false alarm in 1 to 3 of 100.
    """
    assert case.compared is not None
    shares = most_influential_tasks(result, case.compared, case.strategy, most=len(result.records.tasks))
    whole = difference_of(case, result)
    if len(shares) < FEWEST_TASKS or whole.elo is None:
        return
    first = shares[0]
    rest = without_tasks(case, result, (first.task,))
    command = (
        f"jq -c {shlex.quote(f'select(.task != {_text(first.task)})')} {records} | elometer fit /dev/stdin"
    )
    blocks = _decided_blocks(case, result, first.task)
    if rest.elo is not None and blocks >= FEWEST_BLOCKS:
        moves = whole.elo - rest.elo
        p = _outlier_p([one.moves for one in shares], blocks)
        if p < OUTLIER_P and abs(moves) >= max(SMALLEST_MOVE_ELO, (whole.noise or 0.0) / 3):
            text = _(
                "{task} alone moves ΔElo by {moves:+.0f} to {whole:+.0f}: {n} blocks, all one way"
            ).format(task=first.task, moves=moves, whole=whole.elo, n=blocks)
            because = _("{task} alone moves {moves:+.0f}; {rest}").format(
                task=first.task, moves=moves, rest=told_without(case, rest)
            )
            yield case.cause("fit", "one-task", text, command, because=because)
            return
    top = ", ".join(f"{one.task} {one.moves:+.0f}" for one in shares[:3])
    text = _("no task stands out; the most influential are {top} Elo").format(top=top)
    yield case.fine("fit", "tasks", text, command)


def _decided_blocks(case: Case, result: FitResult, task: str) -> int:
    """Blocks of a task in which the two strategies did not tie."""
    records = result.records
    one, other = (records.strategies.index(name) for name in case.both)
    here = ((records.first == one) & (records.second == other)) | (
        (records.first == other) & (records.second == one)
    )
    of_task = records.block_task[records.cell_block] == records.tasks.index(task)
    return int((here & of_task & (records.tied_records < records.records)).sum())


def told_without(case: Case, rest: Difference) -> str:
    """`without it sample_8 = sample_4`, or the difference that is left."""
    if rest.elo is None:
        return _("without it nothing is left to compare")
    if rest.noise is not None and abs(rest.elo) <= rest.noise:
        return _("without it {one} = {other} (ΔElo {elo:+.0f} ± {noise:.0f})").format(
            one=case.strategy, other=case.compared, elo=rest.elo, noise=rest.noise
        )
    return _("without it ΔElo of {one} to {other} is {elo:+.0f}").format(
        one=case.strategy, other=case.compared, elo=rest.elo
    )


def _outlier_p(moves: list[float], blocks: int) -> float:
    """Grubbs' test of the first of some contributions: externally studentised, times their number.

    Comparisons are won, lost or tied, so the others' spread may be nought by chance alone. It is taken to be
    at least what one decided block among all other tasks would give, `blocks` having made the first task's.
    """
    first, rest = moves[0], moves[1:]
    mean = sum(rest) / len(rest)
    deviation = abs(first - mean)
    spread = math.sqrt(sum((one - mean) ** 2 for one in rest) / (len(rest) - 1))
    least = deviation / blocks / math.sqrt(len(moves))
    if deviation == 0.0:
        return 1.0
    t = deviation / (max(spread, least) * math.sqrt(1 + 1 / len(rest)))
    return min(1.0, 2 * len(moves) * t_tail(t, len(rest) - 1))


def _halves(case: Case, result: FitResult, folder: Path) -> Iterator[Finding]:
    command = f"jq -c '{{block,task,run,strategy,outcome}}' {shlex.quote(str(folder / 'outcomes.jsonl'))}"
    try:
        halves = {half.strategy: half for half in halves_in_time(result.records, result.options)}
    except UsageError:
        return
    anchor = result.anchor
    name = case.strategy if case.strategy != anchor else case.compared
    half = halves.get(name or "")
    if half is None or half.difference is None or half.p is None:
        return
    text = _(
        "{name} over {anchor}: {first:+.0f} in the first half, {second:+.0f} in the second (p = {p:.2g})"
    ).format(name=name, anchor=anchor, first=half.first, second=half.second, p=half.p)
    if half.p < DRIFT_P:
        yield case.cause("fit", "drift", text, command, because=_("it drifted: {text}").format(text=text))
    else:
        yield case.fine("fit", "halves", text, command)


def _pairs(case: Case, result: FitResult, records: str) -> Iterator[Finding]:
    found = [pair for pair in surprising_pairs(result, most=10) if case.strategy in (pair.one, pair.other)]
    if not found:
        return
    pair = found[0]
    text = _("{one} against {other}: {seen} won, {expected} expected (z = {z:+.1f})").format(
        one=pair.one, other=pair.other, seen=percent(pair.observed), expected=percent(pair.expected), z=pair.z
    )
    command = f"elometer fit {records}"
    make = case.note if abs(pair.z) >= LARGE_RESIDUAL else case.fine
    yield make("fit", "pair", text, command)


def _choices(case: Case, result: FitResult, records: str) -> Iterator[Finding]:
    """ΔElo under other choices of ties and aggregation."""
    assert case.compared is not None
    one, other = (result.records.strategies.index(name) for name in case.both)
    told, signs = [], set()
    for variant in sensitivity(result.records, result.options):
        a, b = variant.elo[one], variant.elo[other]
        if a is None or b is None:
            continue
        told.append(f"{_(variant.label)} {a - b:+.0f}")
        if abs(a - b) >= 1.0:
            signs.add(a > b)
    text = _("ΔElo {values}").format(values=", ".join(told))
    make = case.note if len(signs) > 1 else case.fine
    yield make("fit", "choices", text, f"elometer fit {records} --ties drop")
