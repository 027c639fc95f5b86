"""Checks that ask the gateway: path, key, header, models, protocols, limits. One probe answers them all."""

from __future__ import annotations

from elometer.checks import probing
from elometer.checks.context import Context
from elometer.checks.engine import Check, Result, passed, unknown
from elometer.checks.probing import KEY_CLASSES, PATH_CLASSES, Report, Target, Try
from elometer.checks.subjects import key_subjects, value_now
from elometer.core.text import gettext as _
from elometer.core.urls import versioned
from elometer.profiles.secrets import fingerprint
from elometer.wire.classes import ERROR_CLASSES

REPORT = "probe report"
PROBE = "probe"
HEADER_WORDS = {"bearer": "Authorization: Bearer", "x-api-key": "x-api-key", None: "no key"}
# Messages are asked for with each header, and the first protocol once more.
COST_TOKENS = probing.TOKENS_A_PROTOCOL * (len(probing.PROTOCOLS) + 2)

# Class of a refusal → what it is called where a key is asked for, and what to do.
KEY_CAUSES: dict[str, tuple[str, str]] = {
    "bad_key": (
        "The gateway does not accept this key; some say so of expired and exhausted keys too.",
        "Compare it with the gateway's key list: elometer key show LABEL",
    ),
    "key_expired": ("The key has expired.", "Make a new key and give it to: elometer key set-source LABEL"),
    "key_disabled": ("The key is disabled or blocked.", "Enable it at the gateway, or make a new one."),
    "key_scope": ("The key lacks a permission.", "Give the key the scope that the message names."),
    "ip_not_allowed": (
        "The key may not be used from this address.",
        "Add this machine's address to the key.",
    ),
    "account_blocked": ("The account is blocked.", "Ask the gateway's operator."),
    "region_blocked": ("The service is not offered here.", "Use a gateway that is."),
    "quota": (
        "Credit or budget of the key is used up, whatever the status code says.",
        "Top it up, or wait for the reset that the message names.",
    ),
    "key_format": ("The key has a form that cannot be sent.", "elometer check: see key.format"),
}
LIMIT_WORDS = {
    "concurrency_limit": "too many calls at once",
    "rpm_limit": "requests per minute",
    "tpm_limit": "tokens per minute",
    "rate_limit": "a rate limit of unknown kind",
    "quota": "a quota: waiting a minute does not help",
    "overloaded": "the server is overloaded: no limit of yours",
}


async def report_of(context: Context) -> Report | None:
    """The one probe that all live checks read; None where nothing says which gateway to ask."""
    target = target_of(context)
    if target is None:
        return None
    found: Report | None = context.recall(REPORT)
    return found if found is not None else context.remember(REPORT, await probing.probe(target))


def target_of(context: Context) -> Target | None:
    """The gateway, key and model in question. Runs the source of the key where that is a program."""
    if context.target is not None:
        return context.target
    subject = next(iter(key_subjects(context)), None)
    experiment, profile = context.experiment, context.profile
    if subject is None or not (experiment or profile):
        return None
    key = value_now(subject, context)
    return Target(
        root=subject.url,
        key=key,
        model=(experiment.models[0] if experiment and experiment.models else None)
        or (profile.model if profile else None),
        experiment_id=experiment.experiment_id if experiment else PROBE,
        key_fp=fingerprint(key) if key is not None else None,
    )


def tried(one: Try) -> str:
    """A try as a line of evidence: what was asked, with which header, and what came back."""
    method = "GET" if one.kind == "models" else "POST"
    line = f"{method} {one.path} ({HEADER_WORDS[one.header]}) → {one.http_status or '-'}"
    if one.failure is not None:
        line += f" {one.failure.error_class}: {one.failure.message or one.failure.evidence}"
    elif one.kind == "models":
        line += f" {', '.join(one.models[:8])}" + (" …" if len(one.models) > 8 else "")
    else:
        line += f" {usage_line(one)}"
    return line


