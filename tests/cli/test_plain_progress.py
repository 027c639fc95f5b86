"""What the lines of a start without a view say, and when."""

from __future__ import annotations

import io

import pytest

from elometer.cli.progress import PlainProgress
from elometer.runs import events as ev


def said(monkeypatch: pytest.MonkeyPatch, *events: ev.AnyEvent) -> list[str]:
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    progress = PlainProgress()
    for event in events:
        progress(event)
    progress.close()
    return written.getvalue().splitlines()


def gate(second: int, closed_for_s: float) -> ev.GateChanged:
    return ev.GateChanged(
        at=f"2026-11-29T12:00:{second:02d}.000Z",
        in_flight=0,
        limit=4,
        waiting=7,
        closed_for_s=closed_for_s,
        why="rate_limit",
    )


def test_a_long_wait_is_said_at_once_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = said(monkeypatch, gate(0, 20.0), gate(5, 15.0), gate(10, 0.2), gate(11, 30.0))
    closed = [line for line in lines if "closed until" in line]
    assert len(closed) == 2
    assert ":20, 7 waiting: rate_limit" in closed[0]
    assert ":41, 7 waiting: rate_limit" in closed[1]
