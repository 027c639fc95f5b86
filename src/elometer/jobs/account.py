"""A key's boundary as it binds, and its account of today."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from elometer.boundary.account import day_of
from elometer.boundary.book import AccountBook
from elometer.core.clock import utc_now
from elometer.core.errors import AccessError
from elometer.core.limits import Boundary
from elometer.core.text import gettext as _
from elometer.jobs.checks import stricter
from elometer.jobs.key import account_file, day_start, moment_of, spent_today
from elometer.jobs.places import ledgers
from elometer.ledger.reader import read_attempts
from elometer.profiles.keys import KeyState
from elometer.profiles.store import Store
from elometer.runs.spec import Experiment


@dataclass(frozen=True, slots=True)
class KeyDay:
    """What a key has spent today (`day` in its boundary's time zone); `budget` None is no budget.

    `ledgers` is what the ledgers of the workspace show, with what was kept for attempts without a count;
    `spent` is the account's, which also holds what was in flight when a process died.
    """

    label: str
    day: str
    spent: int
    ledgers: int
    budget: int | None


def binding_boundary(experiment: Experiment) -> Boundary:
    """The boundary of an experiment's key: where store and YAML both bound it, the stricter value.

    Raises AccessError where the store's boundary has expired or does not allow the experiment's model.
    """
    written = experiment.gateway.boundary
    label = experiment.gateway.key_label
    key = Store.load().keys.get(label or "")
    if key is None:
        return written
    stored = key.boundary
    where = _("[keys.{label}.boundary] in the store").format(label=label)
    if stored.allowed_models and experiment.agent.model not in stored.allowed_models:
        raise AccessError(
            _("The key may not use the model {model}.").format(model=experiment.agent.model),
            evidence=f"{where}: allowed_models = {', '.join(stored.allowed_models)}",
            fix=_("Use one of them, or 'elometer key set-boundary {label}'.").format(label=label),
        )
    if stored.expires_at is not None and stored.expires_at <= utc_now():
        raise AccessError(
            _("The key's boundary has expired."),
            evidence=f"{where}: expires_at = {stored.expires_at.isoformat()}",
            fix=_("Make a new key for this experiment and name its new boundary."),
        )
    return stricter(written, stored)


def today(state: KeyState) -> KeyDay | None:
    """A key's account of today; None where its value, and so its fingerprint, is not to be had."""
    if state.fingerprint is None:
        return None
    zone = state.boundary.timezone
    day = day_of(utc_now(), zone)
    shown = spent_today(ledgers(None), state.fingerprint, zone)
    with contextlib.closing(AccountBook(account_file())) as book:
        spent = book.spent(state.fingerprint, day)
    return KeyDay(state.key.label, day, max(spent, shown), shown, state.boundary.daily_budget_tokens)


def days(states: Iterable[KeyState]) -> dict[str, KeyDay]:
    """`today` of many keys by label, each ledger read once; keys without a fingerprint are left out."""
    known = {state.key.label: state for state in states if state.fingerprint is not None}
    now = utc_now()
    begin = {zone: day_start(now, zone) for zone in {state.boundary.timezone for state in known.values()}}
    shown: Counter[tuple[str, str]] = Counter()
    for path in ledgers(None) if known else ():
        if datetime.fromtimestamp(path.stat().st_mtime, UTC) < min(begin.values()):
            continue  # appended to before today: none of its lines are of today
        for attempt in read_attempts(path):
            spent = attempt.spent_tokens
            if attempt.key_fp is None or not spent:
                continue
            moment = moment_of(attempt.timestamp)
            for zone, since in begin.items():
                if moment >= since:
                    shown[attempt.key_fp, zone] += spent
    found = {}
    with contextlib.closing(AccountBook(account_file())) as book:
        for label, state in known.items():
            name, zone = state.fingerprint or "", state.boundary.timezone
            day = day_of(now, zone)
            seen = shown[name, zone]
            spent = max(book.spent(name, day), seen)
            found[label] = KeyDay(label, day, spent, seen, state.boundary.daily_budget_tokens)
    return found


def rebuild(state: KeyState) -> tuple[int, int] | None:
    """Set a key's account of today to what the ledgers show: (tokens before, tokens now).

    None where its fingerprint is not to be had.
    """
    if state.fingerprint is None:
        return None
    zone = state.boundary.timezone
    shown = spent_today(ledgers(None), state.fingerprint, zone)
    with contextlib.closing(AccountBook(account_file())) as book:
        before = book.rebuild(state.fingerprint, day_of(utc_now(), zone), shown)
    return before, shown


def rebuild_others(known: Collection[str | None]) -> dict[str, tuple[int, int]]:
    """The same for every other key that the ledgers show, by fingerprint, for the day in UTC."""
    found = {
        attempt.key_fp
        for path in ledgers(None)
        for attempt in read_attempts(path)
        if attempt.key_fp is not None and attempt.key_fp not in known
    }
    changed = {}
    with contextlib.closing(AccountBook(account_file())) as book:
        for name in sorted(found):
            shown = spent_today(ledgers(None), name, "UTC")
            before = book.rebuild(name, day_of(utc_now(), "UTC"), shown)
            if before or shown:
                changed[name] = (before, shown)
    return changed
