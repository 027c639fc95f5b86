"""Whatever stands in a client's file, the checks answer: none breaks, none takes another with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.checks.conftest import World

FILES = (
    ".claude/settings.json", ".claude.json", ".codex/config.toml", ".codex/auth.json", ".codex/.env", ".bashrc",
    ".config/fish/config.fish",
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("env", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "primaryApiKey", "apiKeyHelper", "x")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
TABLE = st.sampled_from(
    (
        "model_providers = 3\n",
        "[model_providers]\nt = 1\n",
        "[model_providers.t]\nbase_url = 3\nwire_api = []\n",
        '[model_providers.t]\nenv_key = ["K"]\nrequires_openai_auth = "yes"\n',
        "a = [\n",
        "\ufeff# only a mark\n",
        '[model_providers.t]\nbase_url = "http://[::1"\nrequires_openai_auth = true\n',
    )
)


def broken(world: World) -> list[str]:
    return [line for row in world.ask().values() for line in row.result.evidence if "itself broke" in line]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(document=JSON, other=JSON, table=TABLE)
def test_any_json_and_odd_toml(world: World, document: object, other: object, table: str) -> None:
    world.write(".claude/settings.json", json.dumps(document))
    world.write(".claude.json", json.dumps(other))
    world.write(".codex/auth.json", json.dumps(other))
    world.write(".codex/config.toml", table)
    assert broken(world) == []


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.binary(max_size=120), url=st.text(max_size=30).filter(lambda text: "\0" not in text))
def test_any_bytes_and_any_url(world: World, data: bytes, url: str) -> None:
    for name in FILES:
        world.write(name, "")
        (world.home / name).write_bytes(data)
    names = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "TAOTOKEN_BASE_URL", "HTTPS_PROXY")
    world.environ |= dict.fromkeys(names, url)
    assert broken(world) == []


@pytest.mark.parametrize("name", FILES)
def test_a_folder_or_an_unreadable_file_in_its_place(world: World, name: str, tmp_path: Path) -> None:
    (world.home / name).mkdir(parents=True)
    assert broken(world) == []
