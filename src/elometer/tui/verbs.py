"""What the panes ask for: each verb is a use case of `jobs`, imported when it is first used.

The first paint needs none of them. Everything here may touch files or compute; the app calls the slow ones in
a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, cast

from elometer.core.redact import redact

if TYPE_CHECKING:
    from elometer.checks.engine import Row as CheckRow
    from elometer.checks.engine import Status
    from elometer.gateway.demo.faults import Fault
    from elometer.jobs.account import KeyDay
    from elometer.jobs.planted import PlantedDemo
    from elometer.jobs.profiles import Prepared as PreparedLaunch
    from elometer.jobs.profiles import Preview, ProfileRow
    from elometer.jobs.watch import StartSummary
    from elometer.ledger.index import LineIndex
    from elometer.ledger.totals import Totals
    from elometer.profiles.drift import ToolState
    from elometer.profiles.model import Problem, Tool
    from elometer.profiles.presets import Preset
    from elometer.profiles.selftest import SelfTest
    from elometer.rating.result import FitResult
    from elometer.runs.live import LiveFit
    from elometer.runs.result import Derived
    from elometer.runs.state import RunState


class Watch(Protocol):
    """A start's folder, followed by its events."""

    folder: Path
    state: RunState

    def poll(self) -> RunState:
        """Read what is new."""


