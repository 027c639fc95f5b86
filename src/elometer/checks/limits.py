"""Checks of limits: a concurrency cap that fits, a budget that is stated and not used up, one boundary."""

from __future__ import annotations

from datetime import UTC, datetime

from elometer.checks.context import Context
from elometer.checks.engine import Check, Result, passed, unknown
from elometer.checks.ledgers import experiment_scan
from elometer.checks.subjects import key_subjects
from elometer.core.text import gettext as _
from elometer.runs.spec_table import timezone_of

# The founding text: 4 or 8, never 32.
HIGHEST_ADVISED_CONCURRENCY = 8
NEARLY_USED = 0.8


def concurrency_is_moderate(context: Context) -> Result:
    """A cap is stated, and no larger than what upstreams take without refusing."""
    subjects = key_subjects(context)
    if not subjects:
        return unknown(_("no key to look at"))
    lines = tuple(
        f"{subject.name}: max_concurrency = {subject.boundary.max_concurrency}" for subject in subjects
    )
    for subject in subjects:
        cap = subject.boundary.max_concurrency
        if cap is not None and cap > HIGHEST_ADVISED_CONCURRENCY:
            return Result(
                "warn",
                lines,
                _("{n} calls at once invite 429; retries then skew tokens and times.").format(n=cap),
                _("Use 4 or 8; a second key would destroy the attribution."),
            )
    return passed(*lines)


def budget_is_left(context: Context) -> Result:
    """What the experiment's ledger spent since the key's midnight, against the daily budget."""
    experiment = context.experiment
    if experiment is None:
        return unknown(_("no experiment was named"))
    budget = experiment.boundary.daily_budget_tokens
    if budget is None:
        return passed(_("no daily budget is set"))
    zone = timezone_of(experiment.timezone)
    start = context.clock().astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    scan = experiment_scan(context)
    spent = scan.spent_since(start.astimezone(UTC)) if scan is not None else 0
    lines = (
        _("budget {budget:,} tokens a day, spent {spent:,} since {start}").format(
            budget=budget, spent=spent, start=start.isoformat()
        ),
        f"$ elometer ledger totals {experiment.experiment_id} --by day",
    )
    if spent >= NEARLY_USED * budget:
        return Result(
            "warn",
            lines,
            _("{share:.0%} of today's budget is used.").format(share=spent / budget),
            _("Go on after {when}, or raise daily_budget_tokens.").format(when=_next_day(start)),
        )
    return passed(*lines)


def _next_day(start: datetime) -> str:
    from datetime import timedelta

    return (start + timedelta(days=1)).isoformat()


def store_and_file_agree(context: Context) -> Result:
    """The stricter value holds where both bound the key; the difference is worth knowing."""
    experiment = context.experiment
    key = context.store.key(experiment.key_label) if experiment is not None else None
    if experiment is None or key is None:
        return unknown(_("nothing to compare: no experiment whose key is in the store"))
    stated, stored = experiment.stated, key.boundary
    differing = [
        f"{name}: {experiment.experiment_id} {getattr(stated, name)} · {_('store')} {getattr(stored, name)}"
        for name in ("allowed_models", "daily_budget_tokens", "max_concurrency", "expires_at")
        if getattr(stored, name) and getattr(stated, name) and getattr(stored, name) != getattr(stated, name)
    ]
    if not differing:
        return passed(_("store and experiment state the same boundary"))
    return Result(
        "warn",
        tuple(differing),
        _("Two boundaries of one key differ; the stricter value holds."),
        f"elometer key show {key.label}",
    )


CHECKS = (
    Check("limits.concurrency", "limits", "Is the concurrency cap moderate?", 0, concurrency_is_moderate),
    Check("limits.budget", "limits", "Is some of today's token budget left?", 0, budget_is_left),
    Check(
        "limits.boundary", "limits", "Do store and experiment state one boundary?", 0, store_and_file_agree
    ),
)
