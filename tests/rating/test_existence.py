"""Where no finite maximum exists, and what other programs print there; each wrong result of theirs is a test."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elometer.core.errors import UsageError
from elometer.rating.fit import FitOptions, fit, fit_json, text_table
from elometer.rating.graph import win_graph
from elometer.rating.reading import RecordReader
from elometer.rating.records import RecordSet, read_records

FOUNDING = Path(__file__).parents[1] / "fixtures" / "founding" / "records.jsonl"
ELO = 400.0 / math.log(10.0)


def from_pairs(pairs: list[tuple[str, str]]) -> RecordSet:
    reader = RecordReader()
    reader.add_jsonl("".join(json.dumps(pair) + "\n" for pair in pairs).encode())
    return reader.finish()


def gap(records: RecordSet, one: str, other: str, options: FitOptions | None = None) -> float:
    result = fit(records, None, options)
    return result.row(other).elo - result.row(one).elo


def test_the_founding_six_records() -> None:
    result = fit(read_records(FOUNDING))
    elo = [row.elo for row in result.strategies]
    np.testing.assert_allclose(elo, [1000, 1000, 1000, 809.15149811, 618.30299622], atol=1e-6)
    assert not result.identified
    assert result.components == (("sample_1", "sample_2", "sample_4"), ("sample_8",), ("sample_16",))
    assert [(each.strategy, each.direction) for each in result.unbounded] == [
        ("sample_8", "below"),
        ("sample_16", "below"),
    ]
    assert not any(row.resolved or row.resolved_simultaneous for row in result.strategies)
    for name in ("sample_8", "sample_16"):
        row = result.row(name)
        assert (row.elo_lo, row.elo_hi, row.delta_lo, row.delta_hi, row.se) == (None,) * 5
    text = text_table(result)
    assert "no finite maximum" in text
    assert "{sample_1, sample_2, sample_4} > {sample_8} > {sample_16}" in text.replace("\n  ", " ")
    assert "809.15 *" in text
    assert "618.30 *" in text
    assert "this task only" in text
    everything = text + json.dumps(fit_json(result))
    assert not any(
        artefact in everything for artefact in ("-5733", "-4872", "-1944", "-2885", "Infinity", "NaN")
    )


def test_standard_errors_of_the_founding_penalised_fit() -> None:
    """Against sample_1, by brglm 0.7.2 (R 4.2.2, 2026-11-29); those of the last two are not to be printed."""
    result = fit(read_records(FOUNDING))
    spread = result.estimate.model_covariance
    own = np.diag(spread)
    errors = np.sqrt(own[0] + own - 2 * spread[0])
    expected = [0, 1.41421356237310, 2.0, 3.05505046330389, 3.82970843102535]
    np.testing.assert_allclose(errors, expected, atol=1e-8)


def test_plain_maximum_likelihood_refuses_with_the_components() -> None:
    with pytest.raises(UsageError) as caught:
        fit(read_records(FOUNDING), None, FitOptions(estimator="mle"))
    assert caught.value.exit_code == 2
    assert "no finite maximum" in caught.value.message
    assert "{sample_1, sample_2, sample_4} > {sample_8} > {sample_16}" in caught.value.evidence


def test_the_anchor_decides_the_direction_only() -> None:
    result = fit(read_records(FOUNDING), None, FitOptions(anchor="sample_8"))
    directions = {each.strategy: each.direction for each in result.unbounded}
    assert directions == {"sample_1": "above", "sample_2": "above", "sample_4": "above", "sample_16": "below"}
    assert result.row("sample_16").elo == pytest.approx(1000 - ELO * math.log(3))


def test_three_games_all_won_are_not_three_equal_players() -> None:
    """evalica 0.4.2 gives a = b = c = 1e-6 for a>b, b>a, a>c; a and b are equal, c is below without bound."""
    result = fit(from_pairs([("a", "b"), ("b", "a"), ("a", "c")]))
    assert result.row("a").elo == pytest.approx(result.row("b").elo)
    assert result.row("c").elo < result.row("a").elo - 50
    assert not result.row("c").identified
    assert result.components == (("a", "b"), ("c",))


def five_with(extreme: str, *, wins: bool) -> list[tuple[str, str]]:
    """500 games among a … e by the strengths 0, ¼, ½, ¾, save that one of them always wins or always loses."""
    rng = np.random.default_rng(4)
    names = "abcde"
    games = []
    for _ in range(500):
        i, j = (int(x) for x in rng.choice(5, 2, replace=False))
        chance = 1 / (1 + math.exp(0.25 * (j - i)))
        if names[i] == extreme:
            first = wins
        elif names[j] == extreme:
            first = not wins
        else:
            first = rng.random() < chance
        games.append((names[i], names[j]) if first else (names[j], names[i]))
    return games


@pytest.mark.parametrize("wins", [True, False])
def test_one_that_always_wins_leaves_the_others_their_ratings(wins: bool) -> None:
    """evalica gives all five 0.0 there, and calls it converged."""
    games = five_with("c", wins=wins)
    result = fit(from_pairs(games), None, FitOptions(anchor="a"))
    without = [game for game in games if "c" not in game]
    alone = fit(from_pairs(without), None, FitOptions(anchor="a"))
    for name in "bde":
        assert result.row(name).elo == pytest.approx(alone.row(name).elo, abs=8)
        assert result.row(name).delta_lo is not None or name == "d"
    assert not result.row("c").identified
    assert result.unbounded[0].direction == ("above" if wins else "below")
    assert (result.row("c").elo > max(result.row(n).elo for n in "abde")) is wins


def test_an_interval_does_not_depend_on_unrelated_games() -> None:
    """arena-rank 0.1.1: the half-width of c against a shrinks from 68 to 10 Elo while a-b games grow."""
    for unrelated in (100, 10_000, 1_000_000):
        wins = np.zeros((3, 3))
        wins[0, 1] = wins[1, 0] = unrelated / 2
        wins[0, 2] = wins[2, 0] = 25
        row = fit(counts_of(wins)).row("c")
        half = (row.gain_hi - row.gain_lo) / 2
        assert half == pytest.approx(96.3, abs=0.05)


def counts_of(wins: np.ndarray) -> RecordSet:
    low, high = np.triu_indices(len(wins), 1)
    met = (wins + wins.T)[low, high] > 0
    low, high = low[met], high[met]
    count = (wins[low, high] + wins[high, low]).astype(int)
    zero = np.zeros(len(low), dtype=int)
    return RecordSet(
        None, ("a", "b", "c"), ("",), np.array([0]), np.array([1]), np.array([0]), zero, low, high,
        wins[low, high], wins[high, low], zero.astype(float), count, zero,
    )  # fmt: skip


def test_an_estimate_that_does_not_exist_has_no_interval_of_width_zero() -> None:
    """arena-rank prints [-406, -406] and [-4146, -4146] as 95 % intervals for the founding records."""
    for row in fit(read_records(FOUNDING)).strategies:
        assert row.elo_lo is None or row.elo_hi - row.elo_lo > 100


def test_all_winners_on_one_side_is_an_orientation_and_nothing_else() -> None:
    """The usual logistic-regression recipe fails with "needs samples of at least 2 classes"."""
    pairs = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "b")]
    reader = RecordReader()
    reader.add_jsonl(
        b"".join(
            json.dumps({"a": loser, "b": winner, "outcome": "b", "winner": winner, "loser": loser}).encode()
            + b"\n"
            for winner, loser in pairs
        )
    )
    assert [row.elo for row in fit(reader.finish()).strategies] == [
        row.elo for row in fit(from_pairs(pairs)).strategies
    ]


def test_unplayed_pairs_get_no_pseudo_games() -> None:
    """Pseudo counts on unplayed pairs move existing contrasts when unrelated items are added."""
    pairs = [("a", "b")] * 30 + [("b", "a")] * 20
    alone = gap(from_pairs(pairs), "a", "b")
    joined = from_pairs(pairs + [("x", "y")] * 10 + [("y", "x")] * 5)
    result = fit(joined)
    assert result.row("b").elo - result.row("a").elo == pytest.approx(alone, abs=1e-6)
    assert result.row("x").elo is None
    assert result.islands == (("a", "b"), ("x", "y"))
    assert any(each.code == "disconnected" for each in result.warnings)
    assert result.row("y").delta_elo is not None  # inside their own island they are rated
    assert result.row("y").delta_lo is not None
    assert "no_finite_maximum" not in {each.code for each in result.warnings}  # each island has one
    text = text_table(result)
    assert "* no Elo: x, y. No chain of comparisons joins them with a." in text
    assert ">" not in text
    with pytest.raises(UsageError) as refused:
        fit(joined, None, FitOptions(estimator="mle"))
    assert "{a, b}; {x, y}" in refused.value.evidence


def test_two_strategies_work() -> None:
    """BradleyTerry2 #13: K = 2 crashes."""
    assert gap(from_pairs([("a", "b")] * 7 + [("b", "a")] * 3), "b", "a") == pytest.approx(
        ELO * math.log(7.5 / 3.5)
    )