def usage_line(one: Try) -> str:
    """Usage in the shape of the founding jq of the protocol, with the name that served it."""
    attempt = one.attempt
    if attempt is None:
        return ""
    number = {
        "p": "null" if attempt.prompt_tokens is None else attempt.prompt_tokens,
        "c": "null" if attempt.completion_tokens is None else attempt.completion_tokens,
        "t": "null" if attempt.total_tokens is None else attempt.total_tokens,
    }
    if one.kind == "messages":
        text = '{{"input":{p},"output":{c}}}'.format(**number)
    else:
        text = '{{"prompt":{p},"completion":{c},"total":{t}}}'.format(**number)
    return f"{text} {attempt.model}"


async def gateway_answers(context: Context) -> Result:
    """Name, connection and TLS."""
    report = await report_of(context)
    if report is None:
        return _no_target()
    first = report.tries[0]
    failure = first.failure
    if failure is not None and first.http_status is None:
        return Result(
            "fail",
            (first.url, f"{failure.error_class}: {failure.message}"),
            _("The gateway cannot be reached: {why}.").format(why=_(ERROR_CLASSES[failure.error_class].hint)),
            f"curl -sS -o /dev/null -w '%{{http_code}}\\n' {first.url}",
            tokens=report.tokens,
        )
    return Result("pass", (f"{first.url} → {first.http_status}",), tokens=report.tokens)


async def path_is_right(context: Context) -> Result:
    """Which of the path variants answers, where the one that follows from the root does not."""
    report = await report_of(context)
    if report is None:
        return _no_target()
    lines = tuple(
        tried(one) for one in report.tries if one.failure is None or one.failure.error_class in PATH_CLASSES
    )
    good = next((one for one in report.tries if one.ok and one.kind != "models"), None) or report.working(
        "models"
    )
    wanted = versioned(report.target.root)
    if good is None:
        if any(one.failure and one.failure.error_class not in PATH_CLASSES for one in report.tries):
            return passed(*(tried(one) for one in report.tries[:2]))
        return Result(
            "fail",
            lines,
            _("None of the usual paths answers under this base URL."),
            _("Ask the gateway's operator for its base URL; tried {n} variants.").format(n=len(report.tries)),
        )
    if good.base == wanted:
        return passed(tried(good))
    root = good.base.removesuffix("/v1") or good.base
    return Result(
        "fail",
        lines,
        _("The path is wrong: {wrong} is not there, {right} answers.").format(wrong=wanted, right=good.base),
        _("Set base_url to {root}").format(root=root),
    )


async def key_is_accepted(context: Context) -> Result:
    """A refusal told apart: bad key, expired, disabled, scope, address, quota in disguise."""
    report = await report_of(context)
    if report is None:
        return _no_target()
    answered = [one for one in report.tries if one.ok]
    for one in report.tries:
        if one.failure is None or one.failure.error_class not in KEY_CAUSES:
            continue
        if one.failure.error_class in KEY_CLASSES and any(good.kind == one.kind for good in answered):
            continue  # the other header worked: that is the next question
        cause, fix = KEY_CAUSES[one.failure.error_class]
        return Result("fail", (tried(one), f"decided by: {one.failure.evidence}"), _(cause), _(fix))
    if not answered:
        return unknown(*(tried(one) for one in report.tries[-1:]))
    if report.target.key is None:
        return passed(_("the gateway answers without a key"))
    return passed(tried(answered[-1]))


async def headers_work(context: Context) -> Result:
    """x-api-key and Bearer probed apart: a client sends one of them, depending on its variable."""
    report = await report_of(context)
    if report is None:
        return _no_target()
    lines, odd = [], []
    for kind in ("models", *probing.PROTOCOLS):
        good = report.working(kind)
        refused = next(
            (one for one in report.of(kind) if one.failure and one.failure.error_class in KEY_CLASSES), None
        )
        if good is None:
            continue
        lines.append(
            f"{kind}: "
            + " · ".join(
                f"{HEADER_WORDS[one.header]} {one.http_status}"
                for one in report.of(kind)
                if one.base == good.base
            )
        )
        # Models may be listed for one header only; what clients send with the other one are messages.
        if refused is not None and kind == "messages":
            odd.append((kind, refused, good))
    if not lines:
        return unknown(_("no protocol answered"))
    if odd:
        kind, bad, good = odd[0]
        variable = "ANTHROPIC_AUTH_TOKEN" if good.header == "bearer" else "ANTHROPIC_API_KEY"
        return Result(
            "warn" if _matters(context, variable) else "pass",
            (*lines, tried(bad)),
            _("Over {kind} the gateway reads the key from {good} only.").format(
                kind=kind, good=HEADER_WORDS[good.header]
            ),
            _("Give Claude Code the key as {variable}.").format(variable=variable),
        )
    return passed(*lines)


