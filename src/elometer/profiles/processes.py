"""Clients that are running now: they keep what they read at their start."""

from __future__ import annotations

import os
from pathlib import Path

from elometer.profiles.clients.files import PROGRAMS


def running_clients(tool: str) -> list[tuple[int, str]]:
    """Processes of the user that are this tool's client and so keep what they read at their start."""
    program = PROGRAMS.get(tool)
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if entry.stat().st_uid != os.geteuid():
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")[:2]
        except OSError:
            continue
        names = [Path(os.fsdecode(word)).name for word in words]
        if program in (names[0], *(names[1:] if names[0] in ("node", "bun", "deno") else ())):
            found.append((int(entry.name), str(program)))
    return sorted(found)
