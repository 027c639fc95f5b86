"""Where a key's value comes from, how it is named without being shown, and what is wrong with it.

Sources: `env:NAME`, `file:PATH`, `cmd:ARGV` (no shell), `keyring:SERVICE/USER`, `store:LABEL` (a 0600 file).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import importlib
import json
import os
import re
import secrets
import shlex
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from elometer.core import atomic, paths
from elometer.core.errors import AccessError, UsageError
from elometer.core.paths import expanded
from elometer.core.redact import Secret
from elometer.core.text import gettext as _
from elometer.profiles.locking import locked, sweep
from elometer.profiles.model import Problem

if TYPE_CHECKING:
    from elometer.profiles.store import Store

SCHEMES = ("env", "file", "cmd", "keyring", "store")
COMMAND_TIMEOUT_S = 30
FINGERPRINT_CHARACTERS = 8
SHORT_KEY = 12

_PLACEHOLDER = re.compile(
    r"""<.*> | \$\{?\w+\}? | \{\{.*\}\} | \*+ | (sk-)?(ant-)?(x{3,}|\.{3,}|…|\*{3,})
    | (your|my|the|insert|enter|paste|put|add|replace)[-_ ]?(with[-_ ])?(your[-_ ])?(\w+[-_ ])?
      (api[-_ ]?)?(key|token|secret)([-_ ]?here)?
    | (sk-)?(api[-_ ]?key|token|secret)([-_ ]?here)? | sk-your\S* | change[-_ ]?me | replace[-_ ]?me
    | proxy_managed | none | null | undefined | example | placeholder([-_ ]key)?""",
    re.VERBOSE | re.IGNORECASE,
)


def is_placeholder(value: str) -> bool:
    """True for `YOUR_API_KEY` and its kin: text that stands where a key should be."""
    return bool(_PLACEHOLDER.fullmatch(value.strip().strip("\"'")))


def key_problems(value: str) -> list[Problem]:
    """What is wrong with a key's value; the messages never quote it.

    Measured: Codex sends no credential at all for a value that ends in a newline, openai-python fails to
    connect, Claude Code trims it; a key must therefore be clean before any client sees it.
    """

    def fail(code: str, message: str, fix: str) -> Problem:
        return Problem(code, "fail", message, fix)

    again = _("Enter it again with 'elometer key set-source' or correct its source.")
    if not value.strip():
        return [fail("empty", _("The key is empty."), again)]
    found = []
    if is_placeholder(value):
        found.append(fail("placeholder", _("The key is a placeholder, not a key."), again))
    if "\n" in value or "\r" in value:
        found.append(fail("newline", _("The key contains a line break."), again))
    if value[:7].lower() == "bearer ":
        found.append(fail("bearer", _("The key starts with 'Bearer '; clients add that themselves."), again))
    elif re.search(r"[ \t]", value):
        found.append(fail("whitespace", _("The key contains spaces or tabs."), again))
    if value.strip()[:1] in "\"'`‘’“”" or value.strip()[-1:] in "\"'`‘’“”":
        found.append(fail("quotes", _("The key is wrapped in quotes."), again))
    if any((ord(c) < 32 and c not in "\n\r\t") or 127 <= ord(c) < 160 for c in value):
        found.append(fail("control", _("The key contains a control character."), again))
    if any(ord(c) >= 160 for c in value):
        found.append(
            fail("non-ascii", _("The key contains a character that an HTTP header cannot hold."), again)
        )
    if not found and len(value) < SHORT_KEY:
        message = _("The key has only {n} characters.").format(n=len(value))
        found.append(Problem("short", "warn", message, _("Compare it with the gateway's key list.")))
    return found


def check_source(source: str) -> tuple[str, str]:
    """Split a source into scheme and rest; raises UsageError where it names no place."""
    scheme, colon, rest = source.partition(":")
    if not colon or scheme not in SCHEMES or not rest.strip():
        raise UsageError(
            _("This is not a key source."),
            # What was typed here may be a key by mistake, so only a known scheme is repeated.
            evidence=_("Read: '{scheme}:…'").format(scheme=scheme) if scheme in SCHEMES and colon else "",
            fix=_("Use env:NAME, file:PATH, cmd:ARGV, keyring:SERVICE/USER or store:LABEL."),
        )
    if scheme == "env" and not re.fullmatch(r"[A-Za-z_]\w*", rest, re.ASCII):
        raise UsageError(
            _("An env: source names an environment variable."), fix=_("Example: env:TAOTOKEN_API_KEY")
        )
    if scheme == "keyring" and not all(rest.partition("/")[::2]):
        raise UsageError(_("A keyring: source names a service and a user."), fix="keyring:SERVICE/USER")
    return scheme, rest


def resolve(source: str, environ: Mapping[str, str] | None = None) -> Secret:
    """The key's value from its source. Raises AccessError where there is none, naming the source only.

    One final line end is dropped from files and command output, where editors and programs put one; a value
    from a variable stays as it is, because the clients would send it so.
    """
    scheme, rest = check_source(source)
    if scheme == "env":
        value = (os.environ if environ is None else environ).get(rest)
        if not value:
            raise _missing(source, _("The variable is not set."), f"export {rest}=…")
        return Secret(value)
    if scheme == "file":
        return Secret(_from_file(source, expanded(rest)))
    if scheme == "cmd":
        return Secret(_from_command(source, rest))
    if scheme == "keyring":
        return Secret(_from_keyring(source, *rest.split("/", 1)))
    value = _stored().get(rest)
    if not value or not isinstance(value, str):
        raise _missing(
            source, _("The secret store has no such label."), f"elometer key set-source {rest} --stdin"
        )
    return Secret(value)


def _missing(source: str, evidence: str, fix: str) -> AccessError:
    message = _("No key at {source}.").format(source=source if not source.startswith("cmd:") else "cmd:…")
    return AccessError(message, evidence=evidence, fix=fix)


def _drop_line_end(text: str) -> str:
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")


def _from_file(source: str, path: Path) -> str:
    try:
        value = _drop_line_end(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise _missing(source, error.strerror or "", _("Create the file with mode 0600.")) from None
    except UnicodeDecodeError:
        raise _missing(source, _("The file is not text."), _("Save the key as plain text.")) from None
    if not value:
        raise _missing(source, _("The file is empty."), _("Save the key in it."))
    return value


def command_words(text: str) -> list[str]:
    """The argument vector of a `cmd:` source: a JSON list, or words as a shell splits them."""
    try:
        words = json.loads(text) if text.lstrip().startswith("[") else shlex.split(text)
    except ValueError:
        words = []
    if not words or not all(isinstance(word, str) for word in words):
        raise UsageError(
            _("The command of a cmd: source cannot be split into words."), fix='cmd:["pass","x"]'
        )
    return words


def _from_command(source: str, text: str) -> str:
    words = command_words(text)
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _missing(
            source, f"{Path(words[0]).name}: {type(error).__name__}", _("Run it by hand.")
        ) from None
    if done.returncode != 0:
        evidence = _("{program} ended with {code}.").format(program=Path(words[0]).name, code=done.returncode)
        raise _missing(source, evidence, _("Run it by hand to see why."))
    try:
        value = _drop_line_end(done.stdout.decode())
    except UnicodeDecodeError:
        raise _missing(source, _("Its output is not text."), _("Run it by hand.")) from None
    if not value:
        raise _missing(source, _("It printed nothing."), _("Run it by hand."))
    return value


def _from_keyring(source: str, service: str, user: str) -> str:
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise UsageError(
            _("Key source keyring: needs the extra package."),
            evidence=_("The module 'keyring' is not installed."),
            fix="pip install 'elometer[keyring]'",
        ) from None
    try:
        value = keyring.get_password(service, user)
    except keyring.errors.KeyringError as error:
        raise _missing(source, type(error).__name__, _("Unlock the keyring or use another source.")) from None
    if not value:
        raise _missing(source, _("The keyring has no such entry."), f"keyring set {service} {user}")
    return str(value)


# Which key a caller gets: the experiment's variable, else the store's label, else TAOTOKEN_API_KEY.

FALLBACK = "TAOTOKEN_API_KEY"


def lookup_key(
    key_env: str | None, key_label: str | None, environ: Mapping[str, str], store: Store
) -> tuple[Secret, str]:
    """The key and its source (`env:NAME` or what the store says).

    Raises AccessError where no place holds one, or where the one found cannot be sent as it is.
    """
    tried = []
    if key_env:
        if environ.get(key_env):
            source = f"env:{key_env}"
            return usable(Secret(environ[key_env]), source), source
        tried.append(f"{key_env} " + _("is not set"))
    if key_label:
        key = store.keys.get(key_label)
        if key is not None and key.source is not None:
            return usable(resolve(key.source, environ), key.source), key.source
        tried.append(_("the store has no source for key '{label}'").format(label=key_label))
    if key_env != FALLBACK:
        if environ.get(FALLBACK):
            source = f"env:{FALLBACK}"
            return usable(Secret(environ[FALLBACK]), source), source
        tried.append(f"{FALLBACK} " + _("is not set"))
    name = key_env or FALLBACK
    fix = f"export {name}=…"
    if key_label:
        fix += " · " + f"elometer key set-source {key_label} env:{name}"
    raise AccessError(_("No key was found."), evidence="; ".join(tried), fix=fix)


def usable(secret: Secret, source: str) -> Secret:
    """The secret itself where it can be sent as it is. Raises AccessError."""
    refuse_unusable(key_problems(secret.reveal()), source)
    return secret


def refuse_unusable(problems: list[Problem], source: str) -> None:
    """Raise AccessError for the first `fail` of a key."""
    for problem in problems:
        if problem.severity == "fail":
            shown = source if not source.startswith("cmd:") else "cmd:…"
            raise AccessError(problem.message, evidence=_("Read from {s}").format(s=shown), fix=problem.fix)


# The secret store: label → value, one TOML file, 0600 from creation.


def secret_store_path() -> Path:
    """Where `store:` keys live."""
    return paths.config_folder() / "secrets.toml"


def _stored() -> dict[str, Any]:
    path = secret_store_path()
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise AccessError(
            _("The secret store cannot be read."),
            evidence=str(path),
            fix=_("It must be TOML; restore it from a backup or enter the keys again."),
        ) from None


@contextlib.contextmanager
def _changing() -> Iterator[dict[str, Any]]:
    """The labels under a lock; written back in one step where they changed."""
    path = secret_store_path()
    atomic.make_private_folder(path.parent)
    with locked(path.with_name(f".{path.name}.lock")):
        sweep(path)
        before = _stored()
        after = dict(before)
        yield after
        if after != before:
            atomic.replace_file(path, tomli_w.dumps(after).encode())


def store_secret(label: str, value: str) -> str:
    """Keep a key's value in the secret store; returns its source (`store:LABEL`)."""
    with _changing() as kept:
        kept[label] = value
    return f"store:{label}"


