"""What is legal in an experiment and still likely to disappoint: findings, never errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from elometer.core.text import gettext as _
from elometer.runs.spec import Experiment
from elometer.wire.protocols import protocol

HIGH_CONCURRENCY = 32
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Finding:
    """A remark on a plan: a stable code, what is the matter, how we know, what to do."""

    code: str
    message: str
    evidence: str
    fix: str


def where(experiment: Experiment, key: str) -> str:
    """`FILE:LINE: key`, or the key alone where the file does not hold it."""
    for name in (key, key.replace("taotoken", "gateway", 1)):
        if name in experiment.lines:
            return f"{experiment.source}:{experiment.lines[name]}: {name}"
    return key


def lint(experiment: Experiment, now: datetime) -> list[Finding]:
    """Findings on the experiment's own text; `now` is aware."""
    return [finding for check in _CHECKS for finding in check(experiment, now)]


def _expiry(experiment: Experiment, now: datetime) -> Iterator[Finding]:
    expires = experiment.gateway.boundary.expires_at
    if expires is not None and expires <= now:
        ago = (now - expires).days
        yield Finding(
            "expired",
            _("The key's boundary has expired: a start against the gateway will be refused."),
            _("{where}: ended {moment}, {days} days ago").format(
                where=where(experiment, "taotoken.key_boundary.expires_at"),
                moment=expires.isoformat(timespec="minutes"),
                days=ago,
            ),
            _("Renew the key with its provider, then set the new date."),
        )


def _base_url(experiment: Experiment, now: datetime) -> Iterator[Finding]:
    root, parts = experiment.gateway.base_url, urlsplit(experiment.gateway.written_url)
    at = where(experiment, "taotoken.base_url")
    fix = _("Write the root: {root}").format(root=root)
    # What is written may hold a key in its query, so only the root is shown.
    evidence = _("{where}: read as {root}").format(where=at, root=root)
    if parts.query or parts.fragment:
        message = _("base_url carries a query or a fragment, which no client can use.")
        yield Finding("url-query", message, evidence, fix)
    if parts.path.rstrip("/").endswith("/v1"):
        message = _("base_url ends in /v1; the client of each tool adds it where it belongs.")
        yield Finding("url-v1", message, evidence, fix)
    elif parts.path.endswith("/"):
        yield Finding("url-slash", _("base_url ends in a slash."), evidence, fix)
    elif parts.path.rstrip("/") != urlsplit(root).path:
        yield Finding("url-path", _("base_url names more than the gateway's root."), evidence, fix)
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        message = _("base_url is not encrypted: the key and all texts can be read on the way.")
        yield Finding("url-plain", message, at, _("Use https, or a tunnel to this machine."))


def _temperature(experiment: Experiment, now: datetime) -> Iterator[Finding]:
    several = any(strategy.samples > 1 for strategy in experiment.strategies)
    if several and experiment.agent.params.get("temperature") is None:
        yield Finding(
            "temperature-unset",
            _("No temperature is set: the server's own default decides how much samples differ."),
            where(experiment, "agent.params"),
            _("Add under agent: params: {{temperature: 0.8}}").format(),
        )


def _placeholders(experiment: Experiment, now: datetime) -> Iterator[Finding]:
    if experiment.agent.model.startswith("your-"):
        key = "agent.model" if "agent.model" in experiment.lines else "taotoken.key_boundary.allowed_models"
        yield Finding(
            "placeholder-model",
            _("The model's name is still a placeholder."),
            f"{where(experiment, key)}: {experiment.agent.model}",
            _("Name a model that the gateway serves; elometer probe lists them."),
        )


def _concurrency(experiment: Experiment, now: datetime) -> Iterator[Finding]:
    cap = experiment.gateway.boundary.max_concurrency
    if cap is not None and cap >= HIGH_CONCURRENCY:
        yield Finding(
            "concurrency-high",
            _("So many calls at once meet rate limits, and more samples meet them more often."),
            f"{where(experiment, 'taotoken.key_boundary.max_concurrency')}: {cap}",
            _("Begin with 4 or 8."),
        )


def _contestants(experiment: Experiment, now: datetime) -> Iterator[Finding]:
    if len(experiment.contestants) < 2:
        yield Finding(
            "few-contestants",
            _("Fewer than two strategies are in the fit, so there is nothing to compare."),
            where(experiment, "agent.strategies"),
            _("Add strategies, or give a ceiling the role contestant."),
        )


def _unsent_params(experiment: Experiment, now: datetime) -> Iterator[Finding]:
    name = experiment.agent.protocol
    unsent = sorted(protocol(name).LEFT_OUT & experiment.agent.params.keys())
    if unsent:
        yield Finding(
            "params-unsent",
            _("The {protocol} protocol has no place for some parameters: they are not sent.").format(
                protocol=name
            ),
            f"{where(experiment, 'agent.params')}: {', '.join(unsent)}",
            _("Leave them out, or use the chat protocol."),
        )


_CHECKS: tuple[Callable[[Experiment, datetime], Iterator[Finding]], ...] = (
    _expiry,
    _base_url,
    _temperature,
    _placeholders,
    _concurrency,
    _contestants,
    _unsent_params,
)
