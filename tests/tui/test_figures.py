from elometer.tui import figures


def test_numbers_keep_to_their_width() -> None:
    assert figures.compact(999) == "999"
    assert figures.compact(1_234) == "1.2k"
    assert figures.compact(999_960) == "1.0M"
    assert figures.compact(23_400_000) == "23.4M"
    assert figures.count_in(1_234_567, 9) == "1,234,567"
    assert figures.count_in(12_345_678, 9, "~") == "~12.3M"


def test_unknown_is_a_dash_and_never_zero() -> None:
    shown = [figures.count(None), figures.signed(None), figures.interval(None, 1), figures.share(None)]
    assert shown == ["–"] * 4
    assert figures.duration(None) == "–"


def test_an_unfinished_share_is_never_shown_as_whole() -> None:
    assert figures.share(0.9999) == "99 %"
    assert figures.share(1.0) == "100 %"


def test_durations_and_intervals_read_as_people_write_them() -> None:
    assert figures.duration(42) == "0:42"
    assert figures.duration(3_725) == "1:02:05"
    assert figures.duration(2 * 86_400 + 3 * 3_600) == "2 d 3 h"
    assert figures.interval(-9, 20) == "[−9.0, +20.0]"
    assert figures.short_interval(-0.12, 2.55) == "[−0.12, +2.55]"
    assert figures.short_interval(-434.9, 1328.7) == "[−435, +1329]"


def test_bar_is_as_wide_as_asked_and_full_only_at_the_end() -> None:
    assert figures.bar(0.5, 10) == "━━━━━─────"
    assert figures.bar(None, 4) == "────"
    assert figures.bar(2.0, 4) == "━━━━"
