"""What the panes ask for: each verb is a use case of `jobs`, imported when it is first used.

The first paint needs none of them. Everything here may touch files or compute; the app calls the slow ones in
a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from elometer.runs.state import RunState


class Watch(Protocol):
    """A start's folder, followed by its events."""

    folder: Path
    state: RunState

    def poll(self) -> RunState:
        """Read what is new."""


class Verbs:
    """The use cases, bound to the real ones; tests give the app others."""

    def watch(self, folder: Path) -> Watch:
        """Follow a start's folder."""
        from elometer.jobs.watch import StartWatch

        return StartWatch(folder)

    def starts(self) -> Sequence[Any]:
        """Experiments of the workspace with the status of their last start, newest first."""
        from elometer.jobs.starts import list_starts

        return list_starts()

    def start_demo(self) -> Path:
        """Start the demo in a process of its own; the folder to watch."""
        from elometer.jobs.demo import start_demo

        return start_demo()

    def start_run(self, target: Path) -> Path:
        """Start or resume an experiment in a process of its own; the folder to watch."""
        from elometer.jobs.run import start_run

        return start_run(target)

    def set_state(self, folder: Path, state: str) -> None:
        """Ask a start to be `running`, `paused` or `stopping`."""
        from elometer.jobs.control import set_state

        set_state(folder, state)

    def set_limit(self, folder: Path, limit: int) -> None:
        """Ask a start for another cap on calls in flight."""
        from elometer.jobs.control import set_limit

        set_limit(folder, limit)

    def current_fit(self, folder: Path) -> Any:
        """The fit of what is on disk; None while nothing can be compared. Computes: call it in a thread."""
        from elometer.jobs.result import current_fit

        return current_fit(folder)

    def active_profiles(self) -> dict[str, str]:
        """Name of the active profile by tool."""
        return {}
