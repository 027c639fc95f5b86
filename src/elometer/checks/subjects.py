"""The keys and profiles that a check is about: an experiment's, one profile's, or all of the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from elometer.checks.context import NO_BOUNDARY, Context
from elometer.core.errors import ElometerError
from elometer.core.limits import Boundary
from elometer.core.redact import Secret
from elometer.core.text import gettext as _
from elometer.profiles import secrets
from elometer.profiles.model import Key, Profile
from elometer.profiles.secrets import FALLBACK

# Sources whose reading may run a program, ask for a password or use the network: left to the live checks.
UNREAD_SOURCES = ("cmd:", "keyring:")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySubject:
    """A key as checks see it. `value` is None where there is none, or where reading would run something.

    `in_the_way` says that what is being checked cannot work without it; `missing` says why there is no value.
    """

    name: str
    source: str | None
    value: Secret | None = None
    missing: str = ""
    unread: bool = False
    real_source: str | None = field(default=None, repr=False)
    boundary: Boundary = NO_BOUNDARY
    boundary_fault: str = ""
    in_the_way: bool = False
    url: str = ""
    tool: str | None = None


def key_subjects(context: Context) -> tuple[KeySubject, ...]:
    """The keys in question; read once."""
    return context.once("key subjects", lambda: tuple(_key_subjects(context)))


def _key_subjects(context: Context) -> Iterator[KeySubject]:
    if context.experiment is not None:
        if context.experiment.needs_gateway:
            yield _of_experiment(context)
        return
    if context.profile is not None:
        yield _of_profile(context, context.profile)
        return
    for key in context.store.keys:
        yield of_key(context, key)


def _of_experiment(context: Context) -> KeySubject:
    """The key of an experiment, looked up as a start does: its variable, the store, the fallback."""
    experiment = context.experiment
    assert experiment is not None
    name = experiment.key_label or experiment.experiment_id
    stored = context.store.key(experiment.key_label)
    first = experiment.key_source or f"env:{FALLBACK}"
    found = read_source(context, name, first)
    if found.value is None and stored is not None and stored.source is not None:
        found = read_source(context, name, stored.source)
    elif found.value is None and first != f"env:{FALLBACK}":
        fallback = read_source(context, name, f"env:{FALLBACK}")
        found = fallback if fallback.value is not None else found
    return replace(found, boundary=experiment.boundary, in_the_way=True, url=experiment.base_url)


def _of_profile(context: Context, profile: Profile) -> KeySubject:
    key = context.store.key(profile.key)
    if key is None:
        found = KeySubject(name=profile.name, source=None, missing=_("the profile names no key"))
    else:
        found = of_key(context, key)
    return replace(found, in_the_way=True, url=profile.base_url, tool=profile.tool)


def of_key(context: Context, key: Key) -> KeySubject:
    """A key of the store."""
    if key.source is None:
        found = KeySubject(name=key.label, source=None, missing=_("no source is set"))
    else:
        found = read_source(context, key.label, key.source)
    try:
        return replace(found, boundary=key.boundary)
    except ElometerError as error:
        return replace(found, boundary_fault=f"{error.message} {error.evidence}".strip())


def read_source(context: Context, name: str, source: str) -> KeySubject:
    """A key from its source, unless reading would run a program."""
    if source.startswith(UNREAD_SOURCES):
        shown = source.split(":", 1)[0] + ":…"
        return KeySubject(name=name, source=shown, real_source=source, unread=True)
    try:
        return KeySubject(name=name, source=source, value=secrets.resolve(source, context.environ))
    except ElometerError as error:
        return KeySubject(name=name, source=source, missing=f"{error.message} {error.evidence}".strip())


def value_now(subject: KeySubject, context: Context) -> Secret | None:
    """The value, also where reading it runs a program. Raises AccessError where the program gives none."""
    if subject.unread and subject.real_source is not None:
        return secrets.resolve(subject.real_source, context.environ)
    return subject.value


def profile_subjects(context: Context) -> tuple[Profile, ...]:
    """The profiles in question: the experiment's, the one that was named, or all of the store."""
    if context.experiment is not None:
        return (context.experiment.profile,) if context.experiment.profile else ()
    if context.profile is not None:
        return (context.profile,)
    return context.store.profiles


def host_of(url: str) -> str:
    """The host of a URL; empty where it has none or is no URL."""
    try:
        return urlsplit(url.strip()).hostname or ""
    except ValueError:
        return ""


def is_loopback(url: str) -> bool:
    """True for a URL on this machine."""
    host = host_of(url)
    return host in ("localhost", "::1") or host.startswith("127.")


def nothing_stored() -> str:
    """The evidence line where there is nothing to look at."""
    return _("nothing to look at: the store is empty and no experiment was named")
