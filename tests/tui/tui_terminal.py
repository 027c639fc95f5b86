"""The app in a terminal of its own: a pty whose bytes are counted.

As a program: `python tests/tui/tui_terminal.py FOLDER|- PANE` runs the app with stand-ins for the use cases.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

QUIET_S = 1.2


class TerminalRun:
    """A child on a pty; `read_for` drains it and counts."""

    def __init__(
        self, folder: Path | None, pane: str, size: tuple[int, int], environ: Mapping[str, str]
    ) -> None:
        self.screen = b""
        here = Path(__file__).resolve()
        arguments = [sys.executable, str(here), str(folder or "-"), pane]
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ.update(
                {"TERM": "xterm-256color", "COLUMNS": str(size[0]), "LINES": str(size[1]), **environ}
            )
            for name in ("COLORTERM", "NO_COLOR") if "NO_COLOR" not in environ else ("COLORTERM",):
                os.environ.pop(name, None)
            os.execv(sys.executable, arguments)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    def read_for(self, seconds: float) -> bytes:
        """What comes within some seconds."""
        end = time.monotonic() + seconds
        got = []
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self.fd], [], [], left)
            if not ready:
                break
            try:
                data = os.read(self.fd, 65_536)
            except OSError:
                break
            if not data:
                break
            got.append(data)
        self.screen += b"".join(got)
        return b"".join(got)

    def settle(self, marker: bytes, limit: float = 30.0) -> None:
        """Read until a text was drawn and nothing came for a while."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if not self.read_for(QUIET_S) and marker in self.screen:
                return
        raise TimeoutError(self.screen[-2_000:].decode(errors="replace"))

    def wait_for(self, marker: bytes, limit: float = 30.0) -> None:
        """Read until a text was drawn."""
        end = time.monotonic() + limit
        while marker not in self.screen:
            if time.monotonic() > end:
                raise TimeoutError(self.screen[-2_000:].decode(errors="replace"))
            self.read_for(0.1)

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self.fd, keys)

    def close(self) -> None:
        """End the child, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


if __name__ == "__main__":
    from tui_stand_ins import StandIns, made_up_fit

    from elometer.tui.app import ElometerApp
    from elometer.tui.terminal import read_terminal

    folder = None if sys.argv[1] == "-" else Path(sys.argv[1])
    terminal = read_terminal(os.environ)
    app = ElometerApp(folder, verbs=StandIns(fit=made_up_fit()), terminal=terminal, first=sys.argv[2])
    said = app.run(mouse=terminal.mouse)
    print(said)
