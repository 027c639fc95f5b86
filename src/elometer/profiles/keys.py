"""A profile's key at use, and keys as they can be shown: by fingerprint and problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elometer.core.errors import AccessError, UsageError
from elometer.core.limits import Boundary
from elometer.core.redact import Secret
from elometer.core.text import gettext as _
from elometer.profiles.model import Key, Problem, Profile
from elometer.profiles.secrets import fingerprint, key_problems, refuse_unusable, resolve, usable
from elometer.profiles.store import Store
from elometer.profiles.validate import boundary_problems


def profile_key(profile: Profile, store: Store, environ: Mapping[str, str]) -> Secret:
    """The key of a profile, ready to be sent. Raises AccessError: none, unusable, or its boundary expired."""
    if profile.key is None:
        raise AccessError(
            _("Profile '{name}' has a URL and no key.").format(name=profile.name),
            # A login that the client holds would be sent to this URL instead (measured with Claude Code).
            evidence=_("Without a key of its own the client may send a login to {url}.").format(
                url=profile.base_url
            ),
            fix=f"elometer profile edit {profile.name} --key LABEL",
        )
    key = store.key(profile.key)
    if key.source is None:
        raise AccessError(
            _("Key '{label}' has no source.").format(label=key.label),
            evidence=_("Profile '{name}' names it.").format(name=profile.name),
            fix=f"elometer key set-source {key.label} env:NAME",
        )
    refuse_unusable(boundary_problems(key), key.source)
    return usable(resolve(key.source, environ), key.source)


@dataclass(frozen=True, slots=True)
class KeyState:
    """A key as it can be shown: its fingerprint where the source gives a value, else why not."""

    key: Key
    fingerprint: str | None
    problems: tuple[Problem, ...]
    boundary: Boundary


def key_state(key: Key, environ: Mapping[str, str], *, run_commands: bool = True) -> KeyState:
    """Resolve a key to its fingerprint and its problems, without raising.

    `run_commands=False` leaves cmd: and keyring: sources alone, for lists that must be instant.
    """
    try:
        boundary, problems = key.boundary, boundary_problems(key)
    except UsageError as error:
        boundary = Boundary()
        problems = [Problem("boundary", "fail", f"{error.message} {error.evidence}", error.fix)]
    if key.source is None:
        problems.append(
            Problem(
                "unset",
                "fail",
                _("Key '{label}' has no source.").format(label=key.label),
                f"elometer key set-source {key.label} env:NAME",
            )
        )
        return KeyState(key, None, tuple(problems), boundary)
    if not run_commands and key.source.startswith(("cmd:", "keyring:")):
        return KeyState(key, None, tuple(problems), boundary)
    try:
        secret = resolve(key.source, environ)
    except (AccessError, UsageError) as error:
        problems.append(Problem("unresolved", "fail", f"{error.message} {error.evidence}".strip(), error.fix))
        return KeyState(key, None, tuple(problems), boundary)
    faults = key_problems(secret.reveal())
    stands_for_none = any(fault.code in ("empty", "placeholder") for fault in faults)
    return KeyState(key, None if stands_for_none else fingerprint(secret), (*problems, *faults), boundary)


def same_keys(states: list[KeyState]) -> list[tuple[str, ...]]:
    """Labels that name one and the same key: tokens booked under them cannot be told apart."""
    by_print: dict[str, list[str]] = {}
    for state in states:
        if state.fingerprint is not None:
            by_print.setdefault(state.fingerprint, []).append(state.key.label)
    return [tuple(labels) for labels in by_print.values() if len(labels) > 1]
