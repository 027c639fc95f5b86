"""Switching a tool to a profile, looking first, and taking it back: `switch`, `diff`, `undo`, `drift`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from elometer.core.errors import UsageError
from elometer.core.redact import redact
from elometer.core.text import gettext as _
from elometer.profiles import apply as applying
from elometer.profiles import journal, live
from elometer.profiles.clients import claude_code, codex, openai_compatible
from elometer.profiles.clients.files import CLIENT_NAMES, CLIENTS
from elometer.profiles.drift import ToolState, tool_states
from elometer.profiles.keys import KeyState, key_state, profile_key
from elometer.profiles.model import Profile
from elometer.profiles.processes import running_clients
from elometer.profiles.store import Store
from elometer.profiles.switch import Plan, plan_default, plan_switch
from elometer.profiles.undo import plan_undo as _plan_undo
from elometer.profiles.validate import profile_problems, refuse_failures

Environ = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan with what the user should know before saying yes (`warnings`) and after (`next_steps`)."""

    plan: Plan
    warnings: tuple[str, ...]
    next_steps: tuple[str, ...]


def preview_switch(
    name: str, *, tool: str | None = None, environ: Environ | None = None, folder: Path | None = None
) -> Preview:
    """What a switch to a profile would change; nothing is written.

    Raises UsageError for a file that cannot be read or edited, AccessError for a key that cannot be used.
    """
    env = os.environ if environ is None else environ
    here = folder or Path.cwd()
    store = Store.load()
    profile = store.profile(name, tool)
    problems = profile_problems(profile)
    refuse_failures(problems, subject=profile.name)
    warnings = [problem.message for problem in problems]
    key = ""
    if profile.tool == claude_code.TOOL:
        key = profile_key(profile, store, env).reveal()
    else:
        key, fault = _key_if_any(profile, store, env)
        warnings += [fault] if fault else []
    if profile.tool == openai_compatible.TOOL:
        steps = (f'eval "$(elometer profile env {profile.name})"',)
        return Preview(plan_default(profile, store), tuple(warnings), steps)
    plan = plan_switch(profile, key, env)
    warnings += _warnings(profile, key, env, here) + _foreign_models(profile, plan)
    return Preview(plan, tuple(warnings), tuple(_next_steps(profile, env)))


def _key_if_any(profile: Profile, store: Store, env: Environ) -> tuple[str, str | None]:
    """The key of a profile whose file will not hold it: a missing one is no obstacle, a bad one is."""
    key = store.keys.get(profile.key or "")
    if key is None or key.source is None:
        return "", _("The profile has no key yet.") if profile.key else None
    state = key_state(key, env)
    faults = [problem for problem in state.problems if problem.severity == "fail"]
    if any(problem.code != "unresolved" for problem in faults):
        profile_key(profile, store, env)  # raises what is wrong with it
    if faults:
        return "", faults[0].message
    return profile_key(profile, store, env).reveal(), None


def _warnings(profile: Profile, key: str, env: Environ, folder: Path) -> list[str]:
    if profile.tool == claude_code.TOOL:
        found = live.claude_overrides(claude_code.variables(profile, key), env, folder)
        return [shadow.line() for shadow in found] + _repository_warning(claude_code.settings_path(env))
    found = live.codex_overrides(profile.codex_provider, env, folder)
    told = live.dotenv(live.codex_dotenv_path(env)).get(profile.key_variable)
    if told is not None and key and told != key:
        path = live.codex_dotenv_path(env)
        found.append(live.Shadow(path, profile.key_variable, _("beats the shell with another key")))
    return [shadow.line() for shadow in dict.fromkeys(found)]


def _repository_warning(path: Path) -> list[str]:
    """A key in a file that a version control system watches is a key on its way to others."""
    target = path.resolve()
    repository = next((folder for folder in target.parents if (folder / ".git").exists()), None)
    if repository is None:
        return []
    warning = _("{path} lies in the repository {repository}: take care not to commit the key.")
    return [warning.format(path=target, repository=repository)]


def _foreign_models(profile: Profile, plan: Plan) -> list[str]:
    """Models that the file names and the profile does not: they stay, and the gateway may lack them."""
    if profile.model is not None or plan.live is None or plan.after is None:
        return []
    fields = CLIENTS[profile.tool].read_fields(plan.after)
    note = _("{field} = {model} comes from the file; the profile names no model.")
    return [
        note.format(field=field, model=redact(value))
        for field, value in fields.items()
        if value and (field == "model" or field.removeprefix("env.") in claude_code.MODEL_VARIABLES)
    ]


def _next_steps(profile: Profile, env: Environ) -> list[str]:
    steps = []
    if profile.tool == codex.TOOL and env.get(profile.key_variable) is None:
        step = _(
            'Codex reads its key from {name}, which is not set: eval "$(elometer profile env {profile})"'
        )
        steps.append(step.format(name=profile.key_variable, profile=profile.name))
    elif profile.tool == codex.TOOL:
        steps.append(
            _("Codex reads its key from {name}; it must be exported.").format(name=profile.key_variable)
        )
    running = running_clients(profile.tool)
    if running:
        pids = ", ".join(str(pid) for pid, _program in running)
        step = _("{client} is running and keeps its old settings until restarted (process {pids}).")
        steps.append(step.format(client=CLIENT_NAMES[profile.tool], pids=pids))
    return steps


def preview_undo() -> Preview:
    """What taking back the newest switch would change. Raises UsageError where there is none."""
    plan = _plan_undo()
    running = running_clients(plan.tool)
    steps = []
    if running:
        pids = ", ".join(str(pid) for pid, _program in running)
        step = _("{client} is running and keeps its settings until restarted (process {pids}).")
        steps.append(step.format(client=CLIENT_NAMES[plan.tool], pids=pids))
    return Preview(plan, (), tuple(steps))


def apply(preview: Preview) -> None:
    """Carry out what was previewed. Raises UsageError where the file changed in between."""
    applying.apply(preview.plan)


def drift(
    store: Store | None = None,
    environ: Environ | None = None,
    folder: Path | None = None,
    *,
    states: Iterable[KeyState] | None = None,
) -> list[ToolState]:
    """What each tool lives by now: file, profile, URL, whose key, what differs and what overrides it.

    `states` are the store's keys where the caller has resolved them already.
    """
    env = os.environ if environ is None else environ
    store = store or Store.load()
    labels: dict[str, list[str]] = {}
    for state in states if states is not None else (key_state(key, env) for key in store.keys.values()):
        if state.fingerprint is not None:
            labels.setdefault(state.fingerprint, []).append(state.key.label)
    return tool_states(store, journal.settled(), labels, env, folder or Path.cwd())


def pristine_files() -> dict[str, journal.Pristine]:
    """The files of which a copy from before the first switch is kept, by path."""
    return dict(journal.load().pristine)


def pristine(path: str) -> bytes:
    """The bytes of a file from before the first switch. Raises UsageError where none is kept."""
    kept = journal.load().pristine
    if path not in kept:
        raise UsageError(
            _("No copy of that file is kept."),
            evidence=", ".join(kept) or _("No switch has been made yet."),
            fix="elometer profile pristine",
        )
    return journal.pristine_body(kept[path])
