"""Asking the checks: what is in question, in which order, and what stands in the way of a start."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from elometer.checks.catalogue import LIVE, STATIC
from elometer.checks.context import Context, ExperimentFacts, StoreFacts, TerminalFacts
from elometer.checks.engine import Check, Row, Status, ask_all
from elometer.checks.live import REPORT
from elometer.checks.live_answers import RAMP_CHECK
from elometer.checks.probing import Report
from elometer.core import paths
from elometer.core.atomic import make_private_folder
from elometer.core.attempt import Attempt
from elometer.core.errors import AccessError, ElometerError
from elometer.core.limits import Boundary
from elometer.core.redact import register
from elometer.core.text import gettext as _
from elometer.jobs.demo import as_planted
from elometer.jobs.prepare import locate
from elometer.ledger.writer import JsonlWriter
from elometer.profiles.model import Profile
from elometer.profiles.store import Store, store_path
from elometer.runs.folder import ExperimentFolder
from elometer.runs.served import frozen_names
from elometer.runs.spec import Experiment, load_experiment

# What must hold before a key is put into a request.
BEFORE_SENDING = ("key.set", "key.placeholder", "key.format")
# Beside imported ledgers: spent, and charged to no strategy of any experiment.
PROBE_LEDGER = Path("imports") / "probe" / "token_ledger.jsonl"


@dataclass(frozen=True, slots=True)
class Question:
    """What to check: everything, one profile, or one experiment."""

    profile: str | None = None
    tool: str | None = None
    experiment: Path | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


def build_context(question: Question) -> Context:
    """The world that the checks look at. Raises UsageError for an unknown profile or a faulty experiment.

    A store that cannot be read is no error here: a check says so.
    """
    _register_environment(question.environ)
    store, facts = _store()
    experiment = _experiment_facts(question.experiment, facts) if question.experiment is not None else None
    profile = None
    if question.profile is not None:
        profile = (store or Store.load()).profile(question.profile, question.tool)
    return Context(
        environ=question.environ,
        home=Path.home(),
        folder=Path.cwd(),
        workspace=paths.workspace(),
        store=facts,
        experiment=experiment,
        profile=profile,
        terminal=_terminal(),
    )


def _register_environment(environ: Mapping[str, str]) -> None:
    """Mask the credentials of this shell wherever they might turn up in a line of evidence."""
    from elometer.checks.layers import is_secret

    for name, value in environ.items():
        if is_secret(name) and value:
            register(value)


def _store() -> tuple[Store | None, StoreFacts]:
    path = store_path()
    try:
        store = Store.load(path)
    except ElometerError as error:
        return None, StoreFacts(path=path, problem=f"{error.message} {error.evidence}".strip())
    return store, StoreFacts(tuple(store.profiles), tuple(store.keys.values()), path)


def _experiment_facts(given: Path, store: StoreFacts) -> ExperimentFacts:
    source = locate(given)
    return experiment_facts(as_planted(load_experiment(source)), source, store)


def experiment_facts(experiment: Experiment, source: Path, store: StoreFacts) -> ExperimentFacts:
    """What the checks see of an experiment; names that earlier starts learnt are known."""
    gateway, agent = experiment.gateway, experiment.agent
    folder = folder_of(source, experiment.experiment_id)
    stored = store.key(gateway.key_label)
    bound = stricter(gateway.boundary, stored.boundary) if stored is not None else gateway.boundary
    return ExperimentFacts(
        experiment_id=experiment.experiment_id,
        base_url=gateway.base_url,
        kind=agent.kind,
        protocol=agent.protocol,
        key_label=gateway.key_label or None,
        key_source=f"env:{gateway.key_env}" if gateway.key_env else None,
        stated=gateway.boundary,
        boundary=bound,
        timezone=gateway.timezone,
        served_as={**frozen_names(ExperimentFolder(folder)), **gateway.served_as},
        models=(agent.model,) if agent.model else (),
        profile=_profile_of(experiment, store),
        file=source,
        folder=folder,
    )


def folder_of(source: Path, experiment_id: str) -> Path:
    """Where the experiment's files are or will be: beside a resolved spec, else in the workspace."""
    beside = (source.parent / "experiment.resolved.yaml").exists()
    return source.parent if beside else paths.workspace() / experiment_id


def _profile_of(experiment: Experiment, store: StoreFacts) -> Profile | None:
    name = experiment.agent.profile
    return next((profile for profile in store.profiles if profile.name == name), None)


