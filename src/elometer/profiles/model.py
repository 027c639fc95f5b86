"""What a profile and a key are: plain values, as the store holds them and every face shows them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from types import MappingProxyType
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from elometer.core.errors import UsageError
from elometer.core.limits import Boundary
from elometer.core.text import gettext as _
from elometer.core.urls import effective_url

Tool = Literal["claude-code", "codex", "openai-compatible"]
TOOLS: tuple[Tool, ...] = ("claude-code", "codex", "openai-compatible")
PROTOCOLS = ("chat", "responses", "messages")
DEFAULT_KEY_ENV: Mapping[str, str] = MappingProxyType(
    {
        "claude-code": "ANTHROPIC_AUTH_TOKEN",
        "codex": "TAOTOKEN_API_KEY",
        "openai-compatible": "OPENAI_API_KEY",
    }
)
DEFAULT_PROTOCOL: Mapping[str, str] = MappingProxyType(
    {"claude-code": "messages", "codex": "responses", "openai-compatible": "chat"}
)
NAME = re.compile(r"\w[\w.@+-]{0,79}")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that stands in the way (`fail`) or deserves a look (`warn`), and what to do about it."""

    code: str
    severity: Literal["fail", "warn"]
    message: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """A named credential: where its value comes from and what it may do; never the value.

    `boundary_fields` is the table as the file holds it, fields that we do not know included.
    """

    label: str
    source: str | None = None
    boundary_fields: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def boundary(self) -> Boundary:
        """The limits; raises UsageError where a field has a value that is no limit."""
        return parse_boundary(self.boundary_fields, where=f"[keys.{self.label}.boundary]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Name, tool, gateway root and key label, with what the tool needs besides.

    `env` holds further variables of the tool's own family. `env_names` remembers which variables an imported
    trio file had and in which order, so that an export gives the file back as it was.
    """

    name: str
    tool: Tool
    base_url: str
    key: str | None = None
    model: str | None = None
    small_model: str | None = None
    key_env: str | None = None
    protocol: str | None = None
    wire_api: str | None = None
    provider_id: str | None = None
    codex_version: str | None = None
    tokenizer: str | None = None
    notes: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    env_names: tuple[str, ...] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def effective_url(self) -> str:
        """The base URL that the tool is given."""
        return effective_url(self.base_url, self.tool)

    @property
    def key_variable(self) -> str:
        """The environment variable in which the tool expects the key."""
        return self.key_env or DEFAULT_KEY_ENV[self.tool]

    @property
    def spoken_protocol(self) -> str:
        """The wire protocol: what the profile says, else what its tool speaks."""
        return self.protocol or DEFAULT_PROTOCOL[self.tool]

    @property
    def codex_provider(self) -> str:
        """The id of the provider table that Codex gets; a fixed `provider_id` keeps one resume list."""
        if self.provider_id:
            return self.provider_id
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", self.name)
        if plain == self.name:
            return plain
        # Two names that differ only in other characters must not share a table.
        return f"{plain.strip('-') or 'profile'}-{hashlib.sha256(self.name.encode()).hexdigest()[:6]}"


def parse_boundary(fields: Mapping[str, Any], *, where: str) -> Boundary:
    """The limits that a table states; unknown fields are left to later versions.

    Raises UsageError with `where`, the field and its value.
    """

    def refuse(name: str, wanted: str) -> UsageError:
        return UsageError(
            _("'{name}' is not {wanted}.").format(name=name, wanted=wanted),
            evidence=f"{where} {name} = {fields[name]!r}",
            fix=_("Correct it with 'elometer key set-boundary' or in the file."),
        )

    models = fields.get("allowed_models") or ()
    if isinstance(models, str) or not all(isinstance(model, str) for model in models):
        raise refuse("allowed_models", _("a list of model names"))
    for name in ("daily_budget_tokens", "max_concurrency"):
        value = fields.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise refuse(name, _("a whole number above 0"))
    zone = fields.get("timezone", "UTC")
    try:
        expires = expiry(fields.get("expires_at"), zone)
    except (ValueError, TypeError):
        raise refuse("expires_at", _("a date or a time (2026-12-31)")) from None
    except (ZoneInfoNotFoundError, AttributeError):
        raise refuse("timezone", _("a time zone's name (Europe/Berlin)")) from None
    return Boundary(
        allowed_models=tuple(models),
        daily_budget_tokens=fields.get("daily_budget_tokens"),
        max_concurrency=fields.get("max_concurrency"),
        expires_at=expires,
        timezone=zone,
    )


def expiry(value: object, zone: str) -> datetime | None:
    """The first moment at which a key is no longer valid: a bare date lasts to the end of its day."""
    if value is None:
        return None
    local = UTC if zone == "UTC" else ZoneInfo(zone)
    if isinstance(value, str):
        text = value.strip()
        value = date.fromisoformat(text) if len(text) == len("2026-12-31") else datetime.fromisoformat(text)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=local)
    if isinstance(value, date):
        return datetime.combine(value + timedelta(days=1), time.min, tzinfo=local)
    raise TypeError(value)
