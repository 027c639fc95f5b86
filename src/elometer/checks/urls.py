"""Checks of base URLs: their form, what each tool makes of them, and that all of them mean one gateway."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from elometer.checks import layers
from elometer.checks.context import Context
from elometer.checks.engine import Check, Result, passed, unknown
from elometer.checks.subjects import host_of, is_loopback, nothing_stored, profile_subjects
from elometer.core.text import gettext as _
from elometer.core.urls import effective_url, has_version, url_fault, without_userinfo
from elometer.profiles.validate import profile_problems

FOUNDING_URL = "TAOTOKEN_BASE_URL"


def _roots(context: Context) -> list[tuple[str, str]]:
    """(name, root) of everything in question."""
    found = []
    if context.experiment is not None and context.experiment.needs_gateway:
        found.append((context.experiment.experiment_id, context.experiment.base_url))
    found += [(f"{profile.tool} · {profile.name}", profile.base_url) for profile in profile_subjects(context)]
    for _name, root in found:
        layers.guard_url(root)
    return found


def root_is_well_formed(context: Context) -> Result:
    """Scheme, host, no space, query, doubled slash, doubled version or operation at the end."""
    roots = _roots(context)
    if not roots:
        return _no_url(context)
    for name, root in roots:
        fault = url_fault(root)
        if fault is not None:
            return Result(
                "fail",
                (f"{name}: {without_userinfo(root)}", fault.reason.replace("_", " ")),
                _("The base URL cannot be used as it stands."),
                _("Write {url}").format(url=fault.proposal)
                if fault.proposal
                else _("Name the gateway's root."),
            )
    return passed(*(f"{name}: {root}" for name, root in roots))


def profiles_are_valid(context: Context) -> Result:
    """The store's own rules, for every profile in question: variables of other tools, doubled URLs, names."""
    profiles = profile_subjects(context)
    if not profiles:
        return unknown(nothing_stored())
    for profile in profiles:
        if not host_of(profile.base_url):
            # The rules take a URL apart; url.form says what is wrong with this one.
            return unknown(f"{profile.tool} · {profile.name}: {without_userinfo(profile.base_url)}")
    for severity in ("fail", "warn"):
        for profile in profiles:
            for problem in profile_problems(profile):
                # The version in a URL, wire_api and unencrypted hosts have questions of their own.
                own = problem.code in ("url_version", "url_clear", "wire_api_chat")
                if problem.severity == severity and not own:
                    return Result(
                        problem.severity,
                        (f"{profile.tool} · {profile.name}", problem.code),
                        problem.message,
                        problem.fix or f"elometer profile edit {profile.name}",
                    )
    return passed(*(f"{profile.tool} · {profile.name}" for profile in profiles))


def version_fits_tool(context: Context) -> Result:
    """Claude Code adds /v1 itself; Codex and OpenAI clients need it in the base they are given."""
    profiles = profile_subjects(context)
    experiment = context.experiment
    if experiment is not None and experiment.needs_gateway and has_version(experiment.base_url):
        root = experiment.base_url.rstrip("/").rpartition("/")[0]
        return Result(
            "warn",
            (f"{experiment.experiment_id}: {experiment.base_url}",),
            _(
                "The base URL is not the root: Claude Code adds /v1 itself and would call {url}/v1/messages."
            ).format(url=experiment.base_url.rstrip("/")),
            _("Write base_url: {root}").format(root=root),
        )
    if not profiles:
        return _no_url(context)
    lines = [f"{profile.tool} · {profile.name} → {profile.effective_url}" for profile in profiles]
    wrong = [
        profile for profile in profiles if profile.tool == "claude-code" and has_version(profile.base_url)
    ]
    if not wrong:
        return passed(*lines)
    root = wrong[0].base_url.rstrip("/").rpartition("/")[0]
    return Result(
        "fail" if context.profile is not None or context.experiment is not None else "warn",
        tuple(lines),
        _(
            "Claude Code adds /v1 itself and would call {url}/v1/messages: 404, reported as a faulty model."
        ).format(url=wrong[0].effective_url),
        f"elometer profile edit {wrong[0].name} --base-url {root}",
    )


def live_urls_fit_tools(context: Context) -> Result:
    """The URLs that clients would use now: ANTHROPIC_BASE_URL that wins, Codex's tables, OPENAI_BASE_URL."""
    uses = list(_live_urls(context))
    if not uses:
        return passed(_("no client has a base URL of its own"))
    lines = tuple(f"{tool}: {without_userinfo(url)} ({where})" for tool, url, where in uses)
    for tool, url, where in uses:
        if tool == "openai-compatible" and not url.strip():
            return Result(
                "warn",
                lines,
                _("OPENAI_BASE_URL is set and empty: clients then call no host at all."),
                "unset OPENAI_BASE_URL",
            )
        # As given, an OpenAI client adds nothing: what it needs is what effective_url makes of the root.
        fault = url_fault(url)
        versioned = fault is None and has_version(url)
        if fault is not None:
            cause = _("{tool}: the base URL cannot be used ({reason}).").format(
                tool=tool, reason=fault.reason.replace("_", " ")
            )
            return Result("warn", lines, cause, _set_url(tool, fault.proposal or _("a URL"), where))
        if tool == "claude-code" and versioned:
            root = url.rstrip("/").rpartition("/")[0]
            cause = _("Claude Code would call {url}/v1/messages: /v1 stands twice.").format(
                url=url.rstrip("/")
            )
            return Result("warn", lines, cause, _set_url(tool, root, where))
        if tool != "claude-code" and not versioned:
            cause = _("{tool} adds no /v1: it would call {url}/…, which gateways answer with 404.").format(
                tool=tool, url=url.rstrip("/")
            )
            return Result("warn", lines, cause, _set_url(tool, effective_url(url, tool), where))
    return passed(*lines)


