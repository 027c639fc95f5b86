"""One minimal request per protocol, usable before any profile exists; what it costs is booked as `probe`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from elometer.checks.catalogue import LIVE
from elometer.checks.context import Context
from elometer.checks.engine import Row, ask_all
from elometer.checks.live import REPORT, target_of
from elometer.checks.probe_rows import CHECKS
from elometer.checks.probing import Report, Target
from elometer.core import paths
from elometer.core.errors import AccessError, UsageError
from elometer.core.redact import Secret
from elometer.core.text import gettext as _
from elometer.core.urls import url_fault
from elometer.jobs.checks import Question, book_probe, build_context
from elometer.profiles.secrets import FALLBACK, fingerprint, key_problems, refuse_unusable


@dataclass(frozen=True, slots=True)
class Probed:
    """The rows, and what they rest on."""

    rows: list[Row]
    report: Report | None

    @property
    def served_as(self) -> dict[str, list[str]]:
        """Requested model → names that answered for it, where they differ."""
        if self.report is None or self.report.model is None:
            return {}
        names = {one.attempt.model for one in self.report.tries if one.ok and one.attempt is not None}
        foreign = sorted(names - {self.report.model})
        return {self.report.model: foreign} if foreign else {}


def probe_named(name: str, model: str | None = None, tool: str | None = None) -> Probed:
    """Probe the gateway of an experiment (a file, folder or id) or of a profile.

    Raises UsageError for an unknown name.
    """
    path = Path(name)
    if path.exists() or (paths.workspace() / name).exists():
        question = Question(experiment=path)
    else:
        question = Question(profile=name, tool=tool)
    return _probe(build_context(question), model)


def probe_url(
    base_url: str, model: str | None, key_env: str | None, environ: Mapping[str, str] | None = None
) -> Probed:
    """Probe a gateway by its URL, before there is a profile. The key comes from a variable, if there is one.

    Raises UsageError for what is no URL, AccessError where the named variable holds no key that can be sent.
    """
    fault = url_fault(base_url)
    if fault is not None and not fault.proposal:
        raise UsageError(
            _("This is no base URL."),
            evidence=fault.reason,
            fix=_("Name the gateway's root: https://HOST/PATH"),
        )
    environ = os.environ if environ is None else environ
    context = build_context(Question(environ=environ))
    key = _key(key_env, environ)
    context.target = Target(
        root=base_url, key=key, model=model, key_fp=fingerprint(key) if key is not None else None
    )
    return _probe(context, model)


def _key(key_env: str | None, environ: Mapping[str, str]) -> Secret | None:
    value = environ.get(key_env or FALLBACK)
    if value:
        return Secret(value)
    if key_env is None:
        return None
    raise AccessError(
        _("No key was found."),
        evidence=_("{name} is not set").format(name=key_env),
        fix=f"export {key_env}=…",
    )


def _probe(context: Context, model: str | None) -> Probed:
    target = target_of(context)
    if target is None:
        raise UsageError(
            _("There is nothing to probe."),
            evidence=_("The experiment's gateway is part of the program."),
            fix=_("Name a profile, an experiment file, or --base-url URL."),
        )
    if target.key is not None:
        # A character that no header can hold would end in an error whose text repeats the key.
        refuse_unusable(key_problems(target.key.reveal()), _("the key's source"))
    context.target = replace(target, model=model or target.model)
    try:
        rows = list(ask_all((*CHECKS, *LIVE), context))
    finally:
        book_probe(context)
    return Probed(rows, context.recall(REPORT))