def _matters(context: Context, variable: str) -> bool:
    """True where a Claude Code profile would send the other header."""
    profile = context.profile or (context.experiment.profile if context.experiment else None)
    return profile is None or profile.tool != "claude-code" or profile.key_variable != variable


async def models_are_there(context: Context) -> Result:
    """The boundary against /v1/models: "the gateway lacks it" told from "the key may not use it"."""
    report = await report_of(context)
    if report is None:
        return _no_target()
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
        return _no_target()
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
        return _no_target()
    spoken = [kind for kind in probing.PROTOCOLS if report.working(kind) is not None]
    tried_kinds = {one.kind for one in report.tries}
    if not tried_kinds & set(probing.PROTOCOLS):
        return unknown(_("no answer was asked for: no model is named"))
    lines = [f"{kind}: {_('yes') if kind in spoken else _('no')}" for kind in probing.PROTOCOLS]
    lines += [tried(one) for one in report.tries if not one.ok and one.kind != "models"][:3]
    needed = context.experiment.protocol if context.experiment is not None else None
    if context.profile is not None:
        needed = context.profile.spoken_protocol
    if needed is not None and needed not in spoken:
        return Result(
            "fail",
            tuple(lines),
            _("The gateway does not answer over {name}, which is needed here.").format(name=needed),
            _("Use one of: {names}").format(names=", ".join(spoken) or _("none answers; see the other rows")),
        )
    return passed(*lines)


async def no_limit_is_hit(context: Context) -> Result:
    """Which limit a 429 is, in the headers' own words."""
    report = await report_of(context)
    if report is None:
        return _no_target()
    for one in report.tries:
        if one.failure is not None and one.failure.error_class in LIMIT_WORDS:
            kind = one.failure.error_class
            if kind == "quota" and one.http_status != 429:
                continue
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


async def replies_are_drawn_anew(context: Context) -> Result:
    """The same question twice: a cache repeats the reply's id, or says so in a header."""
    report = await report_of(context)
    if report is None:
        return _no_target()
    answers = [one for one in report.tries if one.ok and one.attempt is not None]
    if len(answers) < 2:
        return unknown(_("fewer than two answers to compare"))
    for one in answers:
        assert one.attempt is not None
        if one.attempt.gateway_cache != "none":
            return Result(
                "warn",
                (tried(one), f"gateway_cache: {one.attempt.gateway_cache}", f"id: {one.attempt.response_id}"),
                _("The gateway answered a second request from its cache: k samples would be one."),
                _("Switch the response cache off for this key, or send cache-control: no-cache."),
            )
    return passed(_("{n} answers, each with an id of its own").format(n=len(answers)))


def _no_target() -> Result:
    return unknown(_("name a gateway: --profile NAME or --experiment FILE"))


CHECKS = (
    Check(
        "live.reach",
        "url",
        "Can the gateway be reached?",
        COST_TOKENS,
        gateway_answers,
        ("key.format", "key.placeholder", "key.set"),
    ),
    Check(
        "live.path",
        "url",
        "Does the base URL lead to the right path?",
        COST_TOKENS,
        path_is_right,
        ("live.reach",),
    ),
    Check(
        "live.key", "auth", "Does the gateway accept the key?", COST_TOKENS, key_is_accepted, ("live.reach",)
    ),
    Check(
        "live.header",
        "auth",
        "Which header carries the key?",
        COST_TOKENS,
        headers_work,
        ("live.reach", "live.key"),
    ),
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
