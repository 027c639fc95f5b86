"""All checks in the order in which they are asked and shown."""

from __future__ import annotations

from elometer.checks import (
    environment,
    files,
    keys,
    limits,
    live,
    live_answers,
    models,
    reconcile,
    terminal,
    urls,
)
from elometer.checks.engine import Check

STATIC: tuple[Check, ...] = (
    *keys.CHECKS,
    *urls.CHECKS,
    *environment.CHECKS,
    *models.CHECKS,
    *limits.CHECKS,
    *reconcile.CHECKS,
    *files.CHECKS,
    *terminal.CHECKS,
)

LIVE: tuple[Check, ...] = (*live.CHECKS, *live_answers.CHECKS)
