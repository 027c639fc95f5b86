"""Each planted fault, as a client takes it over, is named by its row and by no other; print the table with -s."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from elometer.core.errors import UsageError
from elometer.core.redact import redact
from elometer.gateway.demo.faults import RETIRED_KEY
from elometer.jobs.planted import PlantedDemo, known_faults, plant

# Fault → what the checks must say of it, and nothing else. A key that is refused leaves no answer to judge.
EXPECTED = {
    "two-auth-variables": {"key.one-variable": "warn"},
    "doubled-v1": {"url.version": "warn"},
    "missing-v1": {"url.live": "warn"},
    "model-out-of-scope": {"models.allowed": "fail", "live.models": "fail"},
    "429-storm": {"live.limits": "warn"},
    "small-fast-leak": {"models.leak": "warn"},
    "cached-replies": {"live.cache": "warn"},
    "stale-shell-variable": {"live.key": "fail", "key.one-value": "warn"},
    "quota-as-401": {"live.key": "fail"},
}
WORDS = {
    "two-auth-variables": "Claude Code sends both",
    "doubled-v1": "/v1",
    "missing-v1": "/v1",
    "model-out-of-scope": "demo-agent-mini",
    "429-storm": "refuses for load",
    "small-fast-leak": "demo-agent-mini",
    "cached-replies": "one reply under one id",
    "stale-shell-variable": "does not accept this key",
    "quota-as-401": "used up",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    import os

    for name in list(os.environ):
        if name not in ("PATH", "LANG", "PYTHONPATH", "TMPDIR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    # The user's own variables and files are not those of the make-believe client.
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-users-own-0123456789abcdef")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "sk-users-other-0123456789abcdef")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text("{ not json")
    yield tmp_path


def test_the_picker_has_all_nine() -> None:
    assert [row.id for row in known_faults()] == list(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_planted_fault_is_named_right_and_nothing_else_is(home: Path, name: str) -> None:
    found = plant(name, seed=7)
    named = {row.check.id: row.status for row in found.complaints}
    print(f"{name:<21} → " + ", ".join(f"{row} {status}" for row, status in named.items()))
    assert named == EXPECTED[name]
    assert found.blocked is ("fail" in named.values())
    first = found.complaints[0].result
    assert WORDS[name] in first.cause
    assert first.evidence
    assert first.fix
    _nothing_tells_the_simulation_or_a_key(found)


def _nothing_tells_the_simulation_or_a_key(found: PlantedDemo) -> None:
    text = "\n".join(
        " ".join((*row.result.evidence, row.result.cause, row.result.fix)) for row in found.complaints
    )
    assert RETIRED_KEY not in text
    assert redact(text) == text


def test_without_a_fault_nothing_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from elometer.gateway.demo import faults

    clean = faults.Fault("clean", "nothing is wrong")
    monkeypatch.setitem(faults.FAULTS, "clean", clean)
    monkeypatch.setattr("elometer.jobs.demo.planted_fault", lambda _experiment: None)
    found = plant("clean", seed=7)
    assert {row.check.id: row.result for row in found.complaints} == {}
    assert sum(row.status == "pass" for row in found.rows) > 30


def test_an_unknown_fault_is_refused_before_anything_is_written(home: Path) -> None:
    with pytest.raises(UsageError) as caught:
        plant("doubled-v2")
    assert "doubled-v1" in caught.value.fix
    assert not (home / "bt-eval").exists()


def test_no_check_reads_where_a_line_came_from() -> None:
    import elometer.checks.catalogue as catalogue

    assert catalogue.__file__ is not None
    for module in Path(catalogue.__file__).parent.glob("*.py"):
        assert "origin" not in module.read_text().replace("original", ""), module.name
