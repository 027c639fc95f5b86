"""A profile in a shell or a child process: `profile env` and `profile exec`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elometer.core import atomic
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.profiles import environment, live
from elometer.profiles.clients import codex
from elometer.profiles.clients.files import PROGRAMS
from elometer.profiles.clients.launch import Launch
from elometer.profiles.clients.settings_copy import copy_settings
from elometer.profiles.keys import profile_key
from elometer.profiles.model import Profile
from elometer.profiles.store import Store
from elometer.profiles.validate import profile_problems, refuse_failures

if TYPE_CHECKING:
    from elometer.profiles.selftest import SelfTest


def choose(store: Store, name: str | None, tool: str | None = None) -> Profile:
    """The named profile, else the default, else the only one. Raises UsageError."""
    if name is not None:
        return store.profile(name, tool)
    if store.default is not None:
        return store.profile(store.default, "openai-compatible")
    fitting = [profile for profile in store.profiles if tool in (None, profile.tool)]
    if len(fitting) == 1:
        return fitting[0]
    raise UsageError(
        _("Which profile?"),
        evidence=_("Known: {names}").format(names=", ".join(p.name for p in fitting) or "-"),
        fix=_("Name one, or make one the default with 'elometer profile switch NAME'."),
    )


def env_lines(
    name: str | None = None,
    *,
    tool: str | None = None,
    shell: str = "sh",
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    """Text for `eval` that brings a profile into a shell: other families' variables go, its own come.

    Raises UsageError where a file would beat what the shell says, AccessError where there is no usable key.
    """
    env = os.environ if environ is None else environ
    store = Store.load()
    profile = choose(store, name, tool)
    refuse_failures(profile_problems(profile), subject=profile.name)
    key = profile_key(profile, store, env)
    exports = environment.VARIABLES[profile.tool](profile, key.reveal())
    in_the_way = live.shadows(profile, exports, env, folder or Path.cwd())
    if in_the_way:
        raise UsageError(
            _("This profile would not hold in a shell: a file beats it."),
            evidence="; ".join(shadow.line() for shadow in in_the_way),
            fix=f"elometer profile exec {profile.name} · elometer profile switch {profile.name}",
        )
    others = [other for other in store.profiles if other is not profile]
    named = [k.source for k in store.keys.values() if k.source is not None]
    sources = [source.removeprefix("env:") for source in named if source.startswith("env:")]
    unset = environment.unset_names(profile, others, env, sources)
    return environment.shell_lines(unset, exports, shell)


def env_notes(
    name: str | None = None, tool: str | None = None, environ: Mapping[str, str] | None = None
) -> list[str]:
    """What a shell alone does not settle: Codex takes its URL from config.toml."""
    env = os.environ if environ is None else environ
    profile = choose(Store.load(), name, tool)
    if profile.tool != codex.TOOL:
        return []
    path, config, _problem = live.codex_config(env)
    table = config.get("model_providers", {}).get(config.get("model_provider"), {})
    if isinstance(table, dict) and table.get("base_url") == profile.effective_url:
        return []
    note = _("Codex takes its URL from {path}, not from the shell: 'elometer profile switch {name}'.")
    return [note.format(path=path, name=profile.name)]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch that is ready to run, and what the user should know before it does."""

    profile: Profile
    launch: Launch
    notes: tuple[str, ...]


def prepare(
    name: str | None,
    command: Sequence[str] = (),
    *,
    tool: str | None = None,
    with_my_settings: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Prepared:
    """Everything `profile exec` needs: program found, private folder made, environment built from empty.

    Raises UsageError where the program is missing, AccessError where there is no usable key.
    """
    env = os.environ if environ is None else environ
    store = Store.load()
    profile = choose(store, name, tool)
    refuse_failures(profile_problems(profile), subject=profile.name)
    key = profile_key(profile, store, env)
    launch = environment.launch(profile, key.reveal(), env, command)
    if shutil.which(launch.argv[0], path=env.get("PATH")) is None:
        raise UsageError(
            _("'{program}' is not on PATH.").format(program=launch.argv[0]),
            evidence=f"PATH={env.get('PATH', '')}",
            fix=_("Install it, or name a command: elometer profile exec {name} -- CMD").format(
                name=profile.name
            ),
        )
    notes = []
    if launch.private is not None:
        atomic.make_private_folder(launch.private)
        if with_my_settings:
            notes += copy_settings(profile.tool, env, launch.private)
        _refuse_shadowed(profile, key.reveal(), launch)
    if not command and profile.tool not in PROGRAMS:
        notes += [
            _("{path} sets {name}; the new shell will have it again.").format(path=path, name=variable)
            for path, variable in environment.rc_assignments(env)
        ]
    return Prepared(profile, launch, tuple(notes))


def _refuse_shadowed(profile: Profile, key: str, launch: Launch) -> None:
    """A key or URL that found its way into the private folder, or a policy of the machine, would go along."""
    assert launch.private is not None
    values = environment.VARIABLES[profile.tool](profile, key)
    found = live.shadows(profile, values, launch.env, launch.private)
    if found:
        raise UsageError(
            _("This start would not send this profile's key alone."),
            evidence="; ".join(shadow.line() for shadow in found),
            fix=_("Remove that entry; the folder is the client's own for this profile."),
        )


def check_profile(
    name: str | None, *, tool: str | None = None, environ: Mapping[str, str] | None = None
) -> SelfTest:
    """The leak self-test of a profile: its real client, a made-up key, a loopback recorder."""
    from elometer.profiles.selftest import self_test  # brings an HTTP server along

    profile = choose(Store.load(), name, tool)
    refuse_failures(profile_problems(profile), subject=profile.name)
    return self_test(profile, os.environ if environ is None else environ)


def run(launch: Launch, *, read_stdin: bool = False) -> int:
    """Run a launch as a child and return its exit code; for callers that must live on, such as the app."""
    stdin = subprocess.DEVNULL if launch.headless and not read_stdin else None
    done = subprocess.run(launch.argv, env=dict(launch.env), stdin=stdin, check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def become(launch: Launch, *, read_stdin: bool = False) -> None:
    """Turn this process into the launch: signals, terminal and exit code are then the client's own."""
    if launch.headless and not read_stdin:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
    try:
        os.execvpe(launch.argv[0], launch.argv, dict(launch.env))  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise UsageError(
            _("'{program}' cannot be started.").format(program=launch.argv[0]), evidence=error.strerror or ""
        ) from None
