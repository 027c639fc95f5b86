"""The keys and profiles that a check is about: an experiment's, one profile's, or all of the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    boundary: Boundary = NO_BOUNDARY
    boundary_fault: str = ""
    in_the_way: bool = False
    loopback: bool = False
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
        yield _of_key(context, key)


def _of_experiment(context: Context) -> KeySubject:
    experiment = context.experiment
    assert experiment is not None
    name = experiment.key_label or experiment.experiment_id
    stored = context.store.key(experiment.key_label)
    for source in (experiment.key_source, stored.source if stored else None, f"env:{FALLBACK}"):
        if source is None:
            continue
        found = read_source(context, name, source)
        if found.value is not None or found.unread:
            break
    else:
        sources = experiment.key_source or f"env:{FALLBACK}"
        found = KeySubject(name=name, source=sources, missing=_("{source} is not set").format(source=sources))
    return _with(
        found,
        boundary=experiment.boundary,
        in_the_way=True,
        url=experiment.base_url,
        loopback=is_loopback(experiment.base_url),
        boundary_fault="",
    )


def _of_profile(context: Context, profile: Profile) -> KeySubject:
    key = context.store.key(profile.key)
    if key is None:
        return KeySubject(
            name=profile.name,
            source=None,
            missing=_("the profile names no key"),
            in_the_way=True,
            url=profile.base_url,
            tool=profile.tool,
            loopback=is_loopback(profile.base_url),
        )
    found = _of_key(context, key)
    return _with(
        found,
        in_the_way=True,
        url=profile.base_url,
        tool=profile.tool,
        loopback=is_loopback(profile.base_url),
    )


def _of_key(context: Context, key: Key) -> KeySubject:
    if key.source is None:
        found = KeySubject(name=key.label, source=None, missing=_("no source is set"))
    else:
        found = read_source(context, key.label, key.source)
    try:
        return _with(found, boundary=key.boundary, boundary_fault="")
    except ElometerError as error:
        return _with(found, boundary=Boundary(), boundary_fault=f"{error.message} {error.evidence}".strip())


def _with(subject: KeySubject, **changes: object) -> KeySubject:
    from dataclasses import replace

    return replace(subject, **changes)  # type: ignore[arg-type]


def read_source(context: Context, name: str, source: str) -> KeySubject:
    """A key from its source, unless reading would run a program."""
    if source.startswith(UNREAD_SOURCES):
        return KeySubject(name=name, source=source.split(":", 1)[0] + ":…", unread=True)
    try:
        return KeySubject(name=name, source=source, value=secrets.resolve(source, context.environ))
    except ElometerError as error:
        return KeySubject(
            name=name, source=source, missing=f"{error.message} {error.evidence}".strip(), unread=False
        )


def profile_subjects(context: Context) -> tuple[Profile, ...]:
    """The profiles in question: the experiment's, the one that was named, or all of the store."""
    if context.experiment is not None:
        return (context.experiment.profile,) if context.experiment.profile else ()
    if context.profile is not None:
        return (context.profile,)
    return context.store.profiles


def is_loopback(url: str) -> bool:
    """True for a URL on this machine."""
    from urllib.parse import urlsplit

    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in ("localhost", "::1") or host.startswith("127.")


def nothing_stored() -> str:
    """The evidence line where there is nothing to look at."""
    return _("nothing to look at: the store is empty and no experiment was named")
