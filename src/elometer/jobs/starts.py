"""The experiments of the workspace and how each stands."""

from __future__ import annotations

from elometer.jobs.places import experiments
from elometer.jobs.watch import StartSummary, summarise


def all_starts() -> list[StartSummary]:
    """One summary per experiment, the one that moved last first."""
    return sorted(
        (summarise(folder) for folder in experiments()), key=lambda item: item.last_at or 0.0, reverse=True
    )
