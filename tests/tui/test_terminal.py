import pytest

from elometer.tui.terminal import ANSI, read_terminal
from elometer.tui.themes import DEFAULT

FULL = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("environ", "theme"),
    [
        (FULL, DEFAULT),
        ({"TERM": "xterm"}, ANSI),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, DEFAULT),
        ({**FULL, "NO_COLOR": "1"}, ANSI),
        ({**FULL, "NO_COLOR": ""}, ANSI),
        ({**FULL, "ELOMETER_THEME": "elometer-light"}, "elometer-light"),
        ({}, ANSI),
    ],
)
def test_theme_follows_what_the_terminal_can_show(environ: dict[str, str], theme: str) -> None:
    assert read_terminal(environ).theme == theme


def test_mouse_is_left_to_the_terminal_over_ssh_unless_asked_for() -> None:
    assert read_terminal(FULL).mouse
    assert not read_terminal({**FULL, "SSH_CONNECTION": "a 1 b 2"}).mouse
    assert read_terminal({**FULL, "SSH_CONNECTION": "a 1 b 2", "ELOMETER_MOUSE": "1"}).mouse


def test_slow_link_lowers_the_rate() -> None:
    assert read_terminal(FULL).pull_seconds == 0.25
    assert read_terminal({**FULL, "ELOMETER_SLOW_LINK": "1"}).pull_seconds == 1.0
    assert read_terminal({**FULL, "ELOMETER_SLOW_LINK": "0"}).pull_seconds == 0.25
