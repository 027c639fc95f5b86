"""Each family: a clean set-up gives no warning, and each planted fault is named by its check and no other.

The faults are those of the founding text's sixth chapter and of real reports; what clients do with them was
measured with Claude Code 2.1.332 and Codex 0.171.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.checks.conftest import KEY, MODEL, OTHER_KEY, ROOT, World

from elometer.checks.context import ExperimentFacts, TerminalFacts
from elometer.profiles.model import Key, Profile

Experiment = Callable[..., ExperimentFacts]
CLAUDE = Profile(name="bt-claude", tool="claude-code", base_url=ROOT, key="bt-eval", model=MODEL)
CODEX = Profile(name="bt-codex", tool="codex", base_url=ROOT, key="bt-eval", model=MODEL)
OPENAI = Profile(name="bt-openai", tool="openai-compatible", base_url=ROOT, key="bt-eval", model=MODEL)
STORED = Key("bt-eval", "env:EVAL_KEY", {"allowed_models": [MODEL], "max_concurrency": 4})


def settings(world: World, place: str = ".claude/settings.json", **env: str) -> None:
    world.write(place, json.dumps({"env": env}))


def complaints(world: World) -> dict[str, str]:
    """Rows that warn or fail: id → status."""
    return {name: row.status for name, row in world.ask().items() if row.status in ("warn", "fail")}


def full_house(world: World) -> None:
    """A trio of profiles, live client files, start-up files and a terminal, all as they should be."""
    world.profiles, world.keys = (CLAUDE, CODEX, OPENAI), (STORED,)
    world.environ |= {"EVAL_KEY": KEY, "TERM": "xterm-256color", "OPENAI_BASE_URL": f"{ROOT}/v1"}
    world.terminal = TerminalFacts(120, 40, "utf-8")
    settings(world, ANTHROPIC_BASE_URL=ROOT, ANTHROPIC_MODEL=MODEL)
    world.write(
        ".codex/config.toml",
        f'model_provider = "t"\n[model_providers.t]\nbase_url = "{ROOT}/v1"\nenv_key = "EVAL_KEY"\n'
        'wire_api = "responses"\n',
    )
    world.write(".bashrc", f"export OPENAI_BASE_URL={ROOT}/v1\n# export ANTHROPIC_API_KEY=old\n")


def test_an_empty_home_has_twenty_rows_and_no_complaint(world: World) -> None:
    assert len(world.ask()) >= 20
    assert complaints(world) == {}


def test_a_clean_house_has_no_complaint(world: World) -> None:
    full_house(world)
    assert complaints(world) == {}


def test_a_clean_experiment_has_no_complaint(world: World, experiment: Experiment) -> None:
    full_house(world)
    experiment(profile=OPENAI)
    assert complaints(world) == {}


Plant = Callable[[World], Any]


def env(**values: str) -> Plant:
    return lambda world: world.environ.update(values)


def drop_key(world: World) -> None:
    del world.environ["EVAL_KEY"]


EXPERIMENT_FAULTS: list[tuple[str, Plant, dict[str, Any], dict[str, str]]] = [
    ("no key", drop_key, {}, {"key.set": "fail"}),
    ("placeholder", env(EVAL_KEY="YOUR_API_KEY"), {}, {"key.placeholder": "fail"}),
    ("newline", env(EVAL_KEY=KEY + "\n"), {}, {"key.format": "fail"}),
    ("inner space", env(EVAL_KEY=KEY[:9] + " " + KEY[9:]), {}, {"key.format": "fail"}),
    ("quotes", env(EVAL_KEY=f'"{KEY}"'), {}, {"key.format": "fail"}),
    ("Bearer twice", env(EVAL_KEY=f"Bearer {KEY}"), {}, {"key.format": "fail"}),
    ("zero width", env(EVAL_KEY=KEY + "\u200b"), {}, {"key.format": "fail"}),
    ("another vendor's key", env(EVAL_KEY="sk-ant-0123456789abcdef"), {}, {"key.vendor": "warn"}),
    (
        "expired",
        lambda world: None,
        {"boundary": {"expires_at": datetime(2026, 1, 1, tzinfo=UTC)}},
        {"key.expiry": "fail"},
    ),
    (
        "expires soon",
        lambda world: None,
        {"boundary": {"expires_at": datetime(2026, 11, 30, tzinfo=UTC)}},
        {"key.expiry": "warn"},
    ),
    ("query", lambda world: None, {"base_url": ROOT + "?x=1"}, {"url.form": "fail"}),
    ("no scheme", lambda world: None, {"base_url": "gateway.example/api"}, {"url.form": "fail"}),
    ("operation", lambda world: None, {"base_url": f"{ROOT}/v1/chat/completions"}, {"url.form": "fail"}),
    ("doubled version", lambda world: None, {"base_url": f"{ROOT}/v1/v1"}, {"url.form": "fail"}),
    ("two slashes", lambda world: None, {"base_url": "https://gateway.example//api"}, {"url.form": "fail"}),
    ("not the root", lambda world: None, {"base_url": f"{ROOT}/v1"}, {"url.version": "warn"}),
    ("http", lambda world: None, {"base_url": "http://gateway.example"}, {"url.encrypted": "warn"}),
    (
        "another host in the variable",
        env(TAOTOKEN_BASE_URL="https://other.example/api"),
        {},
        {"url.one-gateway": "warn"},
    ),
    ("placeholder model", lambda world: None, {"models": ("your-agent-model",), "boundary": {
        "allowed_models": ("your-agent-model",)}}, {"models.named": "fail"}),
    ("model out of scope", lambda world: None, {"models": ("other",)}, {"models.allowed": "fail"}),
    (
        "small fast model",
        env(ANTHROPIC_MODEL=MODEL, ANTHROPIC_DEFAULT_HAIKU_MODEL="mini"),
        {},
        {"models.leak": "warn"},
    ),
    ("32 at once", lambda world: None, {"boundary": {"max_concurrency": 32}}, {"limits.concurrency": "warn"}),
    (
        "stale variable beside the store",
        lambda world: setattr(world, "keys", (Key("bt-eval", "env:RIGHT"),)) or world.environ.update(RIGHT=OTHER_KEY),
        {},
        {"key.one-value": "warn"},
    ),
    (
        "two boundaries",
        lambda world: setattr(world, "keys", (Key("bt-eval", None, {"max_concurrency": 2}),)),
        {},
        {"limits.boundary": "warn"},
    ),
    (
        "key in live client file",
        lambda world: settings(world, ANTHROPIC_AUTH_TOKEN=KEY),
        {},
        {"key.alone": "warn"},
    ),
    (
        "key under two labels",
        lambda world: setattr(world, "keys", (Key("bt-eval", "env:EVAL_KEY"), Key("chat", "env:EVAL_KEY"))),
        {},
        {"key.alone": "warn"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("plant", "changes", "expected"),
    [row[1:] for row in EXPERIMENT_FAULTS],
    ids=[row[0] for row in EXPERIMENT_FAULTS],
)
def test_a_fault_of_an_experiment_is_named_alone(
    world: World, experiment: Experiment, plant: Plant, changes: dict[str, Any], expected: dict[str, str]
) -> None:
    experiment(**changes)
    plant(world)
    assert complaints(world) == expected


HOME_FAULTS: list[tuple[str, Plant, dict[str, str]]] = [
    (
        "two variables, one in the shell and one in settings",
        lambda world: (settings(world, ANTHROPIC_AUTH_TOKEN=KEY), world.environ.update(ANTHROPIC_API_KEY=OTHER_KEY)),
        {"key.one-variable": "warn"},
    ),
    (
        "settings beat the shell",
        lambda world: (settings(world, ANTHROPIC_BASE_URL=ROOT), world.environ.update(ANTHROPIC_BASE_URL="https://x.example")),
        {"environment.claude-code": "warn"},
    ),
    (
        "live Claude URL with /v1",
        lambda world: settings(world, ANTHROPIC_BASE_URL=f"{ROOT}/v1"),
        {"url.live": "warn"},
    ),
    ("OpenAI client with the bare root", env(OPENAI_BASE_URL=ROOT), {"url.live": "warn"}),
    ("empty OPENAI_BASE_URL", env(OPENAI_BASE_URL=""), {"url.live": "warn"}),
    ("OPENAI_API_BASE", env(OPENAI_API_BASE="https://x.example/v1"), {"environment.openai": "warn"}),
    (
        "Codex .env beats the shell",
        lambda world: (world.write(".codex/.env", f"TAOTOKEN_API_KEY={OTHER_KEY}\n"), world.environ.update(TAOTOKEN_API_KEY=KEY)),
        {"environment.codex": "warn"},
    ),
    (
        "Codex URL without /v1",
        lambda world: world.write(".codex/config.toml", f'[model_providers.t]\nbase_url = "{ROOT}"\n'),
        {"url.live": "warn"},
    ),
    (
        "Codex with wire_api chat",
        lambda world: world.write(".codex/config.toml", f'[model_providers.t]\nbase_url = "{ROOT}/v1"\nwire_api = "chat"\n'),
        {"models.wire-api": "warn"},
    ),
    (
        "login sent to another host",
        lambda world: world.write(
            ".codex/config.toml", f'[model_providers.t]\nbase_url = "{ROOT}/v1"\nrequires_openai_auth = true\n'
        ),
        {"environment.login": "warn"},
    ),
    (
        "primaryApiKey and a foreign URL",
        lambda world: (world.write(".claude.json", '{"primaryApiKey": "sk-planted-primary-1"}'), settings(world, ANTHROPIC_BASE_URL=ROOT)),
        {"environment.login": "warn"},
    ),
    ("comment in settings.json", lambda world: world.write(".claude/settings.json", "{// c\n}"), {"environment.files": "warn"}),
    ("broken config.toml", lambda world: world.write(".codex/config.toml", "a = [\n"), {"environment.files": "warn"}),
    (
        "stale start-up file",
        lambda world: (world.write(".bashrc", f"export ANTHROPIC_BASE_URL={ROOT}\n"), world.environ.update(ANTHROPIC_BASE_URL="https://old.example")),
        {"environment.startup-files": "warn"},
    ),
    ("Bedrock", env(CLAUDE_CODE_USE_BEDROCK="1"), {"environment.route": "warn"}),
    (
        "readable settings with a key",
        lambda world: world.write(".claude/settings.json", json.dumps({"env": {"ANTHROPIC_AUTH_TOKEN": KEY}}), mode=0o644),
        {"key.files": "warn"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("plant", "expected"), [row[1:] for row in HOME_FAULTS], ids=[row[0] for row in HOME_FAULTS]
)
def test_a_fault_of_the_home_is_named_alone(world: World, plant: Plant, expected: dict[str, str]) -> None:
    plant(world)
    assert complaints(world) == expected


def test_a_repository_that_redirects_the_key_is_named(world: World) -> None:
    place = world.folder / ".claude" / "settings.json"
    place.parent.mkdir()
    place.write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": "https://evil.example"}}))
    row = world.one("environment.project")
    assert row.status == "warn"
    assert any("evil.example" in line for line in row.result.evidence)


def test_a_claude_profile_with_v1_fails_and_names_its_root(world: World) -> None:
    world.profile = Profile(name="p", tool="claude-code", base_url=f"{ROOT}/v1", key="bt-eval")
    world.profiles, world.keys = (world.profile,), (STORED,)
    row = world.one("url.version")
    assert row.status == "fail"
    assert row.result.fix == f"elometer profile edit p --base-url {ROOT}"


def test_every_alias_of_claude_code_is_held_against_the_boundary(world: World) -> None:
    world.profile = Profile(
        name="p", tool="claude-code", base_url=ROOT, key="bt-eval", model=MODEL,
        env={"CLAUDE_CODE_SUBAGENT_MODEL": "other[1m]"},
    )  # fmt: skip
    world.profiles, world.keys = (world.profile,), (STORED,)
    row = world.one("models.leak")
    assert (row.status, row.result.evidence) == ("fail", ("p: CLAUDE_CODE_SUBAGENT_MODEL = other",))


def test_the_winner_is_marked_and_the_order_is_the_measured_one(world: World) -> None:
    world.environ["ANTHROPIC_BASE_URL"] = "https://shell.example"
    settings(world, ANTHROPIC_BASE_URL="https://user.example")
    local = world.folder / ".claude" / "settings.local.json"
    local.parent.mkdir()
    local.write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": "https://local.example"}}))
    lines = world.one("environment.claude-code").result.evidence
    assert [line.split(" = ")[1].split(" ")[0] for line in lines[:3]] == [
        "https://shell.example", "https://user.example", "https://local.example",
    ]  # fmt: skip
    assert [line[0] for line in lines[:3]] == [" ", " ", "→"]


def test_cmd_sources_are_never_run(world: World) -> None:
    marker = world.home / "ran"
    world.keys = (Key("k", f"cmd:touch {marker}"),)
    row = world.one("key.set")
    assert row.status == "pass"
    assert not marker.exists()


@pytest.mark.parametrize("form", ["{key}", " {key}\n", "https://user:{key}@gateway.example/api"])
def test_no_row_ever_holds_a_key(world: World, experiment: Experiment, form: str) -> None:
    names = (
        "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "TAOTOKEN_API_KEY", "ANTHROPIC_BASE_URL",
        "OPENAI_BASE_URL", "TAOTOKEN_BASE_URL", "HTTPS_PROXY", "ANTHROPIC_CUSTOM_HEADERS", "EVAL_KEY",
    )  # fmt: skip
    planted: list[str] = []

    def fresh() -> str:
        # Each place has a value of its own, so that none is masked only because another place knew it.
        planted.append(f"sk-planted-{len(planted):02d}-0123456789")
        return form.replace("{key}", planted[-1])

    world.environ |= {name: fresh() for name in names}
    settings(world, **{name: fresh() for name in names})
    world.write(".bashrc", "".join(f"export {name}='{fresh().strip()}'\n" for name in names))
    world.write(".codex/.env", f"OPENAI_API_KEY={fresh().strip()}\n")
    world.write(".codex/auth.json", json.dumps({"OPENAI_API_KEY": fresh()}))
    world.write(".claude.json", json.dumps({"primaryApiKey": fresh()}))
    experiment(base_url=fresh() if "://" in form else ROOT)
    shown = json.dumps([row.as_json() for row in world.ask().values()])
    assert [value for value in planted if value in shown] == []


@pytest.mark.parametrize(
    ("environ", "size", "expected"),
    [
        ({"TERM": "dumb"}, (120, 40), {"terminal.name", "terminal.colours"}),
        ({"TERM": "xterm-256color"}, (79, 24), {"terminal.size"}),
        ({"TERM": "vt100"}, (80, 24), {"terminal.colours"}),
        ({"TERM": "vt100", "NO_COLOR": "1"}, (80, 24), set()),
        ({"TERM": "xterm-256color", "STY": "1.x"}, (80, 24), {"terminal.clipboard"}),
        ({"TERM": "xterm-256color", "TMUX": "/x"}, (80, 24), set()),
    ],
)
def test_terminals(world: World, environ: dict[str, str], size: tuple[int, int], expected: set[str]) -> None:
    world.environ |= environ
    world.terminal = TerminalFacts(*size, "utf-8")
    assert set(complaints(world)) == expected


def test_a_locale_without_utf8_is_named(world: World) -> None:
    world.environ["LANG"] = "C"
    assert world.one("terminal.locale").status == "warn"


def test_boundary_of_the_store_counts_without_an_experiment(world: World) -> None:
    world.keys = (Key("old", "env:EVAL_KEY", {"expires_at": "2025-12-31"}),)
    world.environ["EVAL_KEY"] = KEY
    row = world.one("key.expiry")
    assert row.status == "warn"
    assert "2026-01-01T00:00:00" in row.result.cause


def test_an_experiment_without_a_label_owns_the_label_of_its_source(
    world: World, experiment: Experiment
) -> None:
    world.keys = (Key("main", "env:EVAL_KEY"),)
    experiment(key_label=None)
    assert complaints(world) == {}
