from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elometer.wire.sse import Event, EventSplitter, EventTooLarge


def split(*pieces: bytes) -> list[Event]:
    splitter = EventSplitter()
    events = [event for piece in pieces for event in splitter.feed(piece)]
    return events + splitter.end()


# Examples of the WHATWG HTML standard, section "Interpreting an event stream".
@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [b"YHOO\n+2\n10"]),
        (
            b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            [b"first event", b"second event", b" third event"],
        ),
        (b"data\n\ndata\ndata\n\n", [b"", b"\n"]),
        (b"data:test\n\ndata: test\n\n", [b"test", b"test"]),
    ],
)
def test_examples_of_the_standard(stream: bytes, data: list[bytes]) -> None:
    assert [event.data for event in split(stream)] == data


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends(end: bytes) -> None:
    lines = [b"event: message_stop", b"data: {}", b"", b": ping", b"", b"data: 2", b"", b""]
    assert split(end.join(lines)) == [Event("message_stop", b"{}"), Event("", b"2")]


def test_a_byte_order_mark_is_dropped() -> None:
    assert split(b"\xef", b"\xbb\xbfdata: 1\n\n") == [Event("", b"1")]


def test_a_last_event_without_its_empty_line_is_taken() -> None:
    assert split(b"data: [DONE]") == [Event("", b"[DONE]")]
    assert split(b"data: [DONE]\n") == [Event("", b"[DONE]")]


def test_an_event_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elometer.wire.sse.LARGEST_EVENT", 100)
    with pytest.raises(EventTooLarge):
        split(b"data: " + b"x" * 200)


LINE_END = st.sampled_from([b"\n", b"\r\n", b"\r"])
PAYLOAD = st.binary(max_size=12).filter(lambda data: b"\n" not in data and b"\r" not in data)
EVENT = st.tuples(st.sampled_from(["", "delta", "error"]), st.lists(PAYLOAD, min_size=1, max_size=3))


@given(st.lists(EVENT, max_size=5), LINE_END, st.lists(st.integers(0, 200), max_size=12))
def test_any_split_gives_the_same_events(
    events: list[tuple[str, list[bytes]]], end: bytes, cuts: list[int]
) -> None:
    stream = b""
    for name, payloads in events:
        stream += b": comment" + end
        if name:
            stream += b"event: " + name.encode() + end
        stream += b"".join(b"data: " + payload + end for payload in payloads) + end
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[left:right] for left, right in pairwise(bounds)]
    expected = [Event(name, b"\n".join(payloads)) for name, payloads in events]
    assert split(*pieces) == expected
    assert split(*(stream[i : i + 1] for i in range(len(stream)))) == expected
