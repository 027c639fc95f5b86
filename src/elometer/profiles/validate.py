"""What is wrong with a profile, its key's source and its boundary: one table of rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from urllib.parse import urlsplit

from elometer.core.clock import utc_now
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.core.urls import has_version, url_fault
from elometer.profiles.model import NAME, PROTOCOLS, TOOLS, Key, Problem, Profile
from elometer.profiles.secrets import is_placeholder

# Last and first published Codex versions by what they make of wire_api = "chat" (run here, November 2026).
LAST_CODEX_WITH_CHAT = (0, 94, 0)
# `openai` was seen to be refused by Codex 0.171; the others are named as reserved by CC Switch 3.20.
RESERVED_PROVIDERS = ("openai", "ollama", "lmstudio", "oss", "ollama-chat", "amazon-bedrock")

# Which tool a variable belongs to. Names outside all families (API_TIMEOUT_MS, HTTPS_PROXY …) belong to none.
FAMILIES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("claude-code", re.compile(r"(ANTHROPIC|CLAUDE)_\w+|AWS_BEARER_TOKEN_BEDROCK")),
    ("codex", re.compile(r"CODEX_\w+|TAOTOKEN_API_KEY")),
    ("openai-compatible", re.compile(r"OPENAI_\w+")),
)
_SECRET_NAME = re.compile(
    r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|AUTHORIZATION|CREDENTIALS?)(_|$)|API_?KEY|AUTH_TOKEN"
)
_CLAUDE_CREDENTIALS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
# A copy of the base URL in a profile's variables must agree with the root it is derived from.
URL_VARIABLE = {"claude-code": "ANTHROPIC_BASE_URL", "openai-compatible": "OPENAI_BASE_URL"}
_CREDENTIAL_HEADER = re.compile(r"^\s*(authorization|[\w-]*api-key|cookie)\s*:", re.IGNORECASE | re.MULTILINE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def family(variable: str) -> str | None:
    """The tool whose family a variable belongs to, or None."""
    return next((tool for tool, pattern in FAMILIES if pattern.fullmatch(variable)), None)


def looks_secret(variable: str) -> bool:
    """True where a variable's name says that it holds a credential."""
    return bool(_SECRET_NAME.search(variable.upper()))


def _fail(code: str, message: str, fix: str = "") -> Problem:
    return Problem(code, "fail", message, fix)


def _warn(code: str, message: str, fix: str = "") -> Problem:
    return Problem(code, "warn", message, fix)


def _name_problems(profile: Profile) -> Iterator[Problem]:
    if not NAME.fullmatch(profile.name):
        yield _fail(
            "name",
            _("'{name}' cannot be a profile's name.").format(name=profile.name),
            _("Use letters, digits, '.', '-', '_', '@' and '+', no spaces."),
        )
    if profile.tool not in TOOLS:
        known = ", ".join(TOOLS)
        yield _fail("tool", _("'{tool}' is no known tool.").format(tool=profile.tool), f"tool = {known}")
    if profile.protocol is not None and profile.protocol not in PROTOCOLS:
        yield _fail("protocol", _("'{p}' is no protocol.").format(p=profile.protocol), ", ".join(PROTOCOLS))


def _url_problems(profile: Profile) -> Iterator[Problem]:
    parts = urlsplit(profile.base_url.strip())
    if parts.username or parts.password:
        yield _fail(
            "url_userinfo", _("The base URL contains a user name or password."), _("Use a key instead.")
        )
        return
    fault = url_fault(profile.base_url)
    if fault is not None:
        yield _fail(
            f"url_{fault.reason}",
            _("The base URL cannot be used as it stands ({reason}): {url}").format(
                reason=fault.reason.replace("_", " "), url=profile.base_url
            ),
            _("Did you mean {url}?").format(url=fault.proposal) if fault.proposal else _("Give a URL."),
        )
        return
    if profile.tool == "claude-code" and has_version(profile.base_url):
        stripped = profile.base_url.rstrip("/").rpartition("/")[0]
        yield _warn(
            "url_version",
            _("Claude Code would call {url}/v1/messages.").format(url=profile.effective_url),
            _("Give the root: {url}").format(url=stripped),
        )
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        yield _warn(
            "url_clear",
            _("The key would travel unencrypted to {host}.").format(host=parts.hostname),
            _("Use https:// where the gateway offers it."),
        )


def _key_problems(profile: Profile) -> Iterator[Problem]:
    if profile.key is None:
        yield _warn(
            "no_key",
            _("The profile has a URL and no key; it cannot be used yet."),
            f"elometer profile edit {profile.name} --key LABEL",
        )
    if profile.key_env is None:
        return
    if not _VARIABLE.fullmatch(profile.key_env):
        yield _fail("key_env", _("'{name}' is no variable name.").format(name=profile.key_env))
    elif profile.tool == "claude-code" and profile.key_env not in _CLAUDE_CREDENTIALS:
        yield _fail(
            "key_env",
            _("Claude Code does not read its key from {name}.").format(name=profile.key_env),
            "key_env = " + " | ".join(_CLAUDE_CREDENTIALS),
        )
    elif profile.tool == "openai-compatible" and profile.key_env != "OPENAI_API_KEY":
        yield _fail(
            "key_env",
            _("OpenAI clients do not read their key from {name}.").format(name=profile.key_env),
            "key_env = OPENAI_API_KEY",
        )
    elif profile.tool == "codex" and family(profile.key_env) == "claude-code":
        yield _crossing(profile, profile.key_env)


