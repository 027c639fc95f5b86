"""Local counts hold within one model: no marginal Elo is stated across two of them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from elometer.cli.main import run
from elometer.ledger.charged import token_sums
from elometer.rating.fit import TokenUse, csv_text, fit, fit_json, text_table
from elometer.rating.pairs import BlockScores, pair_blocks
from elometer.rating.records import RecordSet

NAMES = ("sample_1", "sample_2", "sample_4")
PRICES = ("marginal_elo_per_1k", "marginal_per_1k_task_run", "marginal_lo", "marginal_hi", "elo_per_doubling")
CODE = "local_counts_across_models"


def records(tasks: int = 12) -> RecordSet:
    """Each rung beats the one below in two thirds of the tasks."""
    blocks = [
        BlockScores(
            f"t{n}", 1, n, {name: float((n + s) % 3 != 0) + s * (n % 2) for s, name in enumerate(NAMES)}
        )
        for n in range(tasks)
    ]
    return RecordSet.from_records(pair_blocks("e", blocks))


def use(**more: object) -> TokenUse:
    charged = {(name, f"t{n}", 1): 100.0 * 2**s for s, name in enumerate(NAMES) for n in range(12)}
    totals = {name: 1200 * 2**s for s, name in enumerate(NAMES)}
    return replace(
        TokenUse(charged, totals, models={name: {"m"} for name in NAMES}),
        **more,  # type: ignore[arg-type]
    )


OTHER = {"sample_1": {"m"}, "sample_2": {"m"}, "sample_4": {"other"}}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (use(local=set(NAMES), estimated_tokens={"sample_4": 10}), "one model"),
        (use(models=OTHER), "servers counted"),
        (use(models={name: {"m-0806", "m-0513"} for name in NAMES}), "servers counted"),
        (use(models={}, local=set(NAMES)), "a ledger without models"),
    ],
)
def test_marginals_stand_within_one_model_or_on_servers_counts(given: TokenUse, why: str) -> None:
    result = fit(records(), given)
    assert all(getattr(row, name) is not None for row in result.strategies[1:] for name in PRICES[:2]), why
    assert CODE not in {each.code for each in result.warnings}


def test_across_two_models_on_local_counts_none_is_stated_anywhere() -> None:
    result = fit(records(), use(models=OTHER, local={"sample_4"}, estimated_tokens={"sample_4": 4800}))
    # sample_2 against sample_1 is one model's and server-counted: it keeps its price.
    assert result.row("sample_2").marginal_elo_per_1k is not None
    row = result.row("sample_4")
    assert [getattr(row, name) for name in PRICES] == [None] * 5
    assert row.elo_per_1k is None and row.marginal_basis == "local counts of several models"
    # What is no price stays: Elo, its difference, and the tokens as they were counted.
    assert row.elo is not None and row.delta_elo is not None and row.total_tokens == 4800
    assert (result.knee, result.curvature) == (None, None)
    (warning,) = [each for each in result.warnings if each.code == CODE]
    assert "m, other" in warning.message and "sample_2, sample_4" in warning.message
    assert any("local counts of several models" in sentence for sentence in result.returns)

    (said,) = [one for one in fit_json(result)["strategies"] if one["strategy"] == "sample_4"]
    assert [said[name] for name in PRICES] == [None] * 5
    (line,) = [one for one in csv.DictReader(io.StringIO(csv_text(result))) if one["strategy"] == "sample_4"]
    assert [line[name] for name in (*PRICES, "elo_per_1k")] == [""] * 6
    assert "No marginal Elo across m, other" in " ".join(text_table(result, width=100).split())


def test_an_estimate_of_a_cut_stream_spoils_only_the_total() -> None:
    result = fit(records(), use(models=OTHER, estimated_tokens={"sample_4": 60}))
    row = result.row("sample_4")
    assert row.marginal_elo_per_1k is None and row.marginal_per_1k_task_run is not None
    (warning,) = [each for each in result.warnings if each.code == CODE]
    assert "of total tokens" in warning.message


def line(strategy: str, task: str, **more: object) -> str:
    fields = {
        "experiment_id": "e",
        "strategy": strategy,
        "task": task,
        "run": 1,
        "model": "m",
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "total_tokens": 30,
        "timestamp": "2026-11-29T00:00:00Z",
        "phase": "sample",
        "final": True,
        "status": "ok",
        "usage_source": "server",
    }
    return json.dumps({**fields, **more}) + "\n"


def test_the_ledger_says_who_answered_and_who_counted(tmp_path: Path) -> None:
    ledger = tmp_path / "token_ledger.jsonl"
    ledger.write_text(
        line("sample_1", "a")
        + line("sample_1", "a", model="asked-for", status="cancelled", usage_source="estimated", final=False)
        + line("sample_2", "a", model="other", usage_source="local-tokenizer")
        + line("sample_2", "b", model="other", total_tokens=None, prompt_tokens=None, usage_source="none")
    )
    sums = token_sums([ledger])
    # The name on an attempt that nobody answered is only the one that was asked for.
    assert sums.models == {"sample_1": {"m"}, "sample_2": {"other"}}
    assert sums.local == {"sample_2"}
    assert dict(sums.estimated) == {"sample_1": 30, "sample_2": 30}


def test_the_command_refuses_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs, ledger = tmp_path / "pairs.jsonl", tmp_path / "token_ledger.jsonl"
    wins = [("sample_2", "sample_1", "a"), ("sample_1", "sample_2", "b"), ("sample_2", "sample_1", "c")]
    pairs.write_text(
        "".join(json.dumps({"winner": w, "loser": x, "task": t, "run": 1}) + "\n" for w, x, t in wins)
    )
    ledger.write_text(
        "".join(
            line("sample_1", task) + line("sample_2", task, model="other", usage_source="local-tokenizer")
            + line("sample_2", task, model="other", usage_source="local-tokenizer")
            for task in "abc"
        )
    )  # fmt: skip
    assert run(["fit", str(pairs), "--ledger", str(ledger), "--json"], open_app=lambda _folder: None) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["strategies"][1]["marginal_elo_per_1k"] is None
    assert CODE in {each["code"] for each in said["warnings"]}
