"""Checks of what the gateway answers: models, served names, protocols, limits, cached replies."""

from __future__ import annotations

from elometer.checks import probing
from elometer.checks.context import Context
from elometer.checks.engine import Check, Result, passed, unknown
from elometer.checks.live import COST_TOKENS, no_target, report_of, tried
from elometer.core.text import gettext as _
from elometer.wire.classes import ERROR_CLASSES
from elometer.wire.failures import Failure

# Calls at once; the founding text advises 4 or 8, never 32.
RAMP = (1, 2, 4, 8)
RAMP_COST_TOKENS = COST_TOKENS + probing.TOKENS_A_PROTOCOL * sum(RAMP)
LIMIT_WORDS = {
    "concurrency_limit": "too many calls at once",
    "rpm_limit": "requests per minute",
    "tpm_limit": "tokens per minute",
    "rate_limit": "a rate limit of unknown kind",
    "overloaded": "the server is overloaded: no limit of yours",
}


async def models_are_there(context: Context) -> Result:
    """The boundary against /v1/models: "the gateway lacks it" told from "the key may not use it"."""
    report = await report_of(context)
    if report is None:
        return no_target()
    listed = report.listed
    for one in report.tries:
        if one.failure is None or one.failure.error_class not in ("model_unknown", "model_not_allowed"):
            continue
        model = report.model or "?"
        names = _("listed for this key: {names}").format(names=", ".join(listed[:12]) or _("(no list)"))
        if one.failure.error_class == "model_not_allowed":
            return Result(
                "fail",
                (tried(one), names),
                _("The key may not use {model}.").format(model=model),
                _("Add the model to the key at the gateway, or ask for one that is listed."),
            )
        return Result(
            "fail",
            (tried(one), names),
            _("The gateway does not know {model}.").format(model=model),
            _("Correct the name; nearest: {near}").format(near=_nearest(model, listed)),
        )
    wanted = context.experiment.boundary.allowed_models if context.experiment is not None else ()
    wanted = wanted or ((report.model,) if report.model else ())
    if not listed:
        return unknown(_("the gateway gives no list of models"))
    missing = [name for name in wanted if name not in listed]
    if report.model is None:
        return unknown(
            _("listed for this key: {names}").format(names=", ".join(listed[:12])),
            _("name one of them, so that an answer can be asked for"),
        )
    if missing and not any(one.ok for one in report.tries if one.kind != "models"):
        return Result(
            "fail",
            (tried(report.of("models")[-1]),),
            _("The gateway does not list {names} for this key.").format(names=", ".join(missing)),
            _("Nearest: {near}").format(near=_nearest(missing[0], listed)),
        )
    if missing:
        return passed(_("{names}: answers, although the list leaves it out").format(names=", ".join(missing)))
    return passed(*(f"{name} ∈ /v1/models" for name in wanted))


def _nearest(name: str, known: tuple[str, ...]) -> str:
    import difflib

    return ", ".join(difflib.get_close_matches(name, known, n=3, cutoff=0.3)) or ", ".join(known[:5]) or "-"


async def served_name_is_known(context: Context) -> Result:
    """The name that answers, against the one that was asked for and `served_as`."""
    report = await report_of(context)
    if report is None:
        return no_target()
    served = sorted({one.attempt.model for one in report.tries if one.ok and one.attempt is not None})
    if not served or report.model is None:
        return unknown(_("no answer to read a name from"))
    asked = report.model
    expected = {asked}
    if context.experiment is not None:
        expected |= set(context.experiment.served_as.get(asked, ()))
    foreign = [name for name in served if name not in expected]
    line = f"{asked} → {', '.join(served)}"
    if foreign:
        return Result(
            "warn",
            (line,),
            _("{names} answered in place of {asked}.").format(names=", ".join(foreign), asked=asked),
            _("If that is the same model, write it down: served_as: {{{asked}: [{names}]}}").format(
                asked=asked, names=", ".join(served)
            ),
        )
    return passed(line)


async def protocols_are_spoken(context: Context) -> Result:
    """Codex needs /v1/responses, Claude Code /v1/messages; the experiment its own protocol."""
    report = await report_of(context)
    if report is None:
        return no_target()
    spoken = [kind for kind in probing.PROTOCOLS if report.working(kind) is not None]
    tried_kinds = {one.kind for one in report.tries}
    if not tried_kinds & set(probing.PROTOCOLS):
        return unknown(_("no answer was asked for: no model is named"))
    lines = [f"{kind}: {_('yes') if kind in spoken else _('no')}" for kind in probing.PROTOCOLS]
    lines += [tried(one) for one in report.tries if not one.ok and one.kind != "models"][:3]
    needed = context.experiment.protocol if context.experiment is not None else None
    if context.profile is not None:
        needed = context.profile.spoken_protocol
    if needed is not None and needed not in spoken and _refused_for_load(report, needed):
        return unknown(*lines, _("refused for load: see the row on limits"))
    if needed is not None and not spoken and (failure := _failure_of(report, needed)) is not None:
        return Result(
            "fail",
            (*lines, f"decided by: {failure.evidence}"),
            _("A minimal request fails: {why}.").format(why=_(ERROR_CLASSES[failure.error_class].hint)),
            _("Ask again in a while; if it stays so, show these lines to the gateway's operator.")
            if failure.retry
            else _("Show these lines to the gateway's operator: even the smallest request is refused."),
        )
    if needed is not None and needed not in spoken:
        return Result(
            "fail",
            tuple(lines),
            _("The gateway does not answer over {name}, which is needed here.").format(name=needed),
            _("Use one of: {names}").format(names=", ".join(spoken) or _("none answers; see the other rows")),
        )
    return passed(*lines)


