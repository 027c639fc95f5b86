"""The key of an experiment, and what it has spent today."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from elometer.core.clock import parse_timestamp, utc_now
from elometer.core.errors import AccessError
from elometer.core.paths import state_folder
from elometer.core.redact import Secret
from elometer.core.text import gettext as _
from elometer.ledger.reader import read_attempts
from elometer.profiles.secrets import fingerprint, lookup_key
from elometer.profiles.store import Store
from elometer.runs.spec import Experiment


def experiment_key(experiment: Experiment, *, expired_too: bool = False) -> tuple[Secret, str]:
    """The key of an experiment and its fingerprint.

    Looked up as the design says: `key_env`, else the store's `key_label`, else TAOTOKEN_API_KEY. Raises
    AccessError where there is none, where its value cannot be a key, or (but for `expired_too`) where its
    boundary has expired.
    """
    gateway = experiment.gateway
    expires = gateway.boundary.expires_at
    bound = experiment.agent.kind != "demo" and not expired_too
    if bound and expires is not None and expires <= utc_now():
        raise AccessError(
            _("The key's boundary has expired."),
            evidence=f"taotoken.key_boundary.expires_at: {expires.isoformat()}",
            fix=_("Make a new key for this experiment and write its new boundary into experiment.yaml."),
        )
    secret, _source = lookup_key(gateway.key_env, gateway.key_label, os.environ, Store.load())
    return secret, fingerprint(secret)


def account_file() -> Path:
    """The account book that all processes of this user share."""
    return state_folder() / "accounts.sqlite3"


def day_start(now: datetime, zone: str) -> datetime:
    """The first moment of the current day in a time zone, in UTC."""
    local = now.astimezone(ZoneInfo(zone))
    return local.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)


def spent_today(ledgers: list[Path], key_fp: str, zone: str) -> int:
    """Tokens that a key spent since the start of its day, in all ledgers of the workspace.

    Attempts whose use nobody knows weigh what the account kept for them.
    """
    since = day_start(utc_now(), zone)
    total = 0
    for path in ledgers:
        if datetime.fromtimestamp(path.stat().st_mtime, UTC) < since:
            continue  # appended to before today: none of its lines are of today
        for attempt in read_attempts(path):
            spent = attempt.spent_tokens if attempt.key_fp == key_fp else 0
            if spent and moment_of(attempt.timestamp) >= since:
                total += spent
    return total


def moment_of(text: str) -> datetime:
    """A ledger line's moment; the beginning of time where it does not read."""
    try:
        return parse_timestamp(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
