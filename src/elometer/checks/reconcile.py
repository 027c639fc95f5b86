"""Checks of tokens that do not add up: whose they are, whether each was bought once, who counted them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from elometer.checks.context import Context, ExperimentFacts
from elometer.checks.engine import Check, Result, passed, unknown
from elometer.checks.ledgers import Scan, examples, scans
from elometer.core.clock import parse_timestamp
from elometer.core.text import gettext as _

_CACHE_FLAGS = ("cache_gt_prompt", "usage_conflict", "cache_semantics_unverified")
_AHEAD = timedelta(minutes=5)


def _over_scans(context: Context, judge: Callable[[Scan], Result]) -> Result:
    """The first ledger that gives a warning; else all lines together."""
    found = scans(context)
    if not found:
        return unknown(_("there is no ledger yet"))
    lines: list[str] = []
    for scan in found:
        result = judge(scan)
        if result.status != "pass":
            return result
        lines += result.evidence
    return passed(*lines)


def _name(scan: Scan) -> str:
    return scan.path.parent.name


def no_strangers(context: Context) -> Result:
    """Models that were asked for outside the boundary, or that answered under another name."""
    return _over_scans(context, lambda scan: _strangers(context, scan))


def _strangers(context: Context, scan: Scan) -> Result:
    experiment = context.experiment
    lines, outside = [], []
    for (requested, served), count in scan.models.most_common():
        lines.append(
            _("{name}: {n} lines asked {requested}, answered by {served}").format(
                name=_name(scan), n=count, requested=requested or "?", served=served or "?"
            )
        )
        if _is_stranger(requested, served, experiment):
            outside.append(served or "?")
    lines.append(f"$ elometer ledger totals {_name(scan)} --by model")
    if not outside:
        return passed(*lines)
    return Result(
        "warn",
        tuple(lines),
        _("{models}: not an expected name; tokens of another model are in the sums.").format(
            models=", ".join(dict.fromkeys(outside))
        ),
        _("If the gateway routes to that name, add it to served_as; else find who else uses the key."),
    )


def _is_stranger(requested: str | None, served: str | None, experiment: ExperimentFacts | None) -> bool:
    if served is None:
        return False
    if experiment is None:
        return requested is not None and requested != served
    asked = requested or served
    allowed = experiment.boundary.allowed_models or experiment.models
    names = {name for expected in experiment.served_as.values() for name in expected}
    if requested is None:
        return bool(allowed) and served not in allowed and served not in names
    if allowed and asked not in allowed:
        return True
    return served != asked and served not in experiment.served_as.get(asked, ())


def nothing_counts_twice(context: Context) -> Result:
    """Replies from a gateway's cache and ids that answer two calls: one draw booked twice."""
    return _over_scans(context, _doubles)


def _doubles(scan: Scan) -> Result:
    lines = (
        _("{name}: {n} lines from a gateway's cache, {tokens:,.0f} tokens").format(
            name=_name(scan), n=scan.cache_hits, tokens=scan.cache_hit_tokens
        ),
        _("{name}: {n} response ids that answer another call too").format(
            name=_name(scan), n=len(scan.doubled_responses)
        ),
        _("{name}: {n} calls with two final lines").format(name=_name(scan), n=scan.doubled_finals),
    )
    if scan.cache_hits or scan.doubled_responses:
        return Result(
            "warn",
            lines,
            _("A cache answered: independent draws are copies, and their tokens were not spent."),
            _("Switch the gateway's response cache off for this key, or send cache-control: no-cache."),
        )
    if scan.doubled_finals:
        return Result(
            "warn",
            lines,
            _("The ledger holds the final line of a call twice."),
            f"elometer ledger verify {_name(scan)}",
        )
    return passed(*lines)


def retries_are_booked(context: Context) -> Result:
    """Attempts after the first, by strategy: one that is retried more differs in tokens and times."""
    return _over_scans(context, _retries)


def _retries(scan: Scan) -> Result:
    total = sum(scan.retries.values())
    lines = [
        _("{name}: {n} of {lines} lines are retries").format(name=_name(scan), n=total, lines=scan.lines)
    ]
    lines += examples(scan.retries)
    if scan.failed_with_tokens:
        lines.append(_("{n} failed attempts used tokens").format(n=scan.failed_with_tokens))
    if scan.lines and total / scan.lines > 0.1:
        return Result(
            "warn",
            tuple(lines),
            _("More than a tenth of all attempts are retries."),
            _("Lower max_concurrency; look at the reasons: elometer ledger tail {name}").format(
                name=_name(scan)
            ),
        )
    return passed(*lines)