def stricter(first: Boundary, second: Boundary) -> Boundary:
    """Both boundaries at once: common models, the smaller numbers, the earlier expiry."""

    def least(name: str) -> Any:
        values = [value for bound in (first, second) if (value := getattr(bound, name)) is not None]
        return min(values, default=None)

    models = first.allowed_models or second.allowed_models
    if first.allowed_models and second.allowed_models:
        common = tuple(model for model in first.allowed_models if model in second.allowed_models)
        # An empty list would read as no limit; the second one alone refuses whatever the first allows.
        models = common or second.allowed_models
    return replace(
        first,
        allowed_models=models,
        daily_budget_tokens=least("daily_budget_tokens"),
        max_concurrency=least("max_concurrency"),
        expires_at=least("expires_at"),
    )


def _terminal() -> TerminalFacts | None:
    """The terminal behind descriptors 0 and 1: the app puts another object in place of `sys.stdout`."""
    try:
        size = os.get_terminal_size(1)
    except OSError:
        return None
    if not os.isatty(0):
        return None
    encoding = sys.__stdout__.encoding if sys.__stdout__ is not None else ""
    return TerminalFacts(size.columns, size.lines, encoding)


def run_static(
    question: Question,
    *,
    only: Sequence[str] = (),
    cancelled: threading.Event | None = None,
    known: Mapping[str, Status] | None = None,
) -> list[Row]:
    """Ask the checks that send nothing; `only` names some of them. Raises what build_context raises."""
    return list(ask(build_context(question), _chosen(STATIC, only), cancelled=cancelled, known=known))


def ask(
    context: Context,
    checks: Iterable[Check],
    *,
    cancelled: threading.Event | None = None,
    known: Mapping[str, Status] | None = None,
) -> Iterator[Row]:
    """Rows as they are answered."""
    return ask_all(checks, context, cancelled=cancelled, known=known)


def _chosen(checks: tuple[Check, ...], only: Sequence[str]) -> tuple[Check, ...]:
    return tuple(check for check in checks if not only or check.id in only)


def live_cost_tokens(only: Sequence[str] = (), *, ramp: bool = False) -> int:
    """The most that asking the live checks may spend, in tokens: one probe answers all of them."""
    asked = (*_chosen(LIVE, only), *((RAMP_CHECK,) if ramp else ()))
    return max((check.cost_tokens for check in asked), default=0)


def run_live(
    question: Question, *, only: Sequence[str] = (), cancelled: threading.Event | None = None
) -> list[Row]:
    """Ask the gateway; what that spends is booked. A key that cannot be sent as it stands is not sent."""
    context = build_context(question)
    known = {row.check.id: row.status for row in ask(context, _chosen(STATIC, BEFORE_SENDING))}
    try:
        return list(ask(context, _chosen(LIVE, only), cancelled=cancelled, known=known))
    finally:
        book_probe(context)


def run_all(
    question: Question, *, live: bool, ramp: bool = False, cancelled: threading.Event | None = None
) -> list[Row]:
    """Static checks, and with `live` those that ask the gateway after them; what they spend is booked.

    `ramp` also looks for a number of calls at once that the gateway takes; it goes with `live`.
    """
    context = build_context(question)
    checks = (*STATIC, *(LIVE if live else ()), *((RAMP_CHECK,) if live and ramp else ()))
    try:
        return list(ask(context, checks, cancelled=cancelled))
    finally:
        book_probe(context)


def book_probe(context: Context) -> None:
    """Book what live checks of this context spent so far."""
    report: Report | None = context.recall(REPORT)
    book(report.attempts if report is not None else ())


def book(attempts: Sequence[Attempt]) -> None:
    """Write what a probe used to the workspace's ledger of probes: spent, and charged to no strategy."""
    if not attempts:
        return
    path = paths.workspace() / PROBE_LEDGER
    make_private_folder(path.parent)
    with JsonlWriter(path) as writer:
        for attempt in attempts:
            writer.append(attempt)


def refuse_if_blocked(rows: Iterable[Row]) -> None:
    """Raise AccessError for the first row that fails: a start must not begin on it."""
    for row in rows:
        if row.status == "fail":
            raise AccessError(
                row.result.cause,
                evidence=f"{row.check.id}: " + "; ".join(row.result.evidence[:2]),
                fix=row.result.fix + " · " + _("or start with --force, which is recorded"),
            )
