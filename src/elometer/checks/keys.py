"""Checks of keys: is there one, is it a key, whose is it, does it still hold, who else uses it."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from elometer.checks import layers
from elometer.checks.context import Context
from elometer.checks.engine import Check, Result, passed, unknown
from elometer.checks.subjects import KeySubject, host_of, key_subjects, nothing_stored, of_key, read_source
from elometer.core import paths
from elometer.core.text import gettext as _
from elometer.profiles.model import Profile
from elometer.profiles.secrets import FALLBACK, fingerprint, key_problems, secret_store_path

SOON = timedelta(days=3)
# The start of a key → words that its vendor's host contains (formats as published, 2026-11).
VENDORS = (
    ("sk-ant-", ("anthropic",)),
    ("sk-proj-", ("openai",)),
    ("sk-or-", ("openrouter",)),
    ("AIza", ("google",)),
    ("gsk_", ("groq",)),
    ("xai-", ("x.ai",)),
    ("hf_", ("huggingface",)),
    ("ghp_", ("github",)),
    ("github_pat_", ("github",)),
)


def key_is_set(context: Context) -> Result:
    """A value stands where the source says."""
    subjects = key_subjects(context)
    if not subjects:
        return _nothing(context)
    lines, lacking, blocked = [], [], False
    for subject in subjects:
        if subject.unread:
            lines.append(
                _("{name}: {source} is a program or a keyring; static checks do not run it").format(
                    name=subject.name, source=subject.source
                )
            )
        elif subject.value is not None:
            lines.append(
                _("{name}: found at {source} ({n} characters)").format(
                    name=subject.name, source=subject.source, n=len(subject.value.reveal())
                )
            )
        else:
            lines.append(f"{subject.name}: {subject.missing}")
            lacking.append(subject)
            blocked = blocked or subject.in_the_way
    if not lacking:
        return passed(*lines)
    first = lacking[0]
    variable = (
        (first.source or "").removeprefix("env:") if (first.source or "env:").startswith("env:") else ""
    )
    fix = f"export {variable}=…" if variable else f"elometer key set-source {first.name} env:NAME"
    return Result(
        "fail" if blocked else "warn",
        tuple(lines),
        _("No key stands where '{name}' is looked for.").format(name=first.name),
        fix,
    )


def key_is_no_placeholder(context: Context) -> Result:
    """`YOUR_API_KEY` is no key."""
    return _of_problems(context, {"placeholder", "empty"}, _("no key is a placeholder"))


def key_is_clean(context: Context) -> Result:
    """No white space, line break, quotes, `Bearer`, control or non-ASCII characters."""
    return _of_problems(context, None, _("no key holds a character that a header cannot carry"))


def _of_problems(context: Context, only: set[str] | None, good: str) -> Result:
    """The problems of keys' values, those of `only` or (None) all others than placeholders."""
    subjects = [subject for subject in key_subjects(context) if subject.value is not None]
    if not subjects:
        return unknown(_("no key to look at"))
    for subject in subjects:
        assert subject.value is not None
        for problem in key_problems(subject.value.reveal()):
            if (problem.code in ("placeholder", "empty")) is (only is not None):
                where = _("{name}: read from {source}").format(name=subject.name, source=subject.source)
                fix = problem.fix or _("Enter the key again.")
                return Result(problem.severity, (where, f"{problem.code}"), problem.message, fix)
    return passed(good, *(f"{subject.name}: {subject.source}" for subject in subjects))


def key_fits_host(context: Context) -> Result:
    """A key of one vendor does not go to another vendor's host."""
    subjects = [subject for subject in key_subjects(context) if subject.value is not None]
    urls = _urls_by_key(context)
    seen = []
    for subject in subjects:
        assert subject.value is not None
        value = subject.value.reveal().strip()
        for url in [subject.url] if subject.url else urls.get(subject.name, []):
            host = host_of(url)
            vendor = next(((start, words) for start, words in VENDORS if value.startswith(start)), None)
            if vendor and not any(word in host for word in vendor[1]):
                return Result(
                    "warn",
                    (
                        _("{name}: starts like a key of {vendor}").format(
                            name=subject.name, vendor=vendor[1][0]
                        ),
                        _("it would be sent to {host}").format(host=host),
                    ),
                    _("The key of one vendor would be sent to another one's host."),
                    f"elometer key set-source {subject.name} env:NAME",
                )
            seen.append(f"{subject.name} → {host}")
    return passed(*seen) if seen else unknown(_("no key with a URL to look at"))


def _urls_by_key(context: Context) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for profile in context.store.profiles:
        if profile.key:
            found.setdefault(profile.key, []).append(profile.base_url)
    return found


