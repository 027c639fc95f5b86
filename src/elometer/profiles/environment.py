"""A child's environment built from empty, and the lines that bring a profile into a running shell."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from elometer.core import paths
from elometer.profiles.clients import claude_code, codex, openai_compatible
from elometer.profiles.clients.files import PROGRAMS
from elometer.profiles.clients.launch import Launch, home_of
from elometer.profiles.model import Profile
from elometer.profiles.validate import family

Variables = Callable[[Profile, str], dict[str, str]]
LAUNCHES: Mapping[str, Callable[..., Launch]] = {
    claude_code.TOOL: claude_code.launch,
    codex.TOOL: codex.launch,
    openai_compatible.TOOL: openai_compatible.launch,
}
VARIABLES: Mapping[str, Variables] = {
    claude_code.TOOL: claude_code.variables,
    codex.TOOL: codex.variables,
    openai_compatible.TOOL: openai_compatible.variables,
}

# What a child keeps of our own environment. Everything else, known or not, stays behind: a list of what to
# remove would always lack the variable that the next vendor invents.
KEPT = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *("TERM", "TERM_PROGRAM", "TERMINFO", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES", "TMUX", "STY"),
    *("EDITOR", "VISUAL", "PAGER", "LESS", "SSH_AUTH_SOCK", "SSH_CONNECTION", "SSH_TTY"),
    *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "VIRTUAL_ENV", "ELOMETER_HOME"),
)

# Names that are unset in a shell whether they are there now or not: the shell may get them later.
KNOWN = (
    *claude_code.OWNED,
    *claude_code.OVERRIDES,
    *("CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST", "CLAUDE_CODE_SKIP_BEDROCK_AUTH", "ANTHROPIC_API_BASE"),
    *codex.OVERRIDES,
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_MODEL"),
    *("OPENAI_ORGANIZATION", "OPENAI_ORG_ID", "OPENAI_PROJECT", "OPENAI_PROJECT_ID"),
)
# Folders are no part of a family's routing: unsetting them would hide the user's own files.
_FOLDERS = (claude_code.HOME_VARIABLE, codex.HOME_VARIABLE)


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Our own environment reduced to what every program may know."""
    return {
        name: value
        for name, value in environ.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in KEPT)
    }


def private_folder(profile: Profile) -> Path:
    """The folder that a client gets for a profile in place of its usual one."""
    return paths.state_folder() / "clients" / profile.tool / profile.name


def launch(profile: Profile, key: str, environ: Mapping[str, str], command: Iterable[str]) -> Launch:
    """A start of `command` under a profile: clean environment, private folder, the client's own recipe.

    An empty command means the tool's own client, or the user's shell where it has none.
    """
    base = {**clean_environment(environ), "ELOMETER_PROFILE": profile.name}
    words = list(command) or [PROGRAMS.get(profile.tool) or environ.get("SHELL") or "/bin/sh"]
    return LAUNCHES[profile.tool](profile, key, base, private_folder(profile), words)


def unset_names(
    profile: Profile, others: Iterable[Profile], environ: Mapping[str, str], sources: Iterable[str] = ()
) -> list[str]:
    """Variables to take out of a shell before a profile's own go in: all families, other profiles' keys.

    `sources` are variables that our own keys are read from; they stay, unless a client reads them by itself.
    """
    kept = {*VARIABLES[profile.tool](profile, ""), *(set(sources) - set(KNOWN))}
    live = (name for name in environ if family(name) is not None and name not in _FOLDERS)
    keys = (other.key_variable for other in others)
    return sorted({*KNOWN, *live, *keys} - kept)


def quote_posix(value: str) -> str:
    """One word for sh, bash and zsh, whatever is in it."""
    return "'" + value.replace("'", "'\\''") + "'"


def quote_fish(value: str) -> str:
    """One word for fish, whatever is in it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def shell_lines(unset: Iterable[str], exports: Mapping[str, str], shell: str = "sh") -> str:
    """Text for `eval`: what to forget, then what to know. Other families go first, so that nothing mixes."""
    if shell == "fish":
        lines = [f"set -e {name}" for name in unset]
        lines += [f"set -gx {name} {quote_fish(value)}" for name, value in exports.items()]
    else:
        lines = [f"unset {name}" for name in unset]
        lines += [f"export {name}={quote_posix(value)}" for name, value in exports.items()]
    return "".join(line + "\n" for line in lines)


_RC_FILES = (
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".config/fish/config.fish",
)
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+|set\s+-\w+\s+)?([A-Z][A-Z0-9_]*)(?:=|\s)", re.MULTILINE)


def rc_assignments(environ: Mapping[str, str], names: Iterable[str] = KNOWN) -> list[tuple[Path, str]]:
    """Start-up files of shells that set one of `names`: a new shell has it again. Only read."""
    wanted = set(names)
    found = []
    for name in _RC_FILES:
        path = home_of(environ) / name
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found += [(path, variable) for variable in _ASSIGNMENT.findall(text) if variable in wanted]
    return list(dict.fromkeys(found))
