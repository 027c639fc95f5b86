"""Stand-ins for the use cases, so that screens are tested on files alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from elometer.tui.verbs import Verbs


@dataclass
class StandIns(Verbs):
    """Verbs that note what was asked."""

    asked: list[tuple[str, object]] = field(default_factory=list)
    fit: object = None
    found: list[object] = field(default_factory=list)

    def start_demo(self) -> Path:
        self.asked.append(("demo", None))
        raise NotImplementedError

    def set_state(self, folder: Path, state: str) -> None:
        self.asked.append(("state", state))

    def set_limit(self, folder: Path, limit: int) -> None:
        self.asked.append(("limit", limit))

    def starts(self) -> list[object]:
        return self.found

    def current_fit(self, folder: Path) -> object:
        return self.fit

    def active_profiles(self) -> dict[str, str]:
        return {"claude-code": "gateway-cc", "codex": "gateway-cx"}