def forget_secret(label: str) -> None:
    """Remove a label from the secret store; nothing happens where it is not there."""
    with _changing() as kept:
        kept.pop(label, None)


# The install secret: 32 random bytes that make fingerprints useless elsewhere and seal copies of files.


def install_secret() -> bytes:
    """The per-install secret, made on first use with mode 0600; two processes agree on one."""
    path = paths.config_folder() / "install.secret"
    with contextlib.suppress(FileNotFoundError):
        found = path.read_bytes()
        if len(found) == 32:
            return found
        raise AccessError(
            _("The install secret is damaged."),
            evidence=str(path),
            fix=_("Restore it; without it undo copies cannot be opened and fingerprints change."),
        )
    atomic.make_private_folder(path.parent)
    beside = path.with_name(f".install.secret.{secrets.token_hex(6)}.tmp")
    atomic.replace_file(beside, secrets.token_bytes(32))
    try:
        with contextlib.suppress(FileExistsError):
            os.link(beside, path)
    finally:
        beside.unlink()
    atomic.sync_folder(path.parent)
    return install_secret()


def fingerprint(secret: Secret | str) -> str:
    """Eight characters that name a key on this machine and reveal nothing of it.

    A keyed hash with the install secret; surrounding white space does not count, so that a key pasted with
    a newline is still seen to be the same key.
    """
    value = secret.reveal() if isinstance(secret, Secret) else secret
    digest = hmac.new(
        install_secret(), b"fingerprint\0" + value.strip().encode("utf-8", "surrogatepass"), hashlib.sha256
    )
    return digest.hexdigest()[:FINGERPRINT_CHARACTERS]