def streams_end_whole(context: Context) -> Result:
    """Streams that were cut, whose usage is a lower bound or an estimate."""
    return _over_scans(context, _cut)


def _cut(scan: Scan) -> Result:
    lines = (
        _("{name}: {n} lines whose usage is not final, {tokens:,.0f} tokens").format(
            name=_name(scan), n=scan.cut, tokens=scan.cut_tokens
        ),
        _("{name}: {n} lines counted locally or estimated, {tokens:,.0f} tokens").format(
            name=_name(scan), n=scan.estimated, tokens=scan.estimated_tokens
        ),
    )
    if scan.cut or scan.estimated:
        return Result(
            "warn",
            lines,
            _("Part of the tokens was not counted by the server; its bill may differ by about this much."),
            _("Compare by source: elometer ledger totals {name} --json").format(name=_name(scan)),
        )
    return passed(*lines)


def answers_have_usage(context: Context) -> Result:
    """Answers without usage, or with zeros beside text."""
    return _over_scans(context, _usage)


def _usage(scan: Scan) -> Result:
    zero = max(scan.zero_usage, scan.flags.get("zero_usage_with_content", 0))
    lines = (
        _("{name}: {n} answers without usage, {zero} with zero").format(
            name=_name(scan), n=scan.no_usage, zero=zero
        ),
    )
    if scan.no_usage or zero:
        return Result(
            "warn",
            lines,
            _("The gateway gave no usage for some answers; the sums are too low by what they cost."),
            _("See what it sends: elometer probe; a tokenizer in the profile counts what no server does."),
        )
    return passed(*lines)


def parts_add_up(context: Context) -> Result:
    """total = prompt + completion, cached parts inside the prompt, no report that contradicts itself."""
    return _over_scans(context, _parts)


def _parts(scan: Scan) -> Result:
    flags = {name: scan.flags[name] for name in _CACHE_FLAGS if scan.flags.get(name)}
    lines = [
        _("{name}: {n} lines where total is not prompt + completion").format(
            name=_name(scan), n=scan.wrong_totals
        ),
        _("{name}: {n} lines with more cached than prompt tokens").format(
            name=_name(scan), n=scan.cached_over_prompt
        ),
        *(f"{name}: {count}" for name, count in flags.items()),
    ]
    if scan.cached_over_prompt or flags:
        return Result(
            "warn",
            tuple(lines),
            _("Cached tokens may be counted twice or left out."),
            _("Ask twice with one long prompt: elometer check --live --experiment FILE"),
        )
    if scan.wrong_totals:
        return Result(
            "warn",
            tuple(lines),
            _("Some lines' totals are not the sum of their parts."),
            f"elometer ledger verify {_name(scan)}",
        )
    return passed(*lines)


def clock_is_right(context: Context) -> Result:
    """Lines of the future mean a wrong clock; the budget's day must be the one the gateway uses."""

    def judge(scan: Scan) -> Result:
        zone = context.experiment.timezone if context.experiment is not None else "UTC"
        lines = (
            _("{name}: latest line {latest}; days end at midnight in {zone}").format(
                name=_name(scan), latest=scan.latest or "?", zone=zone
            ),
        )
        try:
            ahead = bool(scan.latest) and parse_timestamp(scan.latest) > context.clock() + _AHEAD
        except ValueError:
            ahead = False
        if ahead:
            return Result(
                "warn",
                lines,
                _("The ledger holds lines of the future: a clock is or was wrong."),
                "timedatectl status",
            )
        return passed(*lines)

    return _over_scans(context, judge)


CHECKS = (
    Check("reconcile.strangers", "reconcile", "Did only the expected models answer?", 0, no_strangers),
    Check("reconcile.doubles", "reconcile", "Is every reply a draw of its own?", 0, nothing_counts_twice),
    Check("reconcile.retries", "reconcile", "Are retries few?", 0, retries_are_booked),
    Check("reconcile.cut", "reconcile", "Did every stream end whole?", 0, streams_end_whole),
    Check("reconcile.usage", "reconcile", "Did every answer come with usage?", 0, answers_have_usage),
    Check("reconcile.parts", "reconcile", "Do the parts of usage add up?", 0, parts_add_up),
    Check("reconcile.clock", "reconcile", "Are the ledger's times plausible?", 0, clock_is_right),
)
