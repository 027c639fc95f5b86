"""A home that is thrown away: no test reads or writes the real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOREIGN = ("ANTHROPIC_", "CLAUDE_", "OPENAI_", "CODEX_", "TAOTOKEN_", "XDG_", "ELOMETER_")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME in a temporary folder, no client variables, the working folder outside any repository."""
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    folder = tmp_path / "home"
    work = tmp_path / "work"
    folder.mkdir(mode=0o700)
    work.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(work)
    return folder


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for the disk: what a killed process wrote is there without it, only a power cut needs it."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def founding() -> Path:
    """The founding text's own files."""
    return Path(__file__).parent.parent / "fixtures" / "founding"
