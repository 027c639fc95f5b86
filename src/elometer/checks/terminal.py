"""Checks of the terminal: what the screens need, and what a weak one takes away."""

from __future__ import annotations

from elometer.checks.context import Context
from elometer.checks.engine import Check, Result, passed, unknown
from elometer.core.text import gettext as _

COLUMNS, ROWS = 80, 24


def name_is_known(context: Context) -> Result:
    """TERM names a terminal."""
    if context.terminal is None:
        return _no_terminal()
    term = context.environ.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        return Result(
            "warn",
            (f"TERM = {term or _('(not set)')}",),
            _("TERM names no terminal."),
            "export TERM=xterm-256color",
        )
    return passed(f"TERM = {term}")


def is_large_enough(context: Context) -> Result:
    """80 × 24 or more."""
    if context.terminal is None:
        return _no_terminal()
    size = f"{context.terminal.columns} × {context.terminal.rows}"
    if context.terminal.columns < COLUMNS or context.terminal.rows < ROWS:
        return Result(
            "warn",
            (size,),
            _("The screens need {c} × {r}.").format(c=COLUMNS, r=ROWS),
            _("Enlarge the window, or use --plain."),
        )
    return passed(size)


def has_colours(context: Context) -> Result:
    """256 colours or more, unless colours are unwanted."""
    if context.terminal is None:
        return _no_terminal()
    term, depth = context.environ.get("TERM", ""), context.environ.get("COLORTERM", "")
    line = f"TERM = {term} · COLORTERM = {depth or _('(not set)')}"
    if context.environ.get("NO_COLOR"):
        return passed(line, _("NO_COLOR is set: screens use no colour"))
    rich = "256" in term or depth in ("truecolor", "24bit") or term.startswith(("xterm-", "tmux", "screen-"))
    if not rich:
        return Result(
            "warn", (line,), _("The terminal may show 8 or 16 colours only."), "export TERM=xterm-256color"
        )
    return passed(line)


def text_is_utf8(context: Context) -> Result:
    """The locale's encoding, without which signs and Chinese names break."""
    wanted = next(
        (context.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if context.environ.get(name)), ""
    )
    line = f"locale {wanted or _('(not set)')}"
    encoding = context.terminal.encoding if context.terminal else ""
    utf8 = "utf8" in wanted.lower().replace("-", "")
    if not utf8 and "utf8" not in encoding.lower().replace("-", ""):
        return Result("warn", (line,), _("The locale is not UTF-8."), "export LANG=C.UTF-8")
    return passed(line)


def clipboard_passes(context: Context) -> Result:
    """OSC 52 through tmux and screen, which is how `y` copies over SSH."""
    if context.terminal is None:
        return _no_terminal()
    if context.environ.get("TMUX"):
        return passed(_("inside tmux: copying needs set-clipboard on"), "$ tmux show -s set-clipboard")
    if context.environ.get("STY"):
        return Result(
            "warn",
            ("STY is set",),
            _("GNU screen does not pass the clipboard on."),
            _("Use tmux with 'set -s set-clipboard on', or select with the mouse."),
        )
    return passed(_("no multiplexer between app and terminal"))


def _no_terminal() -> Result:
    return unknown(_("no terminal: output goes to a file or a pipe"))


CHECKS = (
    Check("terminal.name", "terminal", "Does TERM name a terminal?", 0, name_is_known),
    Check("terminal.size", "terminal", "Is the terminal large enough?", 0, is_large_enough),
    Check("terminal.colours", "terminal", "Does it show colours?", 0, has_colours),
    Check("terminal.locale", "terminal", "Is the locale UTF-8?", 0, text_is_utf8),
    Check("terminal.clipboard", "terminal", "Can the app copy text?", 0, clipboard_passes),
)
