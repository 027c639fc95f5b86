"""What checks look at: the environment, a home, the store, an experiment; each file is read once.

Nothing here touches the network, runs a command or writes a file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from elometer.core.clock import utc_now
from elometer.core.limits import Boundary
from elometer.profiles.model import Key, Profile

if TYPE_CHECKING:
    from elometer.checks.probing import Target

T = TypeVar("T")
LARGEST_TEXT = 8 << 20
NO_BOUNDARY = Boundary()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentFacts:
    """What checks need to know of an experiment: the resolved values, not the YAML.

    `stated` is the boundary as the YAML has it, `boundary` the one in force (the stricter of YAML and store).
    `served_as` maps a requested model to the names that may answer for it.
    """

    experiment_id: str
    base_url: str
    kind: str = "http"
    protocol: str = "chat"
    key_label: str | None = None
    key_source: str | None = None
    stated: Boundary = NO_BOUNDARY
    boundary: Boundary = NO_BOUNDARY
    timezone: str = "UTC"
    served_as: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    profile: Profile | None = None
    file: Path | None = None
    folder: Path | None = None

    @property
    def needs_gateway(self) -> bool:
        """False for kinds whose gateway is part of the program."""
        return self.kind not in ("demo", "replay")


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Profiles and keys of the store, in order; `problem` says why it could not be read."""

    profiles: tuple[Profile, ...] = ()
    keys: tuple[Key, ...] = ()
    path: Path | None = None
    problem: str = ""

    def key(self, label: str | None) -> Key | None:
        """The key of a label."""
        return next((key for key in self.keys if key.label == label), None)


@dataclass(frozen=True, slots=True)
class TerminalFacts:
    """What is known of the terminal; None where there is none."""

    columns: int
    rows: int
    encoding: str


@dataclass(kw_only=True)
class Context:
    """The world that checks see. Tests give it another home, environment and system root.

    `profile` narrows the key, URL and model checks to one profile; with an experiment they look at its key
    and the profile that uses it. `target` names a gateway directly, before any profile exists.
    """

    environ: Mapping[str, str]
    home: Path
    folder: Path
    workspace: Path
    store: StoreFacts = StoreFacts()
    experiment: ExperimentFacts | None = None
    profile: Profile | None = None
    terminal: TerminalFacts | None = None
    target: Target | None = None
    system_root: Path = Path("/")
    clock: Callable[[], datetime] = utc_now
    _memo: dict[Any, Future[Any]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def claude_folder(self) -> Path:
        """Claude Code's configuration: CLAUDE_CONFIG_DIR, else ~/.claude."""
        named = self.environ.get("CLAUDE_CONFIG_DIR")
        return Path(named) if named else self.home / ".claude"

    @property
    def claude_state(self) -> Path:
        """Claude Code's state file, which moves with CLAUDE_CONFIG_DIR."""
        named = self.environ.get("CLAUDE_CONFIG_DIR")
        return Path(named) / ".claude.json" if named else self.home / ".claude.json"

    @property
    def codex_folder(self) -> Path:
        """Codex's configuration: CODEX_HOME, else ~/.codex."""
        named = self.environ.get("CODEX_HOME")
        return Path(named) if named else self.home / ".codex"

    def shown(self, path: Path) -> str:
        """A path as evidence shows it: the home shortened to `~`."""
        try:
            return f"~/{path.relative_to(self.home)}"
        except ValueError:
            return str(path)

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """The value of a computation that several checks share; it runs once, whoever asks first."""
        with self._lock:
            future = self._memo.get(key)
            mine = future is None
            if future is None:
                future = self._memo[key] = Future()
        if mine:
            try:
                future.set_result(compute())
            except BaseException as error:
                future.set_exception(error)
                raise
        return cast(T, future.result())

    def text(self, path: Path) -> str | None:
        """A small file's text, read once; None where there is none or it may not be read."""
        return self.once(("text", path), lambda: _text(path))

    def remember(self, key: Any, value: T) -> T:
        """Keep a value that was awaited, so that the next check finds it."""
        future: Future[Any] = Future()
        future.set_result(value)
        with self._lock:
            self._memo[key] = future
        return value

    def recall(self, key: Any) -> Any:
        """A value that was kept, or None."""
        with self._lock:
            future = self._memo.get(key)
        return future.result() if future is not None else None


def _text(path: Path) -> str | None:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_TEXT:
            return None
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return None
