"""A start of a client as plain data: argument vector, whole environment, private folder, standard input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Launch:
    """What to execute. `env` is the whole environment; the key is in it and nowhere else."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    private: Path | None  # the client's own folder for this profile, mode 0700; None where it has none
    headless: bool  # standard input comes from /dev/null: an open, silent one hangs Codex for ever


def flag_given(argv: Sequence[str], flag: str) -> bool:
    """True where a flag stands among the words, alone or with `=value`."""
    return any(word == flag or word.startswith(flag + "=") for word in argv[1:])


def home_of(environ: Mapping[str, str]) -> Path:
    """The home folder as a child with this environment sees it."""
    named = environ.get("HOME")
    return Path(named) if named else Path.home()