class Verbs:
    """The use cases, bound to the real ones; tests give the app others."""

    def __init__(self) -> None:
        self._live: tuple[Path, LiveFit] | None = None
        self._fitting = threading.Lock()

    def watch(self, folder: Path) -> Watch:
        """Follow a start's folder."""
        from elometer.jobs.watch import StartWatch

        return StartWatch(folder)

    def starts(self) -> Sequence[StartSummary]:
        """Experiments of the workspace and how each stands, the one that moved last first."""
        from elometer.jobs.starts import all_starts

        return all_starts()

    def start_demo(self) -> Path:
        """Begin a demo in a process of its own; the folder to watch."""
        from elometer.jobs.demo import create_demo

        return self.start_run(create_demo())

    def faults(self) -> Sequence[Fault]:
        """The faults that a demo can be given."""
        from elometer.jobs.planted import known_faults

        return known_faults()

    def plant(self, name: str) -> PlantedDemo:
        """A new demo with a fault, and what all checks say of it; its gateway runs for that long."""
        from elometer.jobs.planted import plant

        return plant(name)

    def start_run(self, target: Path, *, force: bool = False) -> Path:
        """Begin or resume an experiment in a process of its own; the folder to watch."""
        from elometer.jobs.prepare import prepare
        from elometer.jobs.run import RunOptions, spawn

        prepared = prepare(target)
        spawn(prepared, RunOptions(force=force))
        return prepared.folder.path

    def last_words(self, folder: Path, lines: int = 3) -> list[str]:
        """The end of what the start's process printed: why it said nothing else."""
        from elometer.runs.folder import ExperimentFolder

        try:
            text = ExperimentFolder(folder).log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        return [redact(line) for line in text.splitlines()[-lines:]]

    def set_state(self, folder: Path, state: Literal["running", "paused", "stopping"]) -> None:
        """Ask a start to be in a state."""
        from elometer.jobs.control import set_state

        set_state(folder, state)

    def set_limit(self, folder: Path, limit: int) -> None:
        """Ask a start for another cap on calls in flight."""
        from elometer.jobs.control import set_limit

        set_limit(folder, limit)

    def ledger_index(self, path: Path) -> LineIndex:
        """Where each line of a ledger starts."""
        from elometer.ledger.index import LineIndex

        return LineIndex(path)

    def ledger_totals(self, path: Path, by: str) -> Totals:
        """Sums of a ledger; reads what is new since the last time."""
        from elometer.ledger.totals import totals

        return totals([path], by)

    def profiles(self) -> Sequence[ProfileRow]:
        """The store's profiles. Commands that are key sources are not run for a list."""
        from elometer.jobs.profiles import list_profiles

        return list_profiles(run_commands=False)

    def key_days(self) -> Mapping[str, KeyDay]:
        """What each key has spent today, by label; reads the ledgers of today. No key source is run."""
        from elometer.jobs.account import days
        from elometer.jobs.profiles import key_states
        from elometer.profiles.store import Store

        return days(key_states(Store.load(), run_commands=False).values())

    def presets(self) -> Sequence[Preset]:
        """What `sample_profiles` offers."""
        from elometer.jobs.profiles import presets

        return presets()

    def add_profile(
        self,
        *,
        tool: str,
        name: str | None,
        base_url: str | None,
        key: str | None,
        key_source: str | None,
        model: str | None,
    ) -> Sequence[Problem]:
        """Save a profile; what is odd about it. Raises UsageError for what keeps it out."""
        from elometer.jobs.profiles import add_profile
        from elometer.profiles.model import Profile

        profile = Profile(
            name=name or "", tool=cast("Tool", tool), base_url=base_url or "", key=key, model=model
        )
        return add_profile(profile, key_source=key_source)

    def active_profiles(self) -> dict[str, str]:
        """Name of the active profile by tool."""
        return {row.tool: row.name for row in self.profiles() if row.active}

    def current_fit(self, folder: Path) -> FitResult | None:
        """The fit of what is on disk; None while nothing can be compared. Computes: call it in a thread."""
        from elometer.jobs.result import live_fit

        with self._fitting:
            if self._live is None or self._live[0] != folder:
                live = live_fit(folder)
                if live is None:
                    return None
                self._live = (folder, live)
            return self._live[1].update()

    def current_result(self, folder: Path) -> Derived | None:
        """The fit and all that stands beside it; None before the first outcome. Reads everything: seldom."""
        from elometer.jobs.result import current_result

        return current_result(folder)

    def checks(
        self, folder: Path | None, *, only: Sequence[str] = (), known: Mapping[str, Status] | None = None
    ) -> Sequence[CheckRow]:
        """Rows of the static checks; those of an experiment too where `folder` holds one."""
        from elometer.jobs.checks import Question, run_static

        return run_static(Question(experiment=_experiment(folder)), only=only, known=known)

    def keep_fix(self, check: str, fix: str) -> Path:
        """Write a check's fix into a file of its own, for terminals that pass no clipboard on."""
        from elometer.core.atomic import make_private_folder, replace_file
        from elometer.core.paths import state_folder

        path = make_private_folder(state_folder() / "fixes") / f"{check}.txt"
        replace_file(path, (redact(fix) + "\n").encode())
        return path

    def live_cost(self) -> int:
        """The most that the live checks may spend, in tokens."""
        from elometer.jobs.checks import live_cost_tokens

        return live_cost_tokens()

    def live_checks(self, folder: Path | None) -> Sequence[CheckRow]:
        """Rows of the checks that ask the gateway; what they spend is booked as `probe`."""
        from elometer.jobs.checks import Question, run_live

        return run_live(Question(experiment=_experiment(folder)))

    def probe(self, name: str, tool: str) -> Sequence[CheckRow]:
        """Rows of one minimal request per protocol to a profile's gateway; booked as `probe`."""
        from elometer.jobs.probe import probe_named

        return probe_named(name, tool=tool).rows

    def preview_switch(self, name: str, tool: str) -> Preview:
        """What a switch to a profile would change; writes nothing."""
        from elometer.jobs.profiles import preview_switch

        return preview_switch(name, tool=tool)

    def preview_undo(self) -> Preview:
        """What taking back the newest switch would change; writes nothing."""
        from elometer.jobs.profiles import preview_undo

        return preview_undo()

    def apply(self, preview: Preview) -> None:
        """Carry out what was previewed. Raises UsageError where the file changed in between."""
        from elometer.jobs.profiles import apply

        apply(preview)

    def drift(self) -> Sequence[ToolState]:
        """What each tool lives by now."""
        from elometer.jobs.profiles import drift

        return drift()

    def edit_profile(self, name: str, tool: str, **changes: str | None) -> None:
        """Change fields of a profile. Raises UsageError for what does not fit."""
        from elometer.jobs.profiles import edit_profile

        edit_profile(name, tool, **changes)

    def duplicate_profile(self, name: str, new_name: str, tool: str) -> None:
        """Add a copy under a new name. Raises UsageError where that is taken."""
        from elometer.jobs.profiles import duplicate_profile

        duplicate_profile(name, new_name, tool)

    def self_test(self, name: str, tool: str) -> SelfTest:
        """Run the profile's real client against a loopback recorder, with a made-up key."""
        from elometer.jobs.profiles import check_profile

        return check_profile(name, tool=tool)

    def prepare_launch(self, name: str, tool: str) -> PreparedLaunch:
        """Everything that running the profile's client in a clean environment needs."""
        from elometer.jobs.profiles import prepare

        return prepare(name, tool=tool)

    def launch(self, prepared: PreparedLaunch) -> int:
        """Run the client in this terminal until it ends; its exit code."""
        from elometer.jobs.profiles import run

        return run(prepared.launch, read_stdin=True)

    def remove_profile(self, name: str, tool: str) -> None:
        """Take a profile out of the store; its key stays."""
        from elometer.jobs.profiles import remove_profile

        remove_profile(name, tool)

    def standing(self, folder: Path) -> str:
        """How the last start stands, `died` included; reads all its events: seldom, and in a thread."""
        from elometer.jobs.watch import summarise

        return summarise(folder).standing

    def init(self) -> Sequence[Path]:
        """Write a commented experiment and tasks file into a new folder of the workspace."""
        from elometer.jobs.init import init

        return init()


def _experiment(folder: Path | None) -> Path | None:
    """The folder, if it holds an experiment that checks can ask about."""
    return folder if folder is not None and (folder / "experiment.yaml").is_file() else None