def _failure_of(report: probing.Report, kind: str) -> Failure | None:
    """Why a protocol that is there gave no answer; None where it is not there."""
    failures = [one.failure for one in report.of(kind) if one.failure is not None]
    return next((one for one in reversed(failures) if one.error_class not in probing.PATH_CLASSES), None)


def _refused_for_load(report: probing.Report, kind: str) -> bool:
    """True where the last word on a protocol was a limit: that says nothing about whether it is spoken."""
    tries = report.of(kind)
    return bool(tries) and tries[-1].failure is not None and tries[-1].failure.error_class in LIMIT_WORDS


async def no_limit_is_hit(context: Context) -> Result:
    """Which limit a 429 is, in the headers' own words."""
    report = await report_of(context)
    if report is None:
        return no_target()
    for one in report.tries:
        if one.failure is not None and one.failure.error_class in LIMIT_WORDS:
            kind = one.failure.error_class
            return Result(
                "warn",
                (tried(one), *one.limits, f"decided by: {one.failure.evidence}"),
                _("The gateway refuses for load: {what}.").format(what=_(LIMIT_WORDS[kind])),
                _("Lower max_concurrency to 4; never add a second key, it would destroy the attribution.")
                if kind == "concurrency_limit"
                else _("Wait as the headers say, then lower max_concurrency."),
            )
    stated = next((one.limits for one in reversed(report.tries) if one.limits), ())
    return passed(*(stated or (_("no limit was met"),)))


async def cap_is_safe(context: Context) -> Result:
    """A bounded ramp with this one key: 1, 2, 4, 8 calls at once, no further than the boundary's own cap."""
    report = await report_of(context)
    if report is None:
        return no_target()
    cap = context.experiment.boundary.max_concurrency if context.experiment is not None else None
    levels = [level for level in RAMP if level <= (cap or RAMP[-1])]
    if cap is not None and cap < RAMP[-1] and cap not in levels:
        levels.append(cap)
    before = report.tokens
    found = await probing.ramp(report, levels)
    if not found:
        return unknown(_("no protocol answered"))
    tokens = report.tokens - before
    lines = [_("{n} at once: answered").format(n=level.calls) for level in found if level.refused is None]
    refused = found[-1].refused
    safe = max((level.calls for level in found if level.refused is None), default=0)
    if refused is None:
        return Result("pass", tuple(lines), tokens=tokens)
    lines += [_("{n} at once: {what}").format(n=found[-1].calls, what=tried(refused)), *refused.limits]
    return Result(
        "warn",
        tuple(lines),
        _("The gateway refuses {n} calls at once.").format(n=found[-1].calls),
        _("Set max_concurrency to {n}; a second key would destroy the attribution.").format(n=max(safe, 1)),
        tokens=tokens,
    )


async def replies_are_drawn_anew(context: Context) -> Result:
    """The same question twice: a cache repeats the reply's id, or says so in a header."""
    report = await report_of(context)
    if report is None:
        return no_target()
    answers = [one for one in report.tries if one.ok and one.attempt is not None]
    if len(answers) < 2:
        return unknown(_("fewer than two answers to compare"))
    for one in answers:
        assert one.attempt is not None
        if one.attempt.gateway_cache != "none":
            certain = one.attempt.gateway_cache == "hit"
            return Result(
                "warn",
                (tried(one), f"gateway_cache: {one.attempt.gateway_cache}", f"id: {one.attempt.response_id}"),
                _("The gateway answered a second request from its cache: k samples would be one.")
                if certain
                else _(
                    "Two requests got one reply under one id: a cache, or a gateway whose ids are constant."
                ),
                _("Switch the response cache off for this key, or send cache-control: no-cache."),
            )
    return passed(_("{n} answers, each with an id of its own").format(n=len(answers)))


CHECKS = (
    Check(
        "live.models",
        "models",
        "Does the gateway serve the model to this key?",
        COST_TOKENS,
        models_are_there,
        ("live.reach", "live.key"),
    ),
    Check(
        "live.served",
        "models",
        "Is the name that answers the one that was asked?",
        COST_TOKENS,
        served_name_is_known,
        ("live.reach", "live.models"),
    ),
    Check(
        "live.protocol",
        "models",
        "Is the needed protocol spoken?",
        COST_TOKENS,
        protocols_are_spoken,
        ("live.reach", "live.path", "live.key", "live.models"),
    ),
    Check(
        "live.cache",
        "reconcile",
        "Is every reply drawn anew?",
        COST_TOKENS,
        replies_are_drawn_anew,
        ("live.reach", "live.key", "live.models"),
    ),
    Check("live.limits", "limits", "Is no limit in the way?", COST_TOKENS, no_limit_is_hit, ("live.reach",)),
)

# Asked only where the user asks for it: it loads the gateway.
RAMP_CHECK = Check(
    "live.ramp",
    "limits",
    "How many calls at once does the gateway take?",
    RAMP_COST_TOKENS,
    cap_is_safe,
    ("live.reach", "live.key", "live.models"),
)
