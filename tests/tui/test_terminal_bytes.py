"""What goes over the wire, counted on a pty: idle is silence, running has a budget, leaving restores."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tui_story
from tui_terminal import TerminalRun

Open = Callable[..., TerminalRun]


@pytest.fixture
def open_terminal() -> Iterator[Open]:
    opened: list[TerminalRun] = []

    def make(
        folder: Path | None, pane: str, size: tuple[int, int] = (120, 36), **environ: str
    ) -> TerminalRun:
        opened.append(TerminalRun(folder, pane, size, environ))
        return opened[-1]

    yield make
    for run in opened:
        run.close()


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    return tui_story.write_story(tmp_path / "work" / "demo", tui_story.story(tasks=2, runs=1))


def test_an_idle_app_sends_nothing(open_terminal: Open, ended: Path) -> None:
    terminal = open_terminal(ended, "run")
    terminal.settle(b"complete")
    assert terminal.read_for(1.0) == b""


@pytest.mark.slow
@pytest.mark.parametrize("pane", ["profiles", "run", "ledger", "fit", "checks"])
def test_every_pane_is_silent_for_five_seconds(open_terminal: Open, ended: Path, pane: str) -> None:
    terminal = open_terminal(ended, pane)
    terminal.settle(b"complete")
    assert terminal.read_for(5.0) == b""


@pytest.mark.slow
def test_a_running_start_keeps_to_six_kilobytes_a_second(open_terminal: Open, tmp_path: Path) -> None:
    folder = tmp_path / "work" / "demo"
    stop = threading.Event()
    writer = threading.Thread(target=tui_story.replay, args=(folder, 1.0, stop), daemon=True)
    writer.start()
    try:
        while not (folder / "events.jsonl").exists():
            time.sleep(0.05)
        terminal = open_terminal(folder, "run")
        terminal.wait_for(b"sample_16")
        terminal.read_for(2.0)
        seconds = 10.0
        began = time.monotonic()
        sent = 0
        while time.monotonic() - began < seconds:
            sent += len(terminal.read_for(0.2))
        assert 500 < sent / seconds <= 6_000, f"{sent / seconds:.0f} bytes a second"
    finally:
        stop.set()
        writer.join()


@pytest.mark.slow
@pytest.mark.parametrize("key", [b"1", b"3", b"4", b"5"])
def test_a_pane_switch_fits_in_fifteen_kilobytes(open_terminal: Open, ended: Path, key: bytes) -> None:
    terminal = open_terminal(ended, "run")
    terminal.settle(b"complete")
    terminal.press(key)
    first = len(terminal.read_for(1.5))  # once: the pane is made, then filled by what is read in threads
    terminal.press(b"2")
    back = len(terminal.read_for(1.5))
    terminal.press(key)
    again = len(terminal.read_for(1.5))
    assert 0 < again <= 15_000, again
    assert back <= 15_000, back
    assert first <= 30_000, first


@pytest.mark.slow
def test_no_color_sends_no_colour(open_terminal: Open, ended: Path) -> None:
    terminal = open_terminal(ended, "run", NO_COLOR="1")
    terminal.settle(b"complete")
    codes = [
        code
        for found in re.findall(rb"\x1b\[([\d;]*)m", terminal.screen)
        for code in found.split(b";")
        if code
    ]
    coloured = [
        code for code in codes if int(code) not in (39, 49) and (30 <= int(code) <= 48 or int(code) >= 90)
    ]
    assert coloured == []
    assert b"7" in codes, "the current pane is shown by reverse"


@pytest.mark.slow
def test_sixteen_colours_stay_sixteen(open_terminal: Open, ended: Path) -> None:
    terminal = open_terminal(ended, "run", TERM="xterm")
    terminal.settle(b"complete")
    assert not re.search(rb"\x1b\[[\d;]*[34]8;[25];", terminal.screen)


def test_leaving_restores_the_terminal_and_prints_the_files(open_terminal: Open, ended: Path) -> None:
    terminal = open_terminal(ended, "run", (80, 24))
    terminal.settle(b"complete")
    terminal.press(b"q")
    terminal.read_for(5.0)
    tail = terminal.screen[terminal.screen.rindex(b"\x1b[?1049l") :]
    assert str(ended).encode()[:40] in tail
    for switched_off in (b"\x1b[?25h", b"\x1b[?2004l"):
        assert switched_off in terminal.screen[-4_000:]


@pytest.mark.slow
def test_over_ssh_the_mouse_stays_with_the_terminal(open_terminal: Open, ended: Path) -> None:
    terminal = open_terminal(ended, "run", (80, 24), SSH_CONNECTION="10.0.0.1 50000 10.0.0.2 22")
    terminal.settle(b"complete")
    assert b"\x1b[?1000h" not in terminal.screen
    assert b"\x1b[?1003h" not in terminal.screen
