"""Checks that ask the gateway how it is reached: connection, path, key, header. One probe serves them all."""

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


async def report_of(context: Context) -> Report | None:
    """The one probe that all live checks read; None where nothing says which gateway to ask."""
    target = target_of(context)
    if target is None:
        return None
    found: Report | None = context.recall(REPORT)
    if found is None or not found.complete:
        # Kept before the first request: what was paid is booked even if the rest is cancelled.
        found = context.remember(REPORT, Report(target))
        await probing.probe(found)
    return found


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
        return no_target()
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
        return no_target()
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
        return no_target()
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
        return no_target()
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


def no_target() -> Result:
    """The answer where nothing says which gateway to ask."""
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
)
