"""How a start lives and ends as a process: twice at once, left in a hurry, hung up on, out of disk, edited."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.e2e.renaming_gateway import KEY, gateway, lines, write_experiment
from tests.e2e.workspace import Workspace


def wait_for(seen: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while not seen():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def sent(folder: Path) -> set[tuple[str, int]]:
    return {
        (event["call_id"], event["attempt"])
        for event in lines(folder / "events.jsonl")
        if event["event"] == "call_sent"
    }


def booked(folder: Path) -> set[tuple[str, int]]:
    return {(line["call_id"], line["attempt"]) for line in lines(folder / "token_ledger.jsonl")}


def finals(folder: Path) -> Counter[str]:
    return Counter(line["call_id"] for line in lines(folder / "token_ledger.jsonl") if line["final"])


def test_a_second_start_is_refused_and_names_the_first(place: Workspace) -> None:
    with gateway(latency=(20, 30)) as url:
        spec = write_experiment(place, "twice", url)
        folder = place.experiments / "twice"
        first = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        wait_for(lambda: bool(sent(folder)), first)
        second = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert second.returncode == 2
        assert f"process {first.pid} on {os.uname().nodename}" in second.stderr
        assert "Traceback" not in second.stderr
        before = len(sent(folder))
        # In a hurry: once asks it to drain, twice to leave.
        first.send_signal(signal.SIGINT)
        wait_for(lambda: any(e.get("state") == "stopping" for e in lines(folder / "events.jsonl")), first)
        began = time.monotonic()
        first.send_signal(signal.SIGINT)
        _out, err = first.communicate(timeout=20)
    assert time.monotonic() - began < 10
    assert first.returncode == 130, err
    assert "Traceback" not in err
    assert len(sent(folder)) == before == 2
    assert booked(folder) == sent(folder)
    assert {line["status"] for line in lines(folder / "token_ledger.jsonl")} == {"cancelled"}
    assert lines(folder / "events.jsonl")[-1]["event"] == "start_ended"


def test_a_hang_up_drains(place: Workspace) -> None:
    with gateway(latency=(0.5, 1.0)) as url:
        spec = write_experiment(place, "hung", url)
        folder = place.experiments / "hung"
        process = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        wait_for(lambda: bool(sent(folder)), process)
        process.send_signal(signal.SIGHUP)
        _out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "SIGHUP" in err
    assert booked(folder) == sent(folder)
    assert {line["status"] for line in lines(folder / "token_ledger.jsonl")} == {"ok"}


def test_a_start_that_died_is_shown_and_goes_on(place: Workspace) -> None:
    with gateway(latency=(0.05, 0.1)) as url:
        spec = write_experiment(place, "killed", url)
        folder = place.experiments / "killed"
        process = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        wait_for(lambda: len(finals(folder)) > 2, process)
        process.kill()
        process.communicate()
        shown = place.run("runs")
        assert "died" in shown.stdout + shown.stderr
        refused = place.run("control", "killed", "pause")
        assert refused.returncode == 2
        assert "died" in refused.stderr
        assert "run" in refused.stderr.splitlines()[-1]
        assert place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY).returncode == 0
    assert set(finals(folder).values()) == {1}
    assert len(finals(folder)) == 12


def test_a_full_disk_says_so_and_loses_nothing(place: Workspace) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    with gateway(latency=(0.0, 0.01)) as url:
        spec = write_experiment(place, "full", url, tasks=60, runs=2)
        process = subprocess.run(
            [sys.executable, "-m", "elometer", "run", str(spec), "--plain"],
            env=place.environment(TAOTOKEN_API_KEY=KEY),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=place.home,
            preexec_fn=little_room,  # one thread here
            timeout=60,
            check=False,
        )
        assert process.returncode == 5, process.stderr
        assert "Traceback" not in process.stderr
        assert "could not be written" in process.stderr
        assert "goes on where it stopped" in process.stderr
        folder = place.experiments / "full"
        paid = finals(folder)
        assert paid
        assert place.run("ledger", "verify", folder).returncode == 0
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
    assert set(paid) <= set(finals(folder))
    assert set(finals(folder).values()) == {1}
    assert len(finals(folder)) == 60 * 2 * 3
    assert sent(folder) <= booked(folder), "a call went out and has no line"


def test_an_edited_ledger_is_seen_and_paid_answers_come_back(place: Workspace) -> None:
    with gateway(latency=(0.02, 0.05)) as url:
        spec = write_experiment(place, "edited", url, tasks=6)
        folder = place.experiments / "edited"
        process = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        wait_for(lambda: len(finals(folder)) > 6, process)
        process.kill()
        process.communicate()
        ledger = folder / "token_ledger.jsonl"
        before = ledger.read_text().splitlines(keepends=True)
        # One line is gone, one is spoilt by hand.
        ledger.write_text("".join([before[0][:-20] + "\n", *before[2:]]))
        reported = place.run("ledger", "verify", folder)
        assert reported.returncode == 6
        assert ":1" in reported.stdout + reported.stderr or "line 1" in reported.stdout + reported.stderr
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
    whole = []
    for line in ledger.read_bytes().splitlines():
        try:
            whole += [json.loads(line)]
        except ValueError:
            continue
    again = Counter(line["call_id"] for line in whole if line["final"])
    assert set(again.values()) == {1}
    assert len(again) == 18
    # The answers of both lines were on the disk: they were booked again, not asked again.
    for line in before[:2]:
        call = json.loads(line)
        assert sum(event[0] == call["call_id"] for event in sent(folder)) == call["attempt"]


def test_leaving_at_once_does_not_wait_for_judges(place: Workspace) -> None:
    with gateway() as url:
        spec = write_experiment(place, "judged", url, strategies="strategies: [sample_1, sample_2]", tasks=2)
        tasks = lines(spec.parent / "tasks.jsonl")
        slow = f"import os, time\ndef grade(answer, task):\n    open({str(place.home / 'judging')!r}, 'w'); time.sleep(50)\n"
        (spec.parent / "slow.py").write_text(slow)
        for task in tasks:
            task["grader"] = {"type": "python", "file": "slow.py", "seconds": 60}
        (spec.parent / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
        process = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        wait_for((place.home / "judging").exists, process)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        folder = place.experiments / "judged"
        wait_for(lambda: lines(folder / "events.jsonl")[-1].get("state") == "stopping", process)
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=30)
        assert process.returncode == 130, err
        assert "Traceback" not in err
        assert time.monotonic() - began < 15
        assert not lines(folder / "outcomes.jsonl") or all(
            item["outcome"] != "wrong" for item in lines(folder / "outcomes.jsonl")
        )


def test_nothing_goes_out_while_paused(place: Workspace) -> None:
    with gateway(latency=(0.05, 0.1)) as url:
        spec = write_experiment(place, "paused", url, tasks=8)
        folder = place.experiments / "paused"
        process = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)

        def last_state() -> str | None:
            states = [
                event["state"] for event in lines(folder / "events.jsonl") if event["event"] == "control"
            ]
            return states[-1] if states else None

        wait_for(lambda: len(finals(folder)) > 2, process)
        assert place.run("control", "paused", "pause").returncode == 0
        wait_for(lambda: last_state() == "paused", process)
        wait_for(lambda: booked(folder) == sent(folder), process)
        before = sent(folder)
        assert place.run("control", "paused", "cap", "1").returncode == 0  # takes longer than a call
        assert sent(folder) == before
        assert len(before) < 24
        assert place.run("control", "paused", "resume").returncode == 0
        _out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    order = [event for event in lines(folder / "events.jsonl") if event["event"] in ("control", "call_sent")]
    start = next(n for n, event in enumerate(order) if event.get("state") == "paused")
    end = next(n for n, event in enumerate(order) if event.get("state") == "running" and n > start)
    assert all(event["event"] == "control" for event in order[start:end])


def test_a_cap_keeps_to_the_stricter_boundary_of_store_and_yaml(place: Workspace) -> None:
    with gateway(latency=(0.2, 0.3)) as url:
        spec = write_experiment(place, "capped", url, tasks=8)
        spec.write_text(spec.read_text().replace("max_concurrency: 2", "max_concurrency: 6"))
        store = place.home / "config" / "elometer" / "profiles.toml"
        store.parent.mkdir(parents=True)
        store.write_text(
            '[keys.bt-eval]\nsource = "env:TAOTOKEN_API_KEY"\n[keys.bt-eval.boundary]\nmax_concurrency = 3\n'
        )
        folder = place.experiments / "capped"
        process = place.start("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        wait_for(lambda: len(finals(folder)) > 1, process)
        opened = lines(folder / "events.jsonl")[0]
        assert (opened["max_concurrency"], opened["key_concurrency"]) == (3, 3)

        def caps() -> list[int]:
            return [event["limit"] for event in lines(folder / "events.jsonl") if event["event"] == "control"]

        lowered = place.run("control", "capped", "cap", "2")
        assert "cap 2" in lowered.stderr and "allows" not in lowered.stderr
        wait_for(lambda: caps() == [2], process)
        raised = place.run("control", "capped", "cap", "50")
        assert "cap 3 (the key allows no more)" in raised.stderr
        wait_for(lambda: caps() == [2, 3], process)
        # What a hand writes into the file is held to the boundary too.
        (folder / "control.json").write_text('{"state":"running","limit":6}')
        wait_for(lambda: caps() == [2, 3, 3], process)
        _out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    gates = [event for event in lines(folder / "events.jsonl") if event["event"] == "gate_changed"]
    assert max(event["in_flight"] for event in gates) == 3
    assert {event["limit"] for event in gates} <= {1, 2, 3}
