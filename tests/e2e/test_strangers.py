"""A name that nobody asked for answers: seen at once, paid for no further, resumed on the user's word."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import yaml
from tests.e2e.renaming_gateway import KEY, gateway, lines, write_experiment
from tests.e2e.workspace import Workspace


def later_another(count: int) -> Callable[[int], str]:
    """A dated name first, another model from the call after `count` on."""
    return lambda call: "m-2026-05-01" if call <= count else "cheap-model"


def flagged(folder: Path) -> list[dict[str, object]]:
    return [
        line for line in lines(folder / "token_ledger.jsonl") if "stranger" in (line["usage_flags"] or [])
    ]


def frozen(folder: Path) -> dict[str, list[str]]:
    resolved = yaml.safe_load((folder / "experiment.resolved.yaml").read_text())
    names: dict[str, list[str]] = resolved["taotoken"]["served_as"]
    return names


def wait_for(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not seen():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def test_nobody_there_to_ask_ends_the_start(place: Workspace) -> None:
    with gateway(later_another(5)) as url:
        spec = write_experiment(place, "strange", url)
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        folder = place.experiments / "strange"
        assert done.returncode == 5, done.stderr
        assert "STRANGER: asked for m, answered by cheap-model" in done.stderr
        assert "m is served as m-2026-05-01 (learnt)" in done.stderr
        assert "served_as" in done.stderr
        strangers = flagged(folder)
        # Two are in flight: nothing follows the first one that came back under a foreign name.
        assert 1 <= len(strangers) <= 2
        assert {line["model"] for line in strangers} == {"cheap-model"}
        assert frozen(folder) == {"m": ["m-2026-05-01"]}
        assert lines(folder / "events.jsonl")[-1]["reason"] == "stranger"
        # Going on without a word for the name meets it again, once.
        assert place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY).returncode == 5
        spec.write_text(
            spec.read_text().replace(
                "  key_label", "  served_as: {m: [m-2026-05-01, cheap-model]}\n  key_label"
            )
        )
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
        assert "nobody asked for" not in done.stdout
    finals = Counter(line["call_id"] for line in lines(folder / "token_ledger.jsonl") if line["final"])
    assert len(finals) == 4 * 3
    assert set(finals.values()) == {1}


def test_with_somebody_there_it_pauses_until_the_name_is_accepted(place: Workspace) -> None:
    with gateway(later_another(4)) as url:
        spec = write_experiment(place, "asked", url, tasks=6)
        folder = place.experiments / "asked"
        events = folder / "events.jsonl"
        process = place.start("run", spec, "--plain", "--attended", TAOTOKEN_API_KEY=KEY)
        wait_for(lambda: any(event.get("state") == "paused" for event in lines(events)))
        assert place.run("control", "asked", "cap", "1").returncode == 0
        wait_for(lambda: [event for event in lines(events) if event["event"] == "control"][-1]["limit"] == 1)
        sent = [event for event in lines(events) if event["event"] == "call_sent"]
        wait_for(lambda: len(lines(folder / "token_ledger.jsonl")) == len(sent))
        assert [event for event in lines(events) if event["event"] == "control"][-1]["state"] == "paused"
        assert len([event for event in lines(events) if event["event"] == "call_sent"]) == len(sent) <= 6
        assert place.run("control", "asked", "resume").returncode == 0
        _out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert frozen(folder) == {"m": ["m-2026-05-01", "cheap-model"]}
    assert len(flagged(folder)) <= 2
    assert "accepted" in err


def test_recording_goes_on_and_says_so(place: Workspace) -> None:
    with gateway(later_another(4)) as url:
        spec = write_experiment(place, "recorded", url, more="stop: {on_stranger: record}")
        done = place.run("run", spec, "--plain", TAOTOKEN_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    folder = place.experiments / "recorded"
    assert len(flagged(folder)) == 4 * 3 - 4
    assert "nobody asked for are among these numbers: cheap-model 8." in " ".join(done.stdout.split())
