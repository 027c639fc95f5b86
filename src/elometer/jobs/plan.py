"""Plan an experiment: what it will take and what it can show, from its file alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from elometer.core import paths
from elometer.core.clock import utc_now
from elometer.core.text import gettext as _
from elometer.jobs.prepare import locate
from elometer.runs.costs import Estimate, PilotLine, from_pilot, from_table, read_token_table
from elometer.runs.findings import Finding, where
from elometer.runs.graders import is_binary
from elometer.runs.plan import Plan, make_plan
from elometer.runs.sharing import calls_per_block
from elometer.runs.spec import Experiment, load_experiment
from elometer.runs.tasks import Task, load_tasks, missing_tasks, read_tasks, tasks_path


def plan(given: Path, tokens: Path | None = None, *, now: datetime | None = None) -> Plan:
    """The plan of an experiment.yaml, its folder or its id.

    Tokens come from the table `tokens`, else from the experiment's own ledger, else they stay unknown. Tasks
    that are named and not written yet are a finding. Raises SpecError and NotSupportedYet as a start would,
    UsageError for a token table that does not fit.
    """
    source = locate(given)
    experiment = load_experiment(source)
    written, missing, findings = _tasks(experiment, source.parent)
    planned = [task.id for task in written] + missing
    blocks = len(planned) * experiment.sampling.runs
    estimate = _from_table(tokens, blocks) if tokens else _from_ledger(experiment, source.parent, blocks)
    clusters = len({task.cluster for task in written}) + len(missing)
    made = make_plan(
        experiment,
        planned,
        clusters,
        now or utc_now(),
        estimate,
        binary=all(is_binary(task.grader) for task in written),
    )
    return replace(made, findings=(*findings, *made.findings))


def _tasks(experiment: Experiment, folder: Path) -> tuple[Sequence[Task], list[str], list[Finding]]:
    """The written tasks that are meant, the ids that are named and not written, and what there is to say."""
    path = tasks_path(experiment, folder)
    written = read_tasks(path) if path.exists() else []
    absent = missing_tasks(experiment, written)
    if not absent:
        return load_tasks(experiment, folder), [], []
    found = replace(
        experiment.eval, tasks=tuple(name for name in experiment.eval.tasks if name not in absent)
    )
    chosen = load_tasks(replace(experiment, eval=found), folder) if found.tasks else []
    message = _("{count} of the named tasks are not written yet: {names}.")
    if not path.exists():
        message = _("The tasks file is not written yet; it is to hold: {names}.")
    ids = [name for name in absent if not set(name) & set("*?[")]
    finding = Finding(
        "tasks-missing",
        message.format(count=len(absent), names=", ".join(absent[:8]) + (", …" if len(absent) > 8 else "")),
        f"{where(experiment, 'eval.tasks')} ({path})",
        _("Write them, one JSON object a line; elometer init shows the form."),
    )
    return chosen, ids, [finding]


def _from_table(table: Path, blocks: int) -> Estimate:
    return from_table(read_token_table(table), blocks, str(table))


def _from_ledger(experiment: Experiment, folder: Path, blocks: int) -> Estimate | None:
    for home in (folder, paths.workspace() / experiment.experiment_id):
        ledger = home / "token_ledger.jsonl"
        if ledger.is_file():
            return from_pilot(
                _lines(ledger, experiment.experiment_id), calls_per_block(experiment), blocks, str(ledger)
            )
    return None


def _lines(ledger: Path, experiment_id: str) -> Iterator[PilotLine]:
    from elometer.ledger.reader import read_attempts

    for attempt in read_attempts(ledger):
        if attempt.strategy is not None and attempt.experiment_id == experiment_id:
            yield PilotLine(
                attempt.strategy,
                attempt.task,
                attempt.run,
                attempt.total_tokens or 0,
                attempt.final and attempt.status not in ("error", "cancelled"),
            )
