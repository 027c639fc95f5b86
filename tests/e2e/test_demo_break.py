"""`elometer demo --break`: the fault is named, and the start goes as it would go for the user."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from tests.e2e.workspace import Workspace


def test_a_fault_that_fails_stands_in_the_way_until_it_is_forced(place: Workspace) -> None:
    done = place.run("demo", "--break", "model-out-of-scope", "--plain", "--seed", "7")
    assert done.returncode == 3
    assert "models.allowed" in done.stdout
    assert "does not allow" in done.stdout
    (folder,) = place.experiments.glob("demo-*")
    assert not (folder / "token_ledger.jsonl").exists()
    assert f"elometer run {folder} --force" in done.stderr

    # The folder keeps its fault: a start without the checks meets the gateway's own refusal.
    refused = place.run("run", folder, "--plain")
    assert refused.returncode == 3
    assert "models.allowed" in refused.stderr
    forced = place.run("run", folder, "--plain", "--force")
    assert forced.returncode == 3
    assert "model_not_allowed" in forced.stderr


def test_cached_replies_are_named_before_and_after_the_start(place: Workspace) -> None:
    done = place.run("demo", "--break", "cached-replies", "--plain", "--seed", "7")
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split("sample_16 ", 1)
    assert "live.cache" in before
    assert "reconcile.doubles" in after
    last = done.stdout.splitlines()[-1]
    assert last.startswith("explained: a cache answered ")
    assert "calls of sample_16: those draws are copies" in last


def test_a_fault_of_another_client_lets_the_start_go_well(place: Workspace) -> None:
    done = place.run("demo", "--break", "small-fast-leak", "--plain", "--seed", "7")
    assert done.returncode == 0, done.stderr
    assert "models.leak" in done.stdout
    assert "Set ANTHROPIC_DEFAULT_HAIKU_MODEL to demo-agent" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("nothing found; noise is ±")


@pytest.mark.slow
def test_a_storm_is_named_by_its_retries(place: Workspace) -> None:
    done = place.run("demo", "--break", "429-storm", "--plain", "--seed", "7")
    assert done.returncode == 0, done.stderr
    assert "live.limits" in done.stdout
    assert "reconcile.retries" in done.stdout


def test_the_list_names_all_nine_and_no_name_needs_a_terminal(place: Workspace) -> None:
    listed = place.run("demo", "--break", "list")
    assert listed.returncode == 0
    assert len(listed.stdout.splitlines()) == 9
    unnamed = place.run("demo", "--break", "--plain")
    assert unnamed.returncode == 2
    assert "Name one of these faults" in unnamed.stderr
    unknown = place.run("demo", "--break", "doubled-v2", "--plain")
    assert unknown.returncode == 2
    assert "doubled-v1" in unknown.stderr


def test_the_picker_takes_a_number_and_asks_before_it_starts(place: Workspace) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "elometer", "demo", "--break", "--seed", "7"],
        env=place.environment(TERM="xterm"), stdin=theirs, stdout=theirs, stderr=theirs, cwd=place.home,
        start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        os.write(ours, b"2\nn\n")
        said = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other side has closed
                break
            if not part:
                break
            said += part
        assert process.wait(60) == 0
    os.close(ours)
    text = said.decode()
    assert "Which one?" in text
    assert "Planted: doubled-v1" in text
    assert "url.version" in text
    (folder,) = place.experiments.glob("demo-*")
    assert not (folder / "token_ledger.jsonl").exists()