def _model_problems(profile: Profile) -> Iterator[Problem]:
    for model in (profile.model, profile.small_model):
        if model is not None and re.fullmatch(r"<.*>|your[-_ ].*", model.strip(), re.IGNORECASE):
            yield _warn(
                "model_placeholder",
                _("'{model}' is a placeholder, not a model.").format(model=model),
                f"elometer profile edit {profile.name} --model NAME",
            )


def _crossing(profile: Profile, variable: str) -> Problem:
    return _fail(
        "crossing",
        _("{variable} does not belong in a profile for {tool}.").format(variable=variable, tool=profile.tool),
        _("Remove it; each tool has a profile of its own."),
    )


def _env_problems(profile: Profile) -> Iterator[Problem]:
    for name, value in profile.env.items():
        owner = family(name)
        if not _VARIABLE.fullmatch(name):
            yield _fail("env_name", _("'{name}' is no variable name.").format(name=name))
        elif owner is not None and owner != profile.tool and name != profile.key_env:
            yield _crossing(profile, name)
        elif profile.tool == "claude-code" and name in _CLAUDE_CREDENTIALS and value:
            yield _fail(
                "two_credentials",
                _("Claude Code sends both {a} and {b} where both are set.").format(
                    a=_CLAUDE_CREDENTIALS[0], b=_CLAUDE_CREDENTIALS[1]
                ),
                _("Keep one: set key_env to the one that you want."),
            )
        elif name == URL_VARIABLE.get(profile.tool) and value not in (
            profile.base_url,
            profile.effective_url,
        ):
            yield _fail(
                "two_urls",
                _("{name} = {value} differs from the profile's base URL.").format(name=name, value=value),
                _("Keep one root: {url}").format(url=profile.base_url),
            )
        elif name.endswith("_HEADERS") and _CREDENTIAL_HEADER.search(value):
            yield _fail(
                "secret_in_env",
                _("{name} carries a credential of its own; it would be sent beside the key.").format(
                    name=name
                ),
                _("Leave that header out."),
            )
        elif looks_secret(name) and value and not is_placeholder(value):
            yield _fail(
                "secret_in_env",
                _("{name} looks like a credential; a profile holds no key values.").format(name=name),
                _("Name a key with --key and its source instead."),
            )
        elif "\0" in value:
            yield _fail("env_value", _("{name} contains a NUL character.").format(name=name))


def codex_version(text: str) -> tuple[int, ...] | None:
    """`0.94.0` as numbers; None where it is no version."""
    match = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.(\d+))?\S*", text.strip())
    return tuple(int(part or 0) for part in match.groups()) if match else None


def _codex_problems(profile: Profile) -> Iterator[Problem]:
    if profile.tool != "codex":
        for name in ("wire_api", "provider_id", "codex_version"):
            if getattr(profile, name) is not None:
                yield _fail("codex_only", _("{name} is for Codex profiles only.").format(name=name))
        return
    if profile.codex_provider in RESERVED_PROVIDERS:
        yield _fail(
            "reserved_provider",
            _("Codex reserves the provider id '{id}'.").format(id=profile.codex_provider),
            _("Choose another with --provider-id."),
        )
    if profile.provider_id is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", profile.provider_id):
        yield _fail("provider_id", _("A provider id has letters, digits, '-' and '_' only."))
    if profile.wire_api not in (None, "responses", "chat"):
        yield _fail("wire_api", _("'{w}' is no wire_api of Codex.").format(w=profile.wire_api), "responses")
    if profile.wire_api == "chat":
        asked = codex_version(profile.codex_version or "")
        if asked is None or asked > LAST_CODEX_WITH_CHAT:
            yield _fail(
                "wire_api_chat",
                _('Codex refuses to start with wire_api = "chat"; 0.94.0 was the last version to take it.'),
                _('Use wire_api = "responses", or name the old version with --codex-version 0.94.0.'),
            )


_RULES: tuple[Callable[[Profile], Iterator[Problem]], ...] = (
    _name_problems,
    _url_problems,
    _key_problems,
    _env_problems,
    _model_problems,
    _codex_problems,
)


def profile_problems(profile: Profile) -> list[Problem]:
    """Everything that is wrong or odd about a profile by itself; `fail` keeps it out of the store."""
    return [problem for rule in _RULES for problem in rule(profile)]


def boundary_problems(key: Key, *, now: datetime | None = None) -> list[Problem]:
    """An expired boundary, and a label that nobody could type."""
    found = []
    if not NAME.fullmatch(key.label):
        found.append(_fail("label", _("'{label}' cannot be a key's label.").format(label=key.label)))
    expires = key.boundary.expires_at
    if expires is not None and expires <= (now or utc_now()):
        found.append(
            _fail(
                "expired",
                _("Key '{label}' expired at {when}.").format(label=key.label, when=expires.isoformat()),
                f"elometer key set-boundary {key.label} --expires-at DATE",
            )
        )
    return found


def refuse_failures(problems: Iterable[Problem], *, subject: str) -> None:
    """Raise UsageError for the first `fail`; warnings pass."""
    for problem in problems:
        if problem.severity == "fail":
            raise UsageError(problem.message, evidence=subject, fix=problem.fix)