def one_claude_variable(context: Context) -> Result:
    """Claude Code sends both key variables if both are set anywhere, each in its own header."""
    set_in: dict[str, list[str]] = {}
    values: dict[str, str] = {}
    for name in layers.CLAUDE_KEYS:
        for setting in layers.settings_of(layers.claude_layers(context), name):
            values[name] = setting.value
            set_in.setdefault(name, []).append(setting.layer.name)
    live = [name for name in layers.CLAUDE_KEYS if values.get(name)]
    lines = [f"{name}: {', '.join(places)}" for name, places in set_in.items()]
    if len(live) < 2:
        return passed(*(lines or [_("neither variable is set")]))
    same = values[live[0]].strip() == values[live[1]].strip()
    lines.append(_("both hold the same value") if same else _("they hold different values"))
    uses_claude = any(profile.tool == "claude-code" for profile in _claude_profiles(context))
    in_shell = layers.CLAUDE_KEYS[1] in context.environ
    where = ", ".join(set_in[layers.CLAUDE_KEYS[1]])
    return Result(
        "fail" if uses_claude and not same else "warn",
        tuple(lines),
        _(
            "Claude Code sends both: ANTHROPIC_API_KEY as x-api-key and ANTHROPIC_AUTH_TOKEN as Bearer; the "
            "gateway may read the wrong one and answer 401."
        ),
        "unset ANTHROPIC_API_KEY"
        if in_shell
        else _("Remove ANTHROPIC_API_KEY from {where}.").format(where=where),
    )


def _claude_profiles(context: Context) -> Iterator[Profile]:
    if context.profile is not None:
        yield context.profile
    elif context.experiment is not None and context.experiment.profile is not None:
        yield context.experiment.profile


def key_holds(context: Context) -> Result:
    """The boundary's expiry lies ahead."""
    subjects = key_subjects(context)
    if not subjects:
        return _nothing(context)
    now = context.clock()
    lines = []
    worst: tuple[KeySubject, str] | None = None
    soon: tuple[KeySubject, str] | None = None
    for subject in subjects:
        if subject.boundary_fault:
            fix = f"elometer key set-boundary {subject.name} --expires-at DATE"
            return Result("fail", (subject.boundary_fault,), _("A boundary cannot be read."), fix)
        expires = subject.boundary.expires_at
        if expires is None:
            lines.append(_("{name}: no expiry is set").format(name=subject.name))
            continue
        when = expires.isoformat()
        lines.append(_("{name}: until {when}").format(name=subject.name, when=when))
        if expires <= now:
            worst = worst or (subject, when)
        elif expires - now < SOON:
            soon = soon or (subject, when)
    found = worst or soon
    if found is None:
        return passed(*lines)
    subject, when = found
    return Result(
        ("fail" if subject.in_the_way else "warn") if worst else "warn",
        tuple(lines),
        (
            _("The boundary of '{name}' expired at {when}.")
            if worst
            else _("'{name}' expires soon, at {when}.")
        ).format(name=subject.name, when=when),
        _("Make a new key for this experiment and write its new expiry into the boundary."),
    )


def variable_and_store_agree(context: Context) -> Result:
    """A variable goes before the store: an old value left in the shell wins over the right key."""
    experiment = context.experiment
    stored = context.store.key(experiment.key_label) if experiment is not None else None
    if experiment is None or stored is None or stored.source is None:
        return unknown(_("nothing to compare: no experiment whose key is in the store"))
    source = experiment.key_source or f"env:{FALLBACK}"
    shell, kept = read_source(context, stored.label, source), of_key(context, stored)
    if shell.value is None or kept.value is None or source == stored.source:
        return passed(
            _("one source: {source}").format(source=source if shell.value is not None else kept.source)
        )
    same = shell.value.reveal().strip() == kept.value.reveal().strip()
    lines = (f"→ {source}", f"  {stored.source}", _("the same value") if same else _("different values"))
    if same:
        return passed(*lines)
    name = source.removeprefix("env:")
    return Result(
        "warn",
        lines,
        _("{name} of this shell wins over the store's key, and they differ: one is stale.").format(name=name),
        f"unset {name}",
    )


def key_is_used_here_only(context: Context) -> Result:
    """The same value under another label, in live client files, or in other experiments' ledgers."""
    subjects = [subject for subject in key_subjects(context) if subject.value is not None]
    if not subjects:
        return unknown(_("no key to look at"))
    lines = list(_uses_elsewhere(context, subjects))
    if not lines:
        return passed(_("no other profile, client file or experiment uses the same key"))
    return Result(
        "warn",
        tuple(lines),
        _("The same key serves other traffic, so its tokens cannot be told apart from the experiment's."),
        _("Make a key for this experiment alone and label it: elometer key add LABEL"),
    )


def _uses_elsewhere(context: Context, subjects: list[KeySubject]) -> Iterator[str]:
    known = {subject.value.reveal().strip(): subject for subject in subjects if subject.value is not None}
    by_value: dict[str, list[str]] = {}
    stored = {subject.name: subject for subject in _all_stored(context)}
    for name, subject in stored.items():
        if subject.value is not None:
            by_value.setdefault(subject.value.reveal().strip(), []).append(name)
    for value, subject in known.items():
        labelled = context.experiment is None or context.experiment.key_label is not None
        # An experiment without a label and a label with its source are one key by intention.
        others = [
            name
            for name in by_value.get(value, [])
            if name != subject.name and (labelled or stored[name].source != subject.source)
        ]
        if others:
            yield _("{name}: the same key is labelled {others}").format(
                name=subject.name, others=", ".join(others)
            )
    seen = set()
    for place, value in _client_values(context):
        subject_here = known.get(value.strip())
        if subject_here is not None and place not in seen:
            seen.add(place)
            yield _("{name}: also live in {place}").format(name=subject_here.name, place=place)
    yield from _foreign_lines(context, known)


