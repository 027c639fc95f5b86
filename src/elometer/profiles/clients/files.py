"""The clients that live by a file which a switch edits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from elometer.profiles.clients import claude_code, codex
from elometer.profiles.model import Profile


class FileClient(Protocol):
    """What a switch needs to know of a client: its file as fields, and what a profile wants."""

    def live_path(self, environ: Mapping[str, str]) -> Path:
        """The file that a switch edits."""

    def wanted_fields(self, profile: Profile, key: str) -> dict[str, str]:
        """Every field that the file must hold afterwards."""

    def unwanted_fields(self, profile: Profile) -> tuple[str, ...]:
        """Fields that must not be there."""

    def read_fields(self, data: bytes) -> dict[str, str]:
        """The file as fields."""

    def write_fields(self, data: bytes, changes: Mapping[str, str | None]) -> bytes:
        """The file with fields set or taken away."""

    def stays(self, field: str) -> bool:
        """True for a field that outlives the profile that wrote it."""

    def is_secret(self, field: str, value: str) -> bool:
        """True where the value must not be shown."""

    def mode_after(self, mode: int) -> int:
        """The file's mode after a switch."""


CLIENTS: Mapping[str, FileClient] = {claude_code.TOOL: claude_code, codex.TOOL: codex}
CLIENT_NAMES: Mapping[str, str] = {claude_code.TOOL: "Claude Code", codex.TOOL: "Codex"}
PROGRAMS: Mapping[str, str] = {claude_code.TOOL: claude_code.PROGRAM, codex.TOOL: codex.PROGRAM}
