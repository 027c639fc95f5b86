"""The use case: contexts from the store and a file, the stricter boundary, what stops a start."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from elometer.checks.engine import Check, Result, Row
from elometer.core.errors import AccessError, UsageError
from elometer.core.limits import Boundary
from elometer.jobs.checks import (
    Question,
    build_context,
    live_cost_tokens,
    refuse_if_blocked,
    run_static,
    stricter,
)

KEY = "sk-planted-job-0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "ELOMETER_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def store(home: Path, text: str) -> None:
    folder = home / ".config" / "elometer"
    folder.mkdir(parents=True)
    (folder / "profiles.toml").write_text(text)
    (folder / "profiles.toml").chmod(0o600)


def founding(home: Path) -> Path:
    """The founding experiment as it stands."""
    file = home / "experiment.yaml"
    file.write_text(
        "experiment_id: bt-eval-001\ntaotoken:\n  base_url: https://taotoken.net/api\n"
        "  key_label: bt-eval-sample-k\n  key_boundary:\n    allowed_models:\n      - your-agent-model\n"
        "    daily_budget_tokens: 200000\n    max_concurrency: 4\n    expires_at: 2025-12-31\n"
        "agent:\n  framework: your-agent-framework\n  strategy: sample_k\n  k_values: [1, 2, 4, 8, 16]\n"
        "eval:\n  tasks:\n    - task-a\n    - task-b\n    - task-c\n  bradley_terry: true\n"
        "  elo_scale: 400\n  elo_base: 1000\n"
    )
    return file


def test_the_founding_experiment_is_expired_and_names_a_placeholder_model(home: Path) -> None:
    rows = run_static(Question(experiment=founding(home), environ={"TAOTOKEN_API_KEY": KEY}))
    assert {row.check.id for row in rows if row.status == "fail"} == {"key.expiry", "models.named"}
    with pytest.raises(AccessError, match="expired"):
        refuse_if_blocked(rows)


def test_the_stricter_of_two_boundaries_holds_in_every_field() -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    first = Boundary(("a", "b"), 100, None, late)
    second = Boundary(("b", "c"), 50, 4, early)
    for found in (stricter(first, second), stricter(second, first)):
        assert found == Boundary(("b",), 50, 4, early)
    assert stricter(Boundary(), second) == second


def test_the_store_bounds_an_experiment_that_names_its_label(home: Path) -> None:
    store(
        home,
        '[keys.bt-eval-sample-k]\nsource = "env:K"\n[keys.bt-eval-sample-k.boundary]\nmax_concurrency = 2\n',
    )
    context = build_context(Question(experiment=founding(home), environ={"K": KEY}))
    assert context.experiment is not None
    assert (context.experiment.stated.max_concurrency, context.experiment.boundary.max_concurrency) == (4, 2)


def test_a_store_that_cannot_be_read_is_a_row_and_no_crash(home: Path) -> None:
    store(home, "not toml [")
    rows = {row.check.id: row for row in run_static(Question(environ={}))}
    assert rows["environment.store"].status == "fail"


def test_a_faulty_experiment_is_an_error_with_its_line(home: Path) -> None:
    file = home / "experiment.yaml"
    file.write_text("experiment_id: a\ngateway: {base_urll: x}\n")
    with pytest.raises(UsageError) as caught:
        run_static(Question(experiment=file, environ={}))
    assert "experiment.yaml:2" in caught.value.evidence


def test_only_and_known_ask_one_row_again(home: Path) -> None:
    (row,) = run_static(Question(environ={}), only=("url.version",), known={"url.form": "fail"})
    assert row.result.evidence == ("not asked: url.form failed",)


def test_nothing_is_asked_after_cancelling(home: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    assert run_static(Question(environ={}), cancelled=cancelled) == []


def test_warnings_do_not_stop_a_start() -> None:
    check = Check("a", "key", "?", 0, lambda _context: Result("pass"))
    refuse_if_blocked([Row(check, Result("warn", (), "cause", "fix")), Row(check, Result("unknown"))])


def test_the_cost_of_live_checks_is_that_of_one_probe() -> None:
    assert live_cost_tokens() == live_cost_tokens(("live.reach",)) == 300
    assert live_cost_tokens(("key.set",)) == 0


def test_two_boundaries_without_a_common_model_allow_none_of_the_first() -> None:
    bound = stricter(Boundary(allowed_models=("a", "b")), Boundary(allowed_models=("c",)))
    assert bound.allowed_models == ("c",)  # an empty list would mean that every model is allowed