def _all_stored(context: Context) -> tuple[KeySubject, ...]:
    return context.once("stored keys", lambda: tuple(of_key(context, key) for key in context.store.keys))


def _client_values(context: Context) -> Iterator[tuple[str, str]]:
    """Credentials in files that clients read; the shell is where an experiment's own key may well be."""
    for layer in (*layers.claude_layers(context), *layers.codex_layers(context)):
        if layer.path is not None:
            for name, value in layer.values.items():
                if layers.is_secret(name) and value:
                    yield f"{context.shown(layer.path)} ({name})", value
    auth, state = layers.codex_auth(context), layers.claude_state(context)
    for document, field in ((auth, "OPENAI_API_KEY"), (state, "primaryApiKey")):
        stored = document.document.get(field) if document is not None else None
        if isinstance(stored, str) and stored and document is not None and document.path is not None:
            yield f"{context.shown(document.path)} ({field})", stored


def _foreign_lines(context: Context, known: dict[str, KeySubject]) -> Iterator[str]:
    """Ledgers of other experiments whose lines carry the key's fingerprint."""
    if context.experiment is None or not (paths.config_folder() / "install.secret").exists():
        return
    from elometer.ledger.totals import totals

    prints = {fingerprint(value): subject for value, subject in known.items()}
    own = context.experiment.folder
    for ledger in sorted(context.workspace.glob("*/token_ledger.jsonl")):
        if own is not None and ledger.parent.resolve() == own.resolve():
            continue
        rows = totals([ledger], by="key_fp").rows
        for row in rows:
            if row.name in prints:
                yield _("{name}: {n} calls in the ledger of {other}").format(
                    name=prints[str(row.name)].name, n=row.calls, other=ledger.parent.name
                )


def key_files_are_private(context: Context) -> Result:
    """Files that hold keys can be read by their owner only."""
    candidates = [secret_store_path()]
    if context.store.path is not None:
        candidates.append(context.store.path)
    for key in context.store.keys:
        if key.source and key.source.startswith("file:"):
            named = key.source.removeprefix("file:")
            candidates.append(context.home / named[2:] if named.startswith("~/") else Path(named))
    candidates += [layer.path for layer in _layers_with_keys(context) if layer.path is not None]
    open_files, lines = [], []
    for path in dict.fromkeys(candidates):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        lines.append(f"{mode:04o} {context.shown(path)}")
        if mode & 0o077:
            open_files.append(path)
    if not open_files:
        return passed(*(lines or [_("no file holds a key")]))
    return Result(
        "warn",
        tuple(lines),
        _("Other users of this machine can read a file that holds a key."),
        "chmod 600 " + " ".join(context.shown(path) for path in open_files),
    )


def _layers_with_keys(context: Context) -> Iterator[layers.Layer]:
    for layer in (*layers.claude_layers(context), *layers.codex_layers(context)):
        if layer.path and any(layers.is_secret(name) and value for name, value in layer.values.items()):
            yield layer
    auth = layers.codex_auth(context)
    if auth is not None and auth.document:
        yield auth
    for layer, found in layers.rc_layers(context):
        if any(layers.is_secret(item.name) and _literal(item.value) for item in found):
            yield layer


def _literal(value: str | None) -> bool:
    return bool(value) and re.fullmatch(r"[\w.\-]{12,}", value or "") is not None


def _nothing(context: Context) -> Result:
    if context.experiment is not None:
        return passed(_("an experiment of kind '{kind}' needs no key").format(kind=context.experiment.kind))
    return unknown(nothing_stored())


CHECKS = (
    Check("key.set", "key", "Does a key stand where it is looked for?", 0, key_is_set),
    Check("key.placeholder", "key", "Is it a key and not a placeholder?", 0, key_is_no_placeholder),
    Check("key.format", "key", "Is it free of spaces, line breaks, quotes and Bearer?", 0, key_is_clean),
    Check("key.vendor", "key", "Does the key belong to the host it is sent to?", 0, key_fits_host),
    Check(
        "key.one-variable",
        "key",
        "Is only one of Claude Code's two key variables set?",
        0,
        one_claude_variable,
    ),
    Check("key.one-value", "key", "Do variable and store hold the same key?", 0, variable_and_store_agree),
    Check("key.expiry", "key", "Is the key's boundary still valid?", 0, key_holds),
    Check("key.alone", "key", "Does nothing else use the same key?", 0, key_is_used_here_only),
    Check("key.files", "key", "Can only you read the files that hold keys?", 0, key_files_are_private),
)
