"""Checks of model names: every name under which a client may ask, against what the key may use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from elometer.checks import layers
from elometer.checks.context import Context
from elometer.checks.engine import Check, Result, passed, unknown
from elometer.checks.subjects import profile_subjects
from elometer.core.text import gettext as _
from elometer.profiles.model import Profile
from elometer.profiles.validate import LAST_CODEX_WITH_CHAT, codex_version

_PLACEHOLDER_MODEL = re.compile(
    r"(your|my|the)[-_].*(model|llm)([-_].*)?|model[-_]?name|<.*>|todo|change[-_]?me", re.I
)


def _allowed(context: Context, profile: Profile | None) -> tuple[str, ...]:
    """The boundary that holds for a profile: the experiment's, else that of the profile's key."""
    if context.experiment is not None:
        return context.experiment.boundary.allowed_models
    key = context.store.key(profile.key if profile else None)
    return key.boundary.allowed_models if key else ()


def model_is_named(context: Context) -> Result:
    """A real name, not `your-agent-model`."""
    named = [(profile.name, profile.model) for profile in profile_subjects(context) if profile.model]
    if context.experiment is not None and context.experiment.needs_gateway:
        named += [(context.experiment.experiment_id, model) for model in context.experiment.models]
    if not named:
        return unknown(_("no model is named"))
    for name, model in named:
        if _PLACEHOLDER_MODEL.fullmatch(model or ""):
            return Result(
                "fail" if context.experiment is not None else "warn",
                (f"{name}: {model}",),
                _("'{model}' is a placeholder; no gateway serves it.").format(model=model),
                _("Write a name from the gateway's list: elometer probe"),
            )
    return passed(*(f"{name}: {model}" for name, model in named))


def models_are_allowed(context: Context) -> Result:
    """The experiment's models, and those of profiles, are in allowed_models."""
    asked: list[tuple[str, str, tuple[str, ...]]] = []
    if context.experiment is not None:
        allowed = context.experiment.boundary.allowed_models
        asked += [(context.experiment.experiment_id, model, allowed) for model in context.experiment.models]
    asked += [
        (profile.name, profile.model, _allowed(context, profile))
        for profile in profile_subjects(context)
        if profile.model
    ]
    if not asked:
        return unknown(_("no model is named"))
    lines = tuple(
        f"{name}: {model} ∈ {', '.join(allowed) if allowed else _('(no limit is set)')}"
        for name, model, allowed in asked
    )
    for name, model, allowed in asked:
        if allowed and model not in allowed:
            return Result(
                "fail",
                lines,
                _("'{name}' asks for {model}, which its key's boundary does not allow.").format(
                    name=name, model=model
                ),
                _("Choose one of {models}, or add it to allowed_models.").format(models=", ".join(allowed)),
            )
    return passed(*lines)


def no_model_leaks(context: Context) -> Result:
    """Every alias of Claude Code, so that background calls stay inside the boundary."""
    leaks = list(_leaks(context))
    profiles = [profile for profile in profile_subjects(context) if profile.tool == "claude-code"]
    if not profiles and not leaks:
        return passed(_("no Claude Code profile takes part"))
    if leaks:
        _place, variable, model, allowed = leaks[0]
        return Result(
            "fail" if context.profile is not None else "warn",
            tuple(f"{place}: {variable} = {model}" for place, variable, model, _allowed_ in leaks),
            _(
                "Claude Code would make calls to {model} under this key: titles, background and sub-agents."
            ).format(model=model),
            _("Set {variable} to {allowed}, or take the variable out.").format(
                variable=variable, allowed=allowed[0] if allowed else _("the profile's model")
            ),
        )
    return passed(
        *(
            f"{profile.name}: {', '.join(sorted(_aliases(profile).values())) or profile.model}"
            for profile in profiles
        )
    )


def _aliases(profile: Profile) -> dict[str, str]:
    found = {name: profile.env[name] for name in layers.CLAUDE_MODELS if profile.env.get(name)}
    if profile.model:
        found["ANTHROPIC_MODEL"] = profile.model
    if profile.small_model:
        found["ANTHROPIC_SMALL_FAST_MODEL"] = profile.small_model
    # `[1m]` selects a context length; the wire carries the name without it.
    return {name: model.removesuffix("[1m]") for name, model in found.items()}


def _leaks(context: Context) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    for profile in profile_subjects(context):
        if profile.tool != "claude-code":
            continue
        allowed = _allowed(context, profile)
        for variable, model in _aliases(profile).items():
            if allowed and model not in allowed:
                yield profile.name, variable, model, allowed
    allowed = context.experiment.boundary.allowed_models if context.experiment else ()
    if context.experiment is None or not allowed:
        return
    if not _claude_is_set_up_for(context, allowed):
        return
    for variable in layers.CLAUDE_MODELS:
        found = layers.winner(layers.claude_layers(context), variable)
        if found is not None and found.value and found.value.removesuffix("[1m]") not in allowed:
            place = context.shown(found.layer.path) if found.layer.path else found.layer.name
            yield place, variable, found.value, allowed


def _claude_is_set_up_for(context: Context, allowed: tuple[str, ...]) -> bool:
    """True where the live settings point at the experiment's gateway, or at none and name its model."""
    assert context.experiment is not None
    found = layers.claude_layers(context)
    url, model = layers.winner(found, layers.CLAUDE_URL), layers.winner(found, layers.CLAUDE_MODELS[0])
    if url is not None and url.value:
        return url.value.rstrip("/") == context.experiment.base_url.rstrip("/")
    return model is not None and model.value.removesuffix("[1m]") in allowed


def codex_speaks_responses(context: Context) -> Result:
    """`wire_api = "chat"` was last accepted by Codex 0.94.0."""
    lines = []
    for profile in profile_subjects(context):
        if profile.tool != "codex":
            continue
        lines.append(f"{profile.name}: wire_api = {profile.wire_api or 'responses'}")
        version = codex_version(profile.codex_version or "")
        if profile.wire_api == "chat" and (version is None or version > LAST_CODEX_WITH_CHAT):
            return Result(
                "fail",
                tuple(lines),
                _('Codex refuses to start with wire_api = "chat".'),
                f"elometer profile edit {profile.name} --wire-api responses",
            )
    config = layers.codex_config(context)
    if config is not None and config.path is not None:
        providers = config.document.get("model_providers")
        tables = providers.items() if isinstance(providers, dict) else ()
        for name, table in tables:
            if isinstance(table, dict) and table.get("wire_api") == "chat":
                place = f"{context.shown(config.path)} [model_providers.{name}]"
                return Result(
                    "warn",
                    (*lines, f'{place}: wire_api = "chat"'),
                    _('Codex after 0.94.0 refuses to start while wire_api = "chat" stands in its file.'),
                    _('Set wire_api = "responses" there.'),
                )
    return passed(*(lines or [_("no Codex profile takes part")]))


CHECKS = (
    Check("models.named", "models", "Is the model a name and not a placeholder?", 0, model_is_named),
    Check(
        "models.allowed", "models", "May the key use the models that are asked for?", 0, models_are_allowed
    ),
    Check("models.leak", "models", "Does Claude Code ask for allowed models only?", 0, no_model_leaks),
    Check(
        "models.wire-api",
        "models",
        "Does Codex speak the protocol it still accepts?",
        0,
        codex_speaks_responses,
    ),
)
