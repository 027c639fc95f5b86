"""kill -9 at any line of a switch or an undo: the live file is whole, and undo still reaches the first bytes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from elometer.core.errors import UsageError
from elometer.jobs import profiles as job
from elometer.profiles.model import Key, Profile
from elometer.profiles.store import Store

PRISTINE = b'\xef\xbb\xbf{\r\n  "hooks": {"Stop": []},\r\n  "env": {"FOO": "1"}\r\n}\r\n'


def _lines_of(action: Callable[[], None], stop_at: int | None) -> int:
    """Run `action` in a child that kills itself at the n-th line executed; without n count the lines."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        count = 0

        def trace(frame: object, event: str, _arg: object) -> Callable[..., object]:
            nonlocal count
            if event == "line":
                count += 1
                if count == stop_at:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        try:
            sys.settrace(trace)
            action()
            sys.settrace(None)
            os.write(writer, str(count).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return int(pipe.read() or 0)


def _prepare(home: Path) -> Path:
    """A home with a file of the user's own, switched once; what follows is the second switch or its undo."""
    path = home / ".claude/settings.json"
    path.parent.mkdir()
    path.write_bytes(PRISTINE)
    path.chmod(0o644)
    with Store.editing() as store:
        store.set_key(Key("a", "env:A_KEY"))
        for name in ("one", "two"):
            store.add(Profile(name=name, tool="claude-code", base_url=f"https://{name}.example", key="a"))
    job.apply(job.preview_switch("one"))
    return path


def _back_to_pristine(path: Path) -> None:
    for _step in range(4):
        try:
            job.apply(job.preview_undo())
        except UsageError:
            break
    assert path.read_bytes() == PRISTINE
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [entry.name for entry in path.parent.iterdir()] == ["settings.json"]


def _kill_at_random_points(home: Path, tmp_path: Path, points: int) -> None:
    path = _prepare(home)
    switch = lambda: job.apply(job.preview_switch("two"))  # noqa: E731
    undo = lambda: job.apply(job.preview_undo())  # noqa: E731
    once = path.read_bytes()
    saved = {"switch": tmp_path / "before-switch", "undo": tmp_path / "before-undo"}
    shutil.copytree(home, saved["switch"])
    switch()
    twice = path.read_bytes()
    assert json.loads(twice.decode("utf-8-sig"))["env"]["ANTHROPIC_BASE_URL"] == "https://two.example"
    shutil.copytree(home, saved["undo"])
    draw = random.Random(20261129)
    for name, action in (("switch", switch), ("undo", undo)):
        _restore(home, saved[name])
        total = _lines_of(action, None)
        assert total > 100
        for _point in range(points // 2):
            _restore(home, saved[name])
            _lines_of(action, draw.randint(1, total))
            assert path.read_bytes() in (once, twice)
            json.loads((home / ".local/state/elometer/switch/journal.json").read_bytes())
            _back_to_pristine(path)


def _restore(home: Path, saved: Path) -> None:
    shutil.rmtree(home)
    shutil.copytree(saved, home)


@pytest.fixture
def key_home(home: Path, quick_disk: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("A_KEY", "sk-A-0123456789abcdef")
    return home


def test_killed_at_50_random_lines(key_home: Path, tmp_path: Path) -> None:
    _kill_at_random_points(key_home, tmp_path, 50)


@pytest.mark.slow
def test_killed_at_200_random_lines(key_home: Path, tmp_path: Path) -> None:
    _kill_at_random_points(key_home, tmp_path, 200)