def _set_url(tool: str, url: str, where: str) -> str:
    if tool == "codex":
        return _('Set base_url = "{url}" in {where}.').format(url=url, where=where)
    name = layers.CLAUDE_URL if tool == "claude-code" else "OPENAI_BASE_URL"
    shell = where == _("shell")
    return (
        f"export {name}={url}"
        if shell
        else _("Set {name} to {url} in {where}.").format(name=name, url=url, where=where)
    )


def _live_urls(context: Context) -> Iterator[tuple[str, str, str]]:
    claude = layers.winner(layers.claude_layers(context), layers.CLAUDE_URL)
    if claude is not None and claude.value:
        place = claude.layer.path
        yield "claude-code", claude.value, context.shown(place) if place else claude.layer.name
    config = layers.codex_config(context)
    if config is not None:
        assert config.path is not None
        for name, table in _codex_providers(config.document):
            if isinstance(url := table.get("base_url"), str):
                yield "codex", url, f"{context.shown(config.path)} [model_providers.{name}]"
    if "OPENAI_BASE_URL" in context.environ:
        yield "openai-compatible", context.environ["OPENAI_BASE_URL"], _("shell")


def _codex_providers(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    providers = document.get("model_providers")
    if isinstance(providers, dict):
        yield from ((name, table) for name, table in providers.items() if isinstance(table, dict))


def urls_mean_one_gateway(context: Context) -> Result:
    """The experiment's root, its variable and its profile name the same host and path."""
    named = context.environ.get(FOUNDING_URL)
    layers.guard_url(named or "")
    roots = _roots(context) if context.experiment is not None else []
    if named is not None and (context.experiment is not None or context.profile is not None):
        roots = [*(roots or _roots(context)), (FOUNDING_URL, named)]
    if len(roots) < 2:
        return (
            passed(*(f"{name}: {without_userinfo(root)}" for name, root in roots))
            if roots
            else unknown(_("nothing to compare: no experiment was named"))
        )
    lines = tuple(f"{name}: {without_userinfo(root)}" for name, root in roots)
    if (
        len({root if url_fault(root) else effective_url(root, "openai-compatible") for _name, root in roots})
        == 1
    ):
        return passed(*lines)
    stale = any(name == FOUNDING_URL for name, _root in roots)
    return Result(
        "warn",
        lines,
        _("The same experiment knows two gateways; tokens would go to one and be looked for at another."),
        f"export {FOUNDING_URL}={without_userinfo(roots[0][1])}"
        if stale
        else _("Give all of them the same root."),
    )


def keys_travel_encrypted(context: Context) -> Result:
    """https, or this machine or a private network."""
    roots = _roots(context) + [(tool, url) for tool, url, _where in _live_urls(context)]
    if not roots:
        return _no_url(context)
    lines = tuple(f"{name}: {without_userinfo(root)}" for name, root in roots)
    for name, root in roots:
        host = host_of(root)
        if root.strip().startswith("http://") and host and not is_loopback(root):
            private = _is_private(host)
            return Result(
                "warn",
                lines,
                _("{name}: the key travels unencrypted to {host}{where}.").format(
                    name=name, host=host, where=_(" (a private network)") if private else ""
                ),
                _("Use https:// where the gateway offers it, or a tunnel to a port on this machine."),
            )
    return passed(*lines)


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False


def _no_url(context: Context) -> Result:
    if context.experiment is not None:
        return passed(_("no profile of a client takes part"))
    return unknown(nothing_stored())


CHECKS = (
    Check(
        "url.form",
        "url",
        "Is the base URL a root without path, query or space faults?",
        0,
        root_is_well_formed,
    ),
    Check("url.version", "url", "Does each tool get /v1 exactly once?", 0, version_fits_tool, ("url.form",)),
    Check("url.live", "url", "Do the clients' own settings get /v1 exactly once?", 0, live_urls_fit_tools),
    Check(
        "url.one-gateway",
        "url",
        "Do experiment, variable and profiles mean one gateway?",
        0,
        urls_mean_one_gateway,
        ("url.form",),
    ),
    Check("url.encrypted", "url", "Does the key travel encrypted?", 0, keys_travel_encrypted),
    Check(
        "url.profiles",
        "url",
        "Do the profiles keep to their tool's rules?",
        0,
        profiles_are_valid,
        ("url.form",),
    ),
)
