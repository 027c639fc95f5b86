"""The folder of an experiment and the names of its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# What a start writes or keeps here; files of tasks are copied beside them and may not bear these names.
OWN_NAMES = frozenset(
    {
        "experiment.yaml",
        "experiment.resolved.yaml",
        "tasks.jsonl",
        "token_ledger.jsonl",
        "samples.jsonl",
        "events.jsonl",
        "outcomes.jsonl",
        "pairwise_records.jsonl",
        "elo_result.csv",
        "fit.json",
        "control.json",
        "start.log",
        "raw",
        "archive",
    }
)


@dataclass(frozen=True, slots=True)
class ExperimentFolder:
    """`<workspace>/<experiment_id>/`: the append-only files of all starts, and what is derived from them."""

    path: Path

    @property
    def source(self) -> Path:
        """The user's experiment.yaml, never written after its copy was made."""
        return self.path / "experiment.yaml"

    @property
    def resolved(self) -> Path:
        """All defaults written out, frozen at the first start."""
        return self.path / "experiment.resolved.yaml"

    @property
    def tasks(self) -> Path:
        """The tasks as the first start saw them."""
        return self.path / "tasks.jsonl"

    @property
    def ledger(self) -> Path:
        """One line per attempt."""
        return self.path / "token_ledger.jsonl"

    @property
    def samples(self) -> Path:
        """One line per answered call: its text, and the ledger line that follows it."""
        return self.path / "samples.jsonl"

    @property
    def events(self) -> Path:
        """What views read."""
        return self.path / "events.jsonl"

    @property
    def outcomes(self) -> Path:
        """One line per (block, strategy)."""
        return self.path / "outcomes.jsonl"

    @property
    def records(self) -> Path:
        """The in-task comparisons, derived from outcomes."""
        return self.path / "pairwise_records.jsonl"

    @property
    def table(self) -> Path:
        """The result as CSV."""
        return self.path / "elo_result.csv"

    @property
    def fit(self) -> Path:
        """The whole fit as JSON."""
        return self.path / "fit.json"

    @property
    def control(self) -> Path:
        """The state that a user asks a running start to take."""
        return self.path / "control.json"

    @property
    def log(self) -> Path:
        """What a start without a terminal printed."""
        return self.path / "start.log"

    @property
    def archive(self) -> Path:
        """One folder per packed start."""
        return self.path / "archive"
