"""Static checks of a home with 20 profiles, 5 layers and a 100 MB ledger, against reading that ledger once."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pytest

from elometer.core.attempt import Attempt
from elometer.jobs.checks import Question, run_static
from elometer.ledger.reader import read_attempts

LEDGER_BYTES = 100_000_000
TIMES = 3


def fill(path: Path) -> None:
    """A plain ledger of calls that all went well."""
    path.parent.mkdir(parents=True)
    size = number = 0
    with path.open("wb") as file:
        while size < LEDGER_BYTES:
            second = number // 20
            attempt = Attempt(
                experiment_id="exp", strategy=f"sample_{1 << number % 5}", task=f"t{number % 200}", run=1,
                model="m", prompt_tokens=100, completion_tokens=20, total_tokens=120,
                timestamp=f"2026-11-28T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000Z",
                call_id=f"c{number:015d}", final=True, response_id=f"chatcmpl-{number:032d}", model_requested="m",
                usage_source="server", usage_final=True, key_fp="12345678", latency_ms=12.3,
                raw_usage={"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
            )  # fmt: skip
            line = msgspec.json.encode(attempt) + b"\n"
            file.write(line)
            size += len(line)
            number += 1


@pytest.mark.benchmark
def test_static_checks_cost_no_more_than_three_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "ELOMETER_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    config = tmp_path / ".config" / "elometer"
    config.mkdir(parents=True)
    profiles = "".join(
        f'[[profiles]]\nname = "p{n}"\ntool = "openai-compatible"\nbase_url = "https://g{n}.example"\nkey = "k"\n'
        for n in range(20)
    )
    (config / "profiles.toml").write_text(f'[keys.k]\nsource = "env:K"\n{profiles}')
    for name in (".claude/settings.json", ".claude/settings.local.json", ".claude.json", ".codex/auth.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"env": {"ANTHROPIC_MODEL": "m"}}))
    (tmp_path / ".bashrc").write_text("export ANTHROPIC_MODEL=m\n")
    ledger = tmp_path / "bt-eval" / "exp" / "token_ledger.jsonl"
    fill(ledger)

    def reading() -> float:
        begin = time.perf_counter()
        assert sum(1 for _attempt in read_attempts(ledger)) > 80_000
        return time.perf_counter() - begin

    def checking() -> float:
        begin = time.perf_counter()
        rows = run_static(Question(environ={"K": "sk-planted-0123456789"}))
        assert not [row for row in rows if row.status == "fail"]
        return time.perf_counter() - begin

    reading()
    read, checked = min(reading() for _ in range(TIMES)), min(checking() for _ in range(TIMES))
    print(f"read {read:.3f} s, checked {checked:.3f} s, ratio {checked / read:.2f}")
    assert checked <= 3 * read
    assert checked < 1.5
