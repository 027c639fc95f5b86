"""A switch costs about as much as reading its file: against json on settings.json, tomlkit on config.toml."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tomlkit

from elometer.profiles.clients import claude_code, codex
from elometer.profiles.model import Profile

pytestmark = pytest.mark.benchmark
ROUNDS = 15


def _settings() -> bytes:
    """About 2,000 lines, as such files grow: permissions, hooks, plugins, variables."""
    allow = [f"Bash(git log --oneline -{n} -- src/package_{n}/*)" for n in range(1200)]
    hooks = [
        {"matcher": f"Tool{n}", "hooks": [{"type": "command", "command": f"run {n}"}]} for n in range(60)
    ]
    env = {f"VARIABLE_{n}": f"value {n}" for n in range(200)}
    settings = {"permissions": {"allow": allow}, "hooks": {"PreToolUse": hooks}, "env": env}
    text = json.dumps(settings, indent=2) + "\n"
    assert 1_900 < text.count("\n") < 2_400
    return text.encode()


def _config() -> bytes:
    """2,000 lines of comments, server tables and trusted projects."""
    lines = ['model = "m"', 'model_provider = "x"', ""]
    for n in range(200):
        lines += [f"# server {n}", f"[mcp_servers.s{n}]", f'command = "run-{n}"', 'args = ["a", "b"]', ""]
        lines += [f'[projects."/srv/{n}"]', 'trust_level = "trusted"', f"note = 'n{n}'  # kept", "", ""]
    text = "\n".join(lines) + "\n"
    assert 1_900 < text.count("\n") < 2_400
    return text.encode()


def _ratio(ours: Callable[[], object], peer: Callable[[], object]) -> float:
    """The median of paired ratios: both take turns, so that a busy machine slows both."""
    ratios = []
    for _round in range(ROUNDS):
        marks = [time.perf_counter()]
        for call in (ours, peer):
            call()
            marks.append(time.perf_counter())
        ratios.append((marks[1] - marks[0]) / (marks[2] - marks[1]))
    return statistics.median(ratios)


def _diff_and_switch(client: object, data: bytes, profile: Profile) -> bytes:
    """All that a switch does with a file's bytes: read the fields, compare, splice, read back."""
    now = client.read_fields(data)  # type: ignore[attr-defined]
    wanted = client.wanted_fields(profile, "sk-benchmark-0123456789")  # type: ignore[attr-defined]
    changes = {name: value for name, value in wanted.items() if now.get(name) != value}
    after = client.write_fields(data, changes)  # type: ignore[attr-defined]
    assert after != data
    return bytes(after)


def test_json_switch_costs_at_most_three_times_loads_and_dumps(tmp_path: Path) -> None:
    data = _settings()
    profile = Profile(name="p", tool="claude-code", base_url="https://g", model="m")
    text = data.decode()
    ratio = _ratio(lambda: _diff_and_switch(claude_code, data, profile), lambda: json.dumps(json.loads(text)))
    print(f"\nJSON: {ratio:.2f} × loads + dumps")
    assert ratio <= 3


def test_toml_switch_costs_at_most_one_and_a_half_tomlkit_parses() -> None:
    data = _config()
    profile = Profile(name="p", tool="codex", base_url="https://g", model="n")
    text = data.decode()
    ratio = _ratio(lambda: _diff_and_switch(codex, data, profile), lambda: tomlkit.parse(text))
    print(f"\nTOML: {ratio:.2f} × one tomlkit parse")
    assert ratio <= 1.5