def test_all_ties_are_all_equal() -> None:
    """An all-tie data set is wiped, or NaN, elsewhere."""
    reader = RecordReader()
    reader.add_jsonl(b'{"a":"x","b":"y","outcome":"tie"}\n{"a":"y","b":"z","outcome":"tie"}\n')
    result = fit(reader.finish())
    assert [row.elo for row in result.strategies] == [1000.0, 1000.0, 1000.0]
    assert result.identified
    assert result.tie_rate == 1.0


def test_the_estimator_does_not_depend_on_names() -> None:
    """tabarena PR 502: the spelling of a method's name switched the estimator."""
    pairs = five_with("a", wins=True)
    plain = fit(from_pairs(pairs))
    renamed = fit(from_pairs([(f"default_{w}", f"default_{x}") for w, x in pairs]))
    assert [r.elo for r in plain.strategies] == [r.elo for r in renamed.strategies]


def test_the_anchor_is_display_only() -> None:
    """FastChat #3377: anchoring to one model widened all intervals."""
    pairs = [("a", "b")] * 40 + [("b", "a")] * 30 + [("b", "c")] * 2 + [("c", "b")] * 2
    widths = []
    for anchor in "abc":
        result = fit(from_pairs(pairs), None, FitOptions(anchor=anchor))
        widths.append([row.elo_hi - row.elo_lo for row in result.strategies])
        assert result.row(anchor).elo == 1000.0
    np.testing.assert_allclose(widths[0], widths[1], rtol=1e-9)
    np.testing.assert_allclose(widths[0], widths[2], rtol=1e-9)


