"""What a ledger tells about one strategy: who answered, were the draws draws, who counted, what failed."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from elometer.checks.why_findings import Case, Finding, jq, percent
from elometer.core.attempt import CHARGED_PHASES
from elometer.core.natural import natural_key
from elometer.core.text import gettext as _
from elometer.ledger.cells import FAILED, MEASURED
from elometer.ledger.reader import Reading

# Shares from which something is worth a word, and from which it explains a strategy's number.
NOTED, EXPLAINS = 0.05, 0.2
OUTLIER_TIMES_MEDIAN = 8.0
# Answers that are word for word the same inside one block, beyond what the other strategies have.
COPIES, COPIES_BEYOND_OTHERS = 0.5, 0.3
CACHED = ("hit", "suspected")

Number = int | float | None


class Line(msgspec.Struct, gc=False):
    """The fields of a ledger line that are asked about."""

    strategy: str | None = None
    task: str | None = None
    run: int | str | None = None
    model: str | None = None
    model_requested: str | None = None
    prompt_tokens: Number = None
    completion_tokens: Number = None
    total_tokens: Number = None
    timestamp: str | None = None
    call_id: str | None = None
    attempt: int | None = 1
    phase: str | None = None
    status: str | None = None
    usage_source: str | None = None
    gateway_cache: str | None = None
    response_id: str | None = None
    answer_sha: str | None = None
    used_by: tuple[str, ...] | None = None


@dataclass(slots=True)
class Tally:
    """The charged lines of one strategy; counts are of lines unless a name says tokens."""

    lines: int = 0
    answers: int = 0
    tokens: float = 0
    # (requested, served, task) of answers
    models: Counter[tuple[str | None, str | None, str | None]] = field(default_factory=Counter)
    cached: int = 0
    draws: dict[tuple[str | None, int | str | None], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    without_usage: int = 0
    estimated_tokens: float = 0
    retries: int = 0
    failed: int = 0
    failed_tokens: float = 0
    sizes: list[tuple[float, str]] = field(default_factory=list)

    @property
    def copies(self) -> float | None:
        """The share of answers that repeat another one of their block; None where no block has two."""
        several = [found for found in self.draws.values() if found.total() > 1]
        draws = sum(found.total() - 1 for found in several)
        return sum(found.total() - len(found) for found in several) / draws if draws else None


def tally(ledger: Path) -> tuple[dict[str, Tally], str]:
    """One pass over a ledger: a tally of each strategy, and the latest timestamp. Raises UsageError."""
    found: dict[str, Tally] = defaultdict(Tally)
    replies: dict[str, str | None] = {}
    latest = ""
    for line in Reading(ledger, Line):
        latest = max(latest, line.timestamp or "")
        if line.strategy is None or line.phase not in (None, *CHARGED_PHASES):
            continue
        again = (
            line.response_id is not None
            and replies.setdefault(line.response_id, line.call_id) != line.call_id
        )
        for name in line.used_by or (line.strategy,):
            _add(found[name], line, again=again)
    return dict(found), latest


def _add(to: Tally, line: Line, *, again: bool) -> None:
    to.lines += 1
    tokens = float(line.total_tokens or 0)
    to.tokens += tokens
    to.retries += (line.attempt or 1) > 1
    if line.usage_source not in MEASURED:
        to.estimated_tokens += tokens
    if line.status in FAILED:
        to.failed += 1
        to.failed_tokens += tokens
        return
    to.answers += 1
    to.models[line.model_requested, line.model, line.task] += 1
    to.cached += again or line.gateway_cache in CACHED
    to.without_usage += not line.total_tokens
    to.sizes.append((tokens, line.call_id or ""))
    if line.answer_sha is not None:
        to.draws[line.task, line.run][line.answer_sha] += 1


def ledger_findings(case: Case, tallies: Mapping[str, Tally], ledger: Path) -> Iterator[Finding]:
    """What the ledger says of the strategy, in the order of how much it could explain."""
    mine = tallies.get(case.strategy)
    if mine is None or not mine.lines:
        text = _("{strategy} has no line in the ledger.").format(strategy=case.strategy)
        yield case.cause("ledger", "no-lines", text, f"elometer ledger totals {case.quoted}", because=text)
        return
    yield from _strangers(case, tallies, ledger)
    yield from _copies(case, tallies, mine, ledger)
    yield from _usage(case, mine, ledger)
    yield from _outliers(case, mine, ledger)
    yield from _retries(case, tallies, mine, ledger)
    yield from _uncounted(case, mine)


def foreign_tasks(case: Case, found: Tally) -> Counter[tuple[str, str | None]]:
    """(served name, task) of answers by a model that was not asked for or may not be."""
    foreign: Counter[tuple[str, str | None]] = Counter()
    for (requested, served, task), count in found.models.items():
        if case.is_stranger(requested, served):
            foreign[served or "?", task] += count
    return foreign


def _strangers(case: Case, tallies: Mapping[str, Tally], ledger: Path) -> Iterator[Finding]:
    command = f"elometer ledger totals {case.quoted} --by model"
    clean = True
    for strategy in case.both:
        found = tallies.get(strategy, Tally())
        foreign = foreign_tasks(case, found)
        for served in dict.fromkeys(name for name, _task in foreign):
            clean = False
            tasks = sorted({str(task) for name, task in foreign if name == served}, key=natural_key)
            count = sum(n for (name, _task), n in foreign.items() if name == served)
            text = _("{served} answered {n} of {all} calls of {strategy}, in {tasks}").format(
                served=served, n=count, all=found.answers, strategy=strategy, tasks=_few(tasks)
            )
            yield case.cause(
                "ledger", "stranger", text,
                jq(f"{_line_of(strategy)} and .model == {_quote(served)}",
                   "{task,run,model_requested,model,call_id}", ledger),
                because=text, tasks=tuple(tasks),
            )  # fmt: skip
    if clean:
        names = sorted({str(served) for found in tallies.values() for _r, served, _t in found.models})
        yield case.fine(
            "ledger", "stranger", _("answered by {names} alone").format(names=_few(names)), command
        )


def _copies(case: Case, tallies: Mapping[str, Tally], mine: Tally, ledger: Path) -> Iterator[Finding]:
    command = jq(
        f'{_line_of(case.strategy)} and .gateway_cache != "none"',
        "{task,run,sample,response_id,gateway_cache}", ledger,
    )  # fmt: skip
    if mine.cached:
        text = _("a cache answered {n} of {all} calls of {strategy}: those draws are copies").format(
            n=mine.cached, all=mine.answers, strategy=case.strategy
        )
        make = case.cause if mine.cached >= NOTED * mine.answers else case.note
        yield make("ledger", "cache", text, command, because=text)
        return
    copies = mine.copies
    if copies is None:
        return
    others = [
        share
        for name, found in tallies.items()
        if name != case.strategy and (share := found.copies) is not None
    ]
    usual = statistics.median(others) if others else 0.0
    text = _(
        "{share} of {strategy}'s answers repeat one of their block word for word (others: {usual})"
    ).format(share=percent(copies), strategy=case.strategy, usual=percent(usual))
    shown = jq(_line_of(case.strategy), "{task,run,sample,answer_sha}", ledger)
    if copies >= COPIES and copies >= usual + COPIES_BEYOND_OTHERS:
        yield case.cause("ledger", "copies", text, shown, because=text)
    else:
        yield case.fine("ledger", "copies", text, shown)


def _usage(case: Case, mine: Tally, ledger: Path) -> Iterator[Finding]:
    command = jq(
        f"{_line_of(case.strategy)} and (.total_tokens // 0) == 0",
        "{task,run,status,usage_source}", ledger,
    )  # fmt: skip
    if mine.without_usage:
        text = _("{n} of {all} answers of {strategy} came without usage: its tokens are too low").format(
            n=mine.without_usage, all=mine.answers, strategy=case.strategy
        )
        make = case.cause if mine.without_usage >= NOTED * mine.answers else case.note
        yield make("ledger", "usage", text, command, because=text)
    share = mine.estimated_tokens / mine.tokens if mine.tokens else 0.0
    if share >= NOTED:
        text = _("{share} of {strategy}'s tokens were not counted by the server").format(
            share=percent(share), strategy=case.strategy
        )
        make = case.cause if share >= EXPLAINS else case.note
        yield make("ledger", "estimated", text, f"elometer ledger totals {case.quoted} --json", because=text)
    elif not mine.without_usage:
        text = _("all {n} answers have the server's usage").format(n=mine.answers)
        yield case.fine("ledger", "usage", text, f"elometer ledger totals {case.quoted}")


def _outliers(case: Case, mine: Tally, ledger: Path) -> Iterator[Finding]:
    if not mine.sizes or not mine.tokens:
        return
    median = statistics.median(size for size, _call in mine.sizes)
    limit = max(OUTLIER_TIMES_MEDIAN * median, 1.0)
    large = [size for size, _call in mine.sizes if size > limit]
    share = sum(large) / mine.tokens
    command = jq(
        f"{_line_of(case.strategy)} and .total_tokens > {limit:.0f}",
        "{call_id,task,run,total_tokens}", ledger,
    )  # fmt: skip
    if share >= NOTED:
        text = _("{n} calls above {limit:,.0f} tokens hold {share} of {strategy}'s tokens").format(
            n=len(large), limit=limit, share=percent(share), strategy=case.strategy
        )
        make = case.cause if share >= EXPLAINS else case.note
        yield make("ledger", "outlier-calls", text, command, because=text)
        return
    text = _("largest call {most:,.0f} tokens, median {median:,.0f}").format(
        most=max(mine.sizes)[0], median=median
    )
    yield case.fine("ledger", "outlier-calls", text, command)


def _retries(case: Case, tallies: Mapping[str, Tally], mine: Tally, ledger: Path) -> Iterator[Finding]:
    others = [found for name, found in tallies.items() if name != case.strategy]
    rest = _share(sum(found.retries for found in others), sum(found.lines for found in others))
    own = _share(mine.retries, mine.lines)
    text = _("{own} of its attempts are retries, {rest} of the others'").format(
        own=percent(own), rest=percent(rest)
    )
    command = jq(f"{_line_of(case.strategy)} and .attempt > 1", "{task,run,attempt,status}", ledger)
    uneven = own >= 2 * NOTED and own >= 2 * rest
    yield (case.note if uneven else case.fine)("ledger", "retries", text, command)


def _uncounted(case: Case, mine: Tally) -> Iterator[Finding]:
    share = mine.failed_tokens / mine.tokens if mine.tokens else 0.0
    command = f"elometer ledger totals {case.quoted} --json"
    if share < NOTED:
        return
    text = _("{share} of {strategy}'s tokens went to attempts that failed").format(
        share=percent(share), strategy=case.strategy
    )
    make = case.cause if share >= EXPLAINS else case.note
    yield make("ledger", "failed-tokens", text, command, because=text)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _line_of(strategy: str) -> str:
    """The jq condition for lines that a strategy rests on, its own or shared."""
    return f"((.used_by // [.strategy]) | index({_quote(strategy)}))"


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _few(names: Iterable[str]) -> str:
    given = list(names)
    return ", ".join(given[:4]) + (_(" and {n} more").format(n=len(given) - 4) if len(given) > 4 else "")
