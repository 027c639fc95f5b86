"""A case to be explained, and what a finding about it is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Stage = Literal["metadata", "ledger", "pairs", "fit"]
Weight = Literal["cause", "note", "fine"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what was seen, and the command that shows it.

    A `cause` explains an odd number by itself; `because` says how, `tasks` in which tasks alone (empty: in
    all). A `note` is worth knowing, `fine` was looked at and is in order.
    """

    stage: Stage
    code: str
    weight: Weight
    text: str
    command: str
    because: str = ""
    tasks: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The fields that scripts rely on."""
        return {
            "stage": self.stage,
            "code": self.code,
            "weight": self.weight,
            "finding": self.text,
            "command": self.command,
        }


@dataclass(frozen=True, slots=True)
class Case:
    """One strategy of one experiment, and the one it is compared with (None: there is no other).

    `name` is what a command takes for the experiment. `allowed` is empty where the boundary names no model.
    """

    name: str
    strategy: str
    compared: str | None
    allowed: tuple[str, ...] = ()
    served_as: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def quoted(self) -> str:
        """The experiment as a word of a shell."""
        return shlex.quote(self.name)

    @property
    def both(self) -> tuple[str, ...]:
        """The strategy, and the one it is compared with."""
        return (self.strategy,) if self.compared is None else (self.strategy, self.compared)

    def is_stranger(self, requested: str | None, served: str | None) -> bool:
        """Whether an answer came from a model outside the boundary, or under a name that nobody expects."""
        if served is None:
            return False
        asked = requested or served
        if self.allowed and asked not in self.allowed:
            return True
        return served != asked and served not in self.served_as.get(asked, ())

    def cause(
        self, stage: Stage, code: str, text: str, command: str, *, because: str, tasks: tuple[str, ...] = ()
    ) -> Finding:
        """A finding that explains."""
        return Finding(stage, code, "cause", text, command, because, tasks)

    def note(self, stage: Stage, code: str, text: str, command: str, *, because: str = "") -> Finding:
        """A finding that is worth knowing; it explains nothing by itself."""
        return Finding(stage, code, "note", text, command)

    def fine(self, stage: Stage, code: str, text: str, command: str) -> Finding:
        """Something that is in order."""
        return Finding(stage, code, "fine", text, command)


def percent(share: float) -> str:
    """A share as a reader wants it: `0.4%`, `12%`."""
    return f"{share:.1%}" if 0 < share < 0.095 else f"{share:.0%}"


def jq(condition: str, fields: str, path: Path) -> str:
    """The command that shows lines of a JSONL file."""
    return f"jq -c {shlex.quote(f'select({condition}) | {fields}')} {shlex.quote(str(path))}"