def test_point_estimates_do_not_depend_on_the_seed() -> None:
    """tabarena PR 215 and 226: the reported Elo was a bootstrap median and moved with the seed."""
    records = from_pairs(five_with("z", wins=True))
    one, other = (fit(records, None, FitOptions(seed=seed)) for seed in (0, 1))
    assert [r.elo for r in one.strategies] == [r.elo for r in other.strategies]
    assert [r.delta_lo for r in one.strategies] == [r.delta_lo for r in other.strategies]


names = st.sampled_from("abcde")
games = st.lists(st.tuples(names, names).filter(lambda pair: pair[0] != pair[1]), min_size=1, max_size=40)


@given(games, st.randoms(use_true_random=False), st.permutations("vwxyz"))
def test_order_orientation_and_names_do_not_matter(games: list, random: object, other: list) -> None:
    plain = fit(from_pairs(games))
    shuffled = list(games)
    random.shuffle(shuffled)
    new = dict(zip("abcde", other, strict=True))
    back = {value: key for key, value in new.items()}
    anchor = new[plain.anchor]
    renamed = fit(from_pairs([(new[w], new[x]) for w, x in shuffled]), None, FitOptions(anchor=anchor))
    for row in renamed.strategies:
        twin = plain.row(back[row.strategy])
        assert (row.elo is None) == (twin.elo is None)
        if row.elo is not None:
            assert row.elo == pytest.approx(twin.elo, abs=1e-5)
            assert row.identified == twin.identified
        assert (row.gain_lo is None) == (twin.gain_lo is None)
        if row.gain_lo is not None:
            assert row.gain_lo == pytest.approx(twin.gain_lo, abs=1e-5)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_components_are_those_of_reachability(pairs: list[tuple[int, int]]) -> None:
    wins = np.zeros((7, 7))
    for winner, loser in pairs:
        if winner != loser:
            wins[winner, loser] = 1
    paths = np.eye(7, dtype=bool) | (wins > 0)
    for _ in range(7):
        paths = paths | (paths.astype(int) @ paths.astype(int) > 0)
    graph = win_graph(wins)
    both = paths & paths.T
    for i in range(7):
        assert set(graph.components[graph.component_of[i]]) == set(np.flatnonzero(both[i]).tolist())
    for stronger, weaker in pairwise(graph.components):
        assert not paths[weaker[0], stronger[0]]


def test_a_long_chain_of_wins_is_ordered() -> None:
    wins = np.diag(np.ones(499), 1)
    assert win_graph(wins).components == tuple((i,) for i in range(500))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_no_point_lies_outside_its_own_bar(games: list[tuple[int, int]]) -> None:
    """ComparIA PR 470: a dot beside its interval, which resampled fits at −3800 Elo had dragged away."""
    pairs = [(f"s{a}", f"s{b}") for a, b in games if a != b]
    if len({name for pair in pairs for name in pair}) < 2:
        return
    for row in fit(from_pairs(pairs)).strategies:
        for value, low, high in (
            (row.elo, row.elo_lo, row.elo_hi),
            (row.delta_elo, row.delta_lo, row.delta_hi),
        ):
            if low is not None and high is not None:
                assert low <= value <= high


def test_a_term_that_runs_away_with_strengths_is_refused() -> None:
    """Won and tied but never lost: under Davidson strength and ties grow for ever, though ties count both ways.

    So does the worth of being shown first where whoever was shown first always won.
    """
    reader = RecordReader()
    reader.add_jsonl(b'{"a":"x","b":"y","outcome":"tie"}\n{"a":"x","b":"y","outcome":"a"}\n' * 6)
    tied = reader.finish()
    reader = RecordReader()
    reader.add_jsonl(b'{"a":"x","b":"y","outcome":"a"}\n{"a":"y","b":"x","outcome":"a"}\n' * 6)
    first = reader.finish()
    for records, choice in (
        (tied, {"estimator": "davidson"}),
        (first, {"estimator": "mle", "position": True}),
    ):
        with pytest.raises(UsageError, match="no finite maximum"):
            fit(records, None, FitOptions(**choice))
    for records, choice in ((tied, {"ties": "davidson"}), (first, {"position": True})):
        for row in fit(records, None, FitOptions(**choice)).strategies:
            assert abs(row.elo - 1000) < 1500
