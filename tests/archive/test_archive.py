"""An archive holds what it says, and says so when it does not."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from elometer.archive.audit import audit
from elometer.archive.circumstances import _Line, peak_in_flight
from elometer.archive.keylike import key_like_strings
from elometer.archive.versions import git_state
from elometer.cli.main import run
from elometer.core import redact
from elometer.core.attempt import Attempt
from elometer.core.errors import UsageError, VerificationError
from elometer.jobs.archive import archive_folder, pack_experiment
from elometer.ledger.writer import JsonlWriter
from elometer.runs import events as ev
from elometer.runs.folder import ExperimentFolder
from elometer.runs.journal import Outcome, Sample
from elometer.runs.result import derive, write
from elometer.runs.spec import load_experiment, resolved_yaml

SPEC = """\
experiment_id: bt-arch
seed: 7
taotoken:
  base_url: http://127.0.0.1:9/api
  key_label: bt-eval-sample-k
  key_env: SOME_KEY
  key_boundary: {allowed_models: [m], max_concurrency: 4}
agent: {model: m, strategy: sample_k, k_values: [1, 2, 4]}
sampling: {runs: 2}
"""
RUN = "bt-arch-20261129T190000Z"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELOMETER_HOME", str(tmp_path / "bt-eval"))
    nothing = {"values": set(), "longest_first": (), "as_bytes": ()}
    monkeypatch.setattr(redact, "_Known", type("Nothing", (), nothing))
    return tmp_path / "bt-eval" / "bt-arch"


@pytest.fixture
def experiment(home: Path) -> Path:
    """A finished start of six tasks, two runs and three strategies, written as a start writes it."""
    home.mkdir(parents=True)
    place = ExperimentFolder(home)
    place.source.write_text(SPEC)
    place.tasks.write_text('{"id":"t1","prompt":"?","answer":"1","grader":"exact"}\n')
    place.resolved.write_text(resolved_yaml(load_experiment(place.source)))
    rng, block = random.Random(3), 0
    with (
        JsonlWriter(place.ledger, durable=False) as ledger,
        JsonlWriter(place.samples, durable=False) as samples,
        JsonlWriter(place.outcomes, durable=False) as outcomes,
        JsonlWriter(place.events, durable=False) as events,
    ):
        events.append(
            ev.StartOpened(
                at="2026-11-29T19:00:00.000Z",
                run_id=RUN,
                experiment_id="bt-arch",
                origin="live",
                pid=1,
                host="h",
                gateway="http://127.0.0.1:9/api",
                protocol="chat",
                model="m",
                tasks=6,
                runs=2,
                strategies=("sample_1", "sample_2", "sample_4"),
                blocks=12,
                calls_per_block={},
                max_concurrency=4,
            )
        )
        for task in range(6):
            for repetition in (1, 2):
                for k in (1, 2, 4):
                    for n in range(1, k + 1):
                        attempt = Attempt(
                            experiment_id="bt-arch", strategy=f"sample_{k}", task=f"t{task}", run=repetition,
                            model="m", model_requested="m", prompt_tokens=50, completion_tokens=10 + n,
                            total_tokens=60 + n, timestamp="2026-11-29T19:00:00.000Z", run_id=RUN, sample=n,
                            call_id=f"{task}-{repetition}-{k}-{n}", final=True, usage_source="server",
                            key_fp="0a1b2c3d", latency_ms=10.0, block=block,
                        )  # fmt: skip
                        assert attempt.call_id is not None
                        samples.append(
                            Sample(call_id=attempt.call_id, strategy=attempt.strategy, task=attempt.task,
                                   run=repetition, sample=n, text="an answer", attempt=attempt)
                        )  # fmt: skip
                        ledger.append(attempt)
                    right = rng.random() < 0.3 + 0.1 * k
                    outcomes.append(
                        Outcome(experiment_id="bt-arch", task=f"t{task}", run=repetition, block=block,
                                strategy=f"sample_{k}", outcome="ok" if right else "wrong", score=float(right))
                    )  # fmt: skip
                block += 1
        events.append(ev.StartEnded(at="2026-11-29T19:05:00.000Z", status="complete"))
    write(place, derive(load_experiment(place.source), place))
    return home


def call(*argv: object) -> int:
    return run(["archive", *map(str, argv)], open_app=lambda folder: None)


def test_an_archive_is_private_complete_and_sound(experiment: Path) -> None:
    packed = pack_experiment("bt-arch")
    assert packed == experiment / "archive" / RUN
    assert stat.S_IMODE(packed.stat().st_mode) == 0o700
    manifest = json.loads((packed / "manifest.json").read_bytes())
    for path in packed.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        if path.name != "manifest.json":
            entry = manifest["files"][path.name]
            assert entry["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
            assert entry["bytes"] == path.stat().st_size
    assert set(manifest["files"]) >= {"token_ledger.jsonl", "pairwise_records.jsonl", "elo_result.csv"}
    assert (packed / "token_ledger.jsonl").read_bytes() == (experiment / "token_ledger.jsonl").read_bytes()
    assert manifest["totals"]["sample"]["total_tokens"] == 12 * (61 + (61 + 62) + (61 + 62 + 63 + 64))
    assert manifest["key"]["label"] == "bt-eval-sample-k"
    assert manifest["key"]["fingerprints"] == ["0a1b2c3d"]
    assert manifest["models"] == [{"requested": "m", "served": "m", "answers": 84}]
    assert manifest["blocks"] == {"planned": 12, "done": 12}
    assert "sample_4" in (packed / "report.md").read_text()
    assert audit(packed) == []
    assert [path.name for path in (experiment / "archive").iterdir()] == [RUN]


def test_a_start_that_died_is_packed_with_what_follows_from_its_files(experiment: Path) -> None:
    place = ExperimentFolder(experiment)
    for derived in (place.records, place.table, place.fit):
        derived.unlink()
    events = place.events.read_bytes().splitlines(keepends=True)
    place.events.write_bytes(events[0])
    packed = pack_experiment("bt-arch")
    assert json.loads((packed / "manifest.json").read_bytes())["status"] == "died"
    assert audit(packed) == []


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def relist(packed: Path, name: str) -> None:
    """Make the manifest agree with a file that was changed, as someone who tampers well would."""
    manifest = json.loads((packed / "manifest.json").read_bytes())
    data = (packed / name).read_bytes()
    manifest["files"][name] = {
        "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "lines": data.count(b"\n"),
    }  # fmt: skip
    (packed / "manifest.json").write_text(json.dumps(manifest))


def raise_elo(packed: Path) -> None:
    lines = (packed / "elo_result.csv").read_text().splitlines()
    cells = lines[2].split(",")
    cells[2] = str(float(cells[2]) + 0.02)
    (packed / "elo_result.csv").write_text("\n".join([lines[0], lines[1], ",".join(cells), lines[3]]) + "\n")


def turn_outcome(packed: Path) -> None:
    edit(packed / "outcomes.jsonl", '"outcome":"ok","score":1.0', '"outcome":"wrong","score":0.0')


def drop_pair(packed: Path) -> None:
    path = packed / "pairwise_records.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def drop_sample(packed: Path) -> None:
    path = packed / "samples.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))


def raise_tokens(packed: Path) -> None:
    edit(packed / "token_ledger.jsonl", '"completion_tokens":11,"total_tokens":61',
         '"completion_tokens":12,"total_tokens":62')  # fmt: skip


def double_line(packed: Path) -> None:
    path = packed / "token_ledger.jsonl"
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[0])


def leak(packed: Path) -> None:
    edit(packed / "samples.jsonl", "an answer", "use sk-proj-4f9Qa1Zx8Lm2Vb7Kt0")


def raise_fit(packed: Path) -> None:
    fit = json.loads((packed / "fit.json").read_bytes())
    fit["strategies"][1]["elo"] += 0.02
    (packed / "fit.json").write_text(json.dumps(fit))


@pytest.mark.parametrize(
    ("name", "tamper", "kinds"),
    [
        ("elo_result.csv", raise_elo, {"fit"}),
        ("outcomes.jsonl", turn_outcome, {"pairs", "fit"}),
        ("pairwise_records.jsonl", drop_pair, {"pairs"}),
        ("samples.jsonl", drop_sample, {"samples"}),
        ("token_ledger.jsonl", raise_tokens, {"sum", "fit"}),
        ("token_ledger.jsonl", double_line, {"ledger", "sum"}),
        ("samples.jsonl", leak, {"key"}),
        ("fit.json", raise_fit, {"fit"}),
    ],
)
def test_tampering_is_found_by_digest_and_without_it(
    experiment: Path, name: str, tamper: Callable[[Path], None], kinds: set[str]
) -> None:
    packed = pack_experiment("bt-arch")
    tamper(packed)
    assert ("digest", name) in {(found.kind, found.path) for found in audit(packed)}
    relist(packed, name)
    found = audit(packed)
    assert kinds <= {one.kind for one in found}
    assert "digest" not in {one.kind for one in found}
    assert "4f9Qa1Zx" not in repr(found)


def test_files_that_are_missing_or_foreign_are_named(experiment: Path) -> None:
    packed = pack_experiment("bt-arch")
    (packed / "events.jsonl").unlink()
    (packed / "notes.txt").write_text("mine")
    assert {(one.kind, one.path) for one in audit(packed)} == {
        ("missing", "events.jsonl"),
        ("foreign", "notes.txt"),
    }


def test_a_torn_line_that_was_there_when_packed_is_no_finding(experiment: Path) -> None:
    with (experiment / "token_ledger.jsonl").open("ab") as file:
        file.write(b'{"experiment_id":"bt-ar\n')
    packed = pack_experiment("bt-arch")
    assert audit(packed) == []
    with (packed / "token_ledger.jsonl").open("ab") as file:
        file.write(b'{"experiment_id":"bt-ar\n')
    relist(packed, "token_ledger.jsonl")
    assert [one.kind for one in audit(packed)] == ["ledger"]


def test_packing_twice_gives_the_same_archive_and_never_overwrites_one(experiment: Path) -> None:
    first = pack_experiment("bt-arch")
    assert pack_experiment(RUN) == first
    edit(experiment / "token_ledger.jsonl", '"total_tokens":61', '"total_tokens":60')
    with pytest.raises(UsageError, match="packed already"):
        pack_experiment("bt-arch")
    assert [path.name for path in (experiment / "archive").iterdir()] == [RUN]


def test_what_cannot_be_packed_is_said(experiment: Path, home: Path) -> None:
    with JsonlWriter(experiment / "token_ledger.jsonl"), pytest.raises(UsageError, match="is running"):
        pack_experiment("bt-arch")
    with pytest.raises(UsageError, match="Only the last start"):
        pack_experiment("bt-arch-20260101T000000Z")
    (experiment / "events.jsonl").unlink()
    with pytest.raises(UsageError, match="Nothing was started"):
        pack_experiment("bt-arch")


def test_a_key_that_slipped_into_the_yaml_is_not_packed(experiment: Path) -> None:
    redact.register("planted-value-1234")
    with (experiment / "experiment.yaml").open("a") as file:
        file.write("notes: my key is planted-value-1234\n")
    packed = pack_experiment("bt-arch")
    assert all(b"planted-value-1234" not in path.read_bytes() for path in packed.iterdir())
    assert audit(packed) == []


def test_the_command_line(experiment: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert call("audit", "bt-arch") == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 3
    assert call("pack", "bt-arch") == 0
    packed = Path(capsys.readouterr().out.strip())
    for name in ("bt-arch", RUN, packed):
        assert archive_folder(str(name)) == packed
        assert call("audit", name) == 0
    moved = tmp_path / "elsewhere"
    shutil.copytree(packed, moved)
    assert call("audit", moved) == 0
    raise_elo(moved)
    capsys.readouterr()
    assert call("audit", moved) == 6
    out, err = capsys.readouterr()
    assert out.startswith("elo_result.csv: digest: ")
    assert len(err.strip().splitlines()) == 3
    assert call("audit", moved, "--json") == 6
    assert {row["path"] for row in json.loads(capsys.readouterr().out)} == {"elo_result.csv"}
    (moved / "manifest.json").write_text("{}")
    with pytest.raises(VerificationError):
        audit(moved)


def test_a_start_without_a_fit_is_packed_with_the_reason(experiment: Path) -> None:
    place = ExperimentFolder(experiment)
    place.outcomes.write_bytes(b"")
    write(place, derive(load_experiment(place.source), place))
    packed = pack_experiment("bt-arch")
    assert not (packed / "elo_result.csv").exists()
    assert json.loads((packed / "manifest.json").read_bytes())["no_fit_because"]
    assert audit(packed) == []


def test_peak_concurrency_never_lies_above_the_truth() -> None:
    def line(start_ms: int, latency_ms: float | None) -> _Line:
        moment = f"2026-11-29T19:00:00.{start_ms:03d}Z"
        return _Line(timestamp=moment, latency_ms=latency_ms)

    assert peak_in_flight([]) is None
    assert peak_in_flight([line(0, None)]) is None
    assert peak_in_flight([line(0, 100.4), line(50, 100.0), line(100, 10.0)]) == 2
    assert peak_in_flight([line(0, 100.0), line(10, 20.0), line(20, 30.0), line(60, 5.0)]) == 3
    assert peak_in_flight([line(5, 0.1)]) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sk-ant-api03-Ab12Cd34Ef56Gh78", True),
        ('"Authorization": "Bearer 9f8e7d6c5b4a39281706"', True),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", True),
        ("AKIA0123456789ABCDEF", True),
        ("sk-learn-compatible-estimators-and-more", False),
        ("sk-xxxxxxxxxxxxxxxxxxxx", False),
        ("task-5b1e09c7d2a846f3e0b1", False),
        ("Bearer of good news to everyone", False),
        ("sha256:5b1e09c7d2a846f3e0b15b1e09c7d2a8", False),
    ],
)
def test_strings_that_look_like_keys(tmp_path: Path, text: str, found: bool) -> None:
    path = tmp_path / "f"
    path.write_text(f"first\n{text}\n")
    hits = list(key_like_strings(path))
    assert bool(hits) is found
    assert all(hit.line == 2 and len(hit.mask) <= 6 for hit in hits)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git on PATH")
def test_the_commit_of_the_repository_is_recorded(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    (tmp_path / "f").write_text("1")
    for command in (["init", "-q"], ["add", "f"], [*identity, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", "-C", tmp_path, *command], check=True, capture_output=True)
    head = subprocess.run(
        ["git", "-C", tmp_path, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )
    assert git_state(tmp_path) == {"commit": head.stdout.strip(), "dirty": False}
    (tmp_path / "f").write_text("2")
    assert git_state(tmp_path) == {"commit": head.stdout.strip(), "dirty": True}
