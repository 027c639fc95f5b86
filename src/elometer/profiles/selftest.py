"""The leak self-test: a profile's real client against a loopback recorder, with a make-believe key."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from elometer.core import atomic
from elometer.core.text import gettext as _
from elometer.profiles import environment
from elometer.profiles.clients import claude_code, codex, openai_compatible
from elometer.profiles.model import Profile
from elometer.profiles.recorder import Recorder, Sighting

TIMEOUT_S = 90
PLANTED = "the profile's key"
PROMPT = "Say ok."
_OPENAI_CALL = (
    "import os; from openai import OpenAI; "
    "OpenAI(max_retries=0).chat.completions.create("
    "model=os.environ.get('OPENAI_MODEL') or 'm', messages=[{'role': 'user', 'content': 'Say ok.'}])"
)


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What was seen. `unknown` where the client is not there or made no request: that is never a pass."""

    profile: str
    tool: str
    status: Literal["pass", "fail", "unknown"]
    reason: str
    exit_code: int | None
    sightings: tuple[Sighting, ...]


def commands(profile: Profile, environ: Mapping[str, str]) -> list[str] | None:
    """The headless call of the tool's real client; None where it is not installed."""
    path = environ.get("PATH")
    if profile.tool == claude_code.TOOL:
        words = ["claude", "-p", PROMPT, "--output-format", "json", "--no-session-persistence"]
        return words if shutil.which("claude", path=path) else None
    if profile.tool == codex.TOOL:
        words = ["codex", "exec", "--json", "--skip-git-repo-check", "--ephemeral", "-s", "read-only", PROMPT]
        return words if shutil.which("codex", path=path) else None
    for python in (sys.executable, shutil.which("python3", path=path)):
        if python and _has_openai(python):
            return [python, "-c", _OPENAI_CALL]
    return None


def _has_openai(python: str) -> bool:
    probe = [python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('openai') is None)"]
    return subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def self_test(
    profile: Profile,
    environ: Mapping[str, str],
    *,
    planted: Mapping[str, str] | None = None,
    command: Sequence[str] | None = None,
) -> SelfTest:
    """Run the profile's client as `profile exec` would, with the recorder as its gateway and as its proxy.

    The key is made up for this run. `planted` names further values to look for (a test's stale keys).
    """
    words = command if command is not None else commands(profile, environ)
    if words is None:
        reason = _("The client is not installed, so nothing could be seen.")
        return SelfTest(profile.name, profile.tool, "unknown", reason, None, ())
    key = f"elometer-selftest-{secrets.token_hex(12)}"
    with Recorder({key: PLANTED, **(planted or {})}) as recorder:
        url_variables = (claude_code.URL, openai_compatible.URL)
        env = {name: value for name, value in profile.env.items() if name not in url_variables}
        tested = replace(profile, base_url=recorder.root, env=env)
        launch = environment.launch(tested, key, environ, words)
        if launch.private is not None:
            atomic.make_private_folder(launch.private)
        proxies = dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), recorder.address)
        child = {**launch.env, **proxies, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        code = _run(launch.argv, child)
        host = recorder.address.removeprefix("http://")
        seen = tuple(recorder.sightings)
    status, reason = _verdict(seen, host, code)
    return SelfTest(profile.name, profile.tool, status, reason, code, seen)


def _run(argv: Sequence[str], env: Mapping[str, str]) -> int | None:
    """Run to the end or to the time limit; the whole process group is ended then. None: it did not end."""
    process = subprocess.Popen(
        list(argv),
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _verdict(
    seen: Sequence[Sighting], host: str, code: int | None
) -> tuple[Literal["pass", "fail", "unknown"], str]:
    """Exactly one credential, the profile's, on exactly one host; without a request nothing is known."""
    outside = sorted({s.host for s in seen if s.outside or s.host != host})
    carried = {credential for s in seen for credential in s.credentials}
    foreign = sorted({whose for _header, whose in carried if whose != PLANTED})
    if foreign:
        return "fail", _("A credential that is not the profile's was sent: {w}").format(w=", ".join(foreign))
    if outside:
        return "fail", _("Another host was asked for: {hosts}").format(hosts=", ".join(outside))
    if not carried:
        return "unknown", _("The client sent no credential (exit code {code}).").format(code=code)
    if len({header for header, _whose in carried}) > 1:
        headers = ", ".join(sorted(header for header, _whose in carried))
        return "fail", _("The key was sent in more than one header: {h}").format(h=headers)
    bare = [s for s in seen if s.method == "POST" and not s.credentials]
    if bare:
        return "fail", _("A call went out without the key: {path}").format(path=bare[0].path)
    return "pass", _("One credential, in {header}, to one host.").format(header=next(iter(carried))[0])
