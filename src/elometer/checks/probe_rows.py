"""The rows of `elometer probe`: one a protocol, with status, path, header, usage and the name that served."""

from __future__ import annotations

from elometer.checks import live, probing
from elometer.checks.context import Context
from elometer.checks.engine import Check, Result, unknown
from elometer.checks.probing import Try
from elometer.core.text import gettext as _
from elometer.wire.classes import ERROR_CLASSES

CLIENTS = {"chat": "OpenAI clients", "messages": "Anthropic clients", "responses": "Codex and others"}


async def lists_models(context: Context) -> Result:
    """GET /v1/models."""
    report = await live.report_of(context)
    if report is None:
        return unknown(_("name a gateway"))
    lines = tuple(live.tried(one) for one in report.of("models"))
    if report.working("models") is not None:
        return Result("pass", lines)
    first = report.tries[0]
    if first.http_status is None and first.failure is not None:
        return Result(
            "fail",
            lines,
            _("The gateway cannot be reached."),
            f"curl -sS -o /dev/null -w '%{{http_code}}' {first.url}",
        )
    return Result("warn", lines, _("The gateway gives no list of models."), _("Name the model with --model."))


async def _answers(context: Context, kind: str) -> Result:
    report = await live.report_of(context)
    if report is None or not report.of(kind):
        if report is not None and report.settled:
            return unknown(_("not asked: the key was refused twice"))
        if report is not None and report.tries and report.tries[0].http_status is None:
            return unknown(_("not asked: the gateway cannot be reached"))
        model = report.model if report is not None else None
        why = (
            _("not asked: no model is named, and the list does not hold just one")
            if model is None
            else _("not asked: the gateway cannot be reached")
        )
        return unknown(why)
    lines = tuple(live.tried(one) for one in report.of(kind))
    tokens = sum(one.attempt.total_tokens or 0 for one in report.of(kind) if one.attempt is not None)
    if report.working(kind) is not None:
        return Result("pass", lines, tokens=tokens)
    spoken = [name for name in probing.PROTOCOLS if report.working(name) is not None]
    return Result(
        "warn" if spoken or _is_load(report.of(kind)[-1]) else "fail",
        lines,
        _cause(report.of(kind)[-1], kind),
        _("Use {names} here.").format(names=", ".join(spoken))
        if spoken
        else _("The rows below name the fix."),
        tokens=tokens,
    )


def _is_load(one: Try) -> bool:
    """A limit that passes by itself stands in nobody's way."""
    return one.failure is not None and ERROR_CLASSES[one.failure.error_class].retry in ("gate", "slot")


def _cause(one: Try, kind: str) -> str:
    """A path that is not there means that the protocol is not spoken; anything else is what was refused."""
    assert one.failure is not None
    if one.failure.error_class in probing.PATH_CLASSES:
        return _("No usual path answers over {name}, which {clients} speak.").format(
            name=kind, clients=CLIENTS[kind]
        )
    hint = _(ERROR_CLASSES[one.failure.error_class].hint)
    return _("Refused as {name}: {hint}.").format(name=one.failure.error_class, hint=hint)


async def answers_chat(context: Context) -> Result:
    """POST /v1/chat/completions."""
    return await _answers(context, "chat")


async def answers_messages(context: Context) -> Result:
    """POST /v1/messages, with each header."""
    return await _answers(context, "messages")


async def answers_responses(context: Context) -> Result:
    """POST /v1/responses."""
    return await _answers(context, "responses")


CHECKS = (
    Check("probe.models", "models", "Which models does the gateway list?", 0, lists_models),
    Check("probe.chat", "url", "Does it answer over chat?", live.COST_TOKENS, answers_chat),
    Check("probe.messages", "url", "Does it answer over messages?", live.COST_TOKENS, answers_messages),
    Check("probe.responses", "url", "Does it answer over responses?", live.COST_TOKENS, answers_responses),
)
