"""`elometer fit` as scripts call it: stdout, stderr, files, exit codes."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from elometer.cli.main import run

FOUNDING = Path(__file__).parents[1] / "fixtures" / "founding"
RECORDS, TABLE = FOUNDING / "records.jsonl", FOUNDING / "table.csv"


@dataclass(frozen=True)
class Done:
    """What a command left: as `subprocess` says it, without the second that a new interpreter costs."""

    returncode: int
    stdout: str
    stderr: str


def elometer(*arguments: object) -> Done:
    out, talk = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(talk):
        code = run([str(argument) for argument in arguments], open_app=lambda _folder: None)
    return Done(code, out.getvalue(), talk.getvalue())


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def test_the_founding_records(tmp_path: Path) -> None:
    done = elometer("fit", RECORDS)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "no finite maximum" in done.stdout
    for number in ("1000.00", "809.15 *", "618.30 *"):
        assert number in done.stdout
    made = json.loads(elometer("fit", RECORDS, "--json").stdout)
    assert made["identified"] is False
    assert made["components"] == [["sample_1", "sample_2", "sample_4"], ["sample_8"], ["sample_16"]]
    assert [round(row["elo"], 2) for row in made["strategies"]] == [1000, 1000, 1000, 809.15, 618.3]
    assert [row["resolved"] for row in made["strategies"]] == [False] * 5
    assert made["strategies"][4]["elo_lo"] is None


def test_plain_likelihood_refuses_them() -> None:
    done = elometer("fit", RECORDS, "--estimator", "mle")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no finite maximum" in done.stderr
    assert len(done.stderr.splitlines()) == 3


def test_the_founding_table() -> None:
    done = elometer("fit", "--table", TABLE)
    assert done.returncode == 0
    for value in ("28.0", "16.0", "9.0", "5.0", "2.55", "0.73", "0.20", "0.06"):
        assert value in done.stdout
    rows = json.loads(elometer("fit", "--table", TABLE, "--json").stdout)
    assert [row["delta_elo"] for row in rows] == [None, 28.0, 16.0, 9.0, 5.0]


def ledger_line(strategy: str, task: str, tokens: int, **more: object) -> dict[str, object]:
    return {
        "experiment_id": "e",
        "strategy": strategy,
        "task": task,
        "run": 1,
        "model": "m",
        "prompt_tokens": tokens - 10,
        "completion_tokens": 10,
        "total_tokens": tokens,
        "timestamp": "2026-01-01T00:00:00Z",
        **more,
    }


def experiment(folder: Path) -> tuple[Path, Path]:
    records, ledger = folder / "pairs.jsonl", folder / "ledger.jsonl"
    pairs, lines = [], []
    for n in range(12):
        outcome = "a" if n % 3 == 0 else "b"
        pairs.append(
            {
                "experiment_id": "e",
                "task": f"t{n}",
                "run": 1,
                "a": "sample_1",
                "b": "sample_2",
                "outcome": outcome,
            }
        )
        lines += [ledger_line("sample_1", f"t{n}", 100), ledger_line("sample_2", f"t{n}", 200 + n)]
    lines.append(ledger_line("sample_2", "t0", 50, status="error", final=False))
    lines.append(ledger_line("sample_1", "t99", 100))
    lines.append({**ledger_line("x", "t0", 999), "strategy": None, "phase": "compare"})
    records.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return records, ledger


def test_with_a_ledger_the_totals_are_the_founding_sums(tmp_path: Path) -> None:
    records, ledger = experiment(tmp_path)
    out = tmp_path / "out.csv"
    done = elometer("fit", records, "--ledger", ledger, "--csv", out, "--json")
    assert done.returncode == 0
    assert "out.csv" in done.stderr
    rows = {row["strategy"]: row for row in csv.DictReader(out.open())}
    assert rows["sample_1"]["total_tokens"] == "1300"
    assert rows["sample_2"]["total_tokens"] == str(12 * 200 + 66 + 50)
    assert float(rows["sample_2"]["tokens_per_task_run"]) == pytest.approx(205.5)
    assert float(rows["sample_1"]["tokens_per_task_run"]) == 100
    assert rows["sample_1"]["excluded"] == "1"
    made = json.loads(done.stdout)
    row = made["strategies"][1]
    assert row["delta_token"] == 2516 - 1300
    assert row["marginal_elo_per_1k"] == pytest.approx(1000 * row["delta_elo"] / 1216)
    assert row["marginal_lo"] < row["marginal_per_1k_task_run"] < row["marginal_hi"]


def test_without_csv_nothing_is_written(tmp_path: Path) -> None:
    records, ledger = experiment(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert elometer("fit", records, "--ledger", ledger).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit"],
        ["fit", RECORDS, "--table", TABLE],
        ["fit", "absent.jsonl"],
        ["fit", FOUNDING],
        ["fit", RECORDS, "--anchor", "sample_3"],
        ["fit", RECORDS, "--level", "95"],
        ["fit", RECORDS, "--ties", "davidson"],
        ["fit", RECORDS, "--estimator", "best"],
        ["fit", RECORDS, "--ledger", "absent.jsonl"],
        ["fit", RECORDS, "--csv", "absent/folder/out.csv"],
        ["fit", RECORDS, "--csv", "."],
        ["fit", RECORDS, "--csv", "-", "--json"],
        ["fit", RECORDS, "--knee-margin", "nan"],
        ["fit", RECORDS, "--knee-margin", "-1"],
        ["fit", "--table", TABLE, "--ties", "drop"],
        ["fit", "--table", TABLE, "--more"],
        ["fit", "--table", RECORDS],
        ["fit", "--table", "absent.csv"],
    ],
)
def test_what_a_user_can_get_wrong_exits_2_without_a_traceback(arguments: list[object]) -> None:
    done = elometer(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr


def test_names_steer_no_terminal_and_align_by_cells(tmp_path: Path) -> None:
    """ESC [ 31 m would colour what follows, and 策 takes two cells."""
    names = ("x\x1b[31m_1", "策略_2", "y\n_3")
    lines = [[names[i], names[j]] for i in range(3) for j in range(3) if i != j] * 12
    records = tmp_path / "records.jsonl"
    records.write_text("\n".join(json.dumps(line) for line in lines))
    shown = elometer("fit", records, "--more").stdout
    assert "\x1b" not in shown
    assert "x�[31m_1" in shown
    assert "y�_3" in shown
    table = shown.splitlines()[:4]
    assert len({sum(2 if char in "策略" else 1 for char in line) for line in table}) == 1, table
    records.write_text(json.dumps({"a": "x", "b": "y", "outcome": "\x1b[2J", "task": "t"}))
    refused = elometer("fit", records)
    assert refused.returncode == 2
    assert "\x1b" not in refused.stderr


def test_what_of_a_ledger_cannot_be_read_is_told(tmp_path: Path) -> None:
    records, ledger = experiment(tmp_path)
    with ledger.open("a") as file:
        file.write("no json\n")
    told = {
        each["code"]: each["message"]
        for each in json.loads(elometer("fit", records, "--ledger", ledger, "--json").stdout)["warnings"]
    }
    assert told["ledger_lines_unread"].startswith("1 line of the ledger ")


def test_input_from_a_cache_is_priced_beside_all_input(tmp_path: Path) -> None:
    """Where half of each answer's tokens came from a cache, a further 1k of the rest buys twice as much."""
    records, ledger = experiment(tmp_path)
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    ledger.write_text(
        "\n".join(json.dumps(line | {"cached_tokens": line["total_tokens"] // 2}) for line in lines)
    )
    row = json.loads(elometer("fit", records, "--ledger", ledger, "--json").stdout)["strategies"][1]
    assert row["marginal_per_1k_uncached"] == pytest.approx(
        2 * row["marginal_per_1k_task_run"], rel=0.01
    )  # odd tokens
    shown = elometer("fit", records, "--ledger", ledger).stdout
    assert "without input read from a cache: sample_2" in shown


def test_options_reach_the_fit(tmp_path: Path) -> None:
    records, _ledger = experiment(tmp_path)

    def row(*more: object) -> dict[str, float]:
        return json.loads(elometer("fit", records, "--json", *more).stdout)["strategies"][1]

    plain = row()
    assert row("--estimator", "mle")["elo"] == pytest.approx(1000 + 400 * 0.30103, abs=1e-3)  # 8 of 12
    narrow = row("--level", "0.5")
    assert narrow["delta_hi"] - narrow["delta_lo"] < plain["delta_hi"] - plain["delta_lo"]
    assert row("--anchor", "sample_2")["elo"] == 1000
    assert row("--elo-scale", "200")["elo"] - 1000 == pytest.approx((plain["elo"] - 1000) / 2)
    assert row("--aggregation", "per_task_standardised")["elo"] is None


def test_as_a_process_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "elometer", "fit", RECORDS],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert "809.15 *" in done.stdout


def test_a_package_import_costs_no_scientific_library() -> None:
    code = (
        "import sys, elometer.rating as r; assert 'numpy' not in sys.modules;"
        "r.FitOptions, r.fit_records, r.read_records, r.text_table;"
        "print(sorted({'scipy','pandas','textual','rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
