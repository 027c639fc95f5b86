"""The published tables through `fit`, as a user meets them: records in, ratings and errors out."""

from __future__ import annotations

import numpy as np
import published
import pytest

from elometer.core.errors import UsageError
from elometer.rating.fit import FitOptions, elo_ratings, fit, text_table
from elometer.rating.records import PairRecord, RecordSet

ELO = 400 / np.log(10)


def record(a: str, b: str, outcome: str, weight: float = 1.0) -> PairRecord:
    winner, loser = {"a": (a, b), "b": (b, a), "tie": (None, None)}[outcome]
    return PairRecord(
        experiment_id="p",
        task="t",
        run=1,
        winner=winner,
        loser=loser,
        a=a,
        b=b,
        outcome=outcome,
        weight=weight,
    )


def test_citations() -> None:
    pairs = published.bare_lines(published.CITATIONS, published.JOURNALS)
    records = RecordSet.from_pairs(pairs)
    result = fit(records, None, FitOptions(estimator="mle", anchor="Biometrika"))
    np.testing.assert_allclose([row.theta for row in result.strategies], published.CITATIONS_ML, atol=1e-8)
    np.testing.assert_allclose([row.se for row in result.strategies], published.CITATIONS_SE, atol=1e-8)
    penalised = fit(records, None, FitOptions(anchor="Biometrika"))
    np.testing.assert_allclose(
        [row.theta for row in penalised.strategies], published.CITATIONS_FIRTH, atol=1e-8
    )
    np.testing.assert_allclose(
        [row.se for row in penalised.strategies], published.CITATIONS_FIRTH_SE, atol=1e-8
    )
    alone = elo_ratings(records, FitOptions(anchor="Biometrika"))
    for row in penalised.strategies:
        assert alone[row.strategy] == pytest.approx(row.elo, abs=1e-6)


def baseball() -> RecordSet:
    return RecordSet.from_records(
        record(home, away, outcome)
        for home, away, won, lost in published.BASEBALL
        for outcome in "a" * won + "b" * lost
    )


def test_baseball_with_and_without_the_home_effect() -> None:
    plain = fit(baseball(), None, FitOptions(estimator="mle", anchor="Ba"))
    np.testing.assert_allclose([row.theta for row in plain.strategies], published.BASEBALL_ML, atol=1e-8)
    np.testing.assert_allclose([row.se for row in plain.strategies], published.BASEBALL_SE, atol=1e-8)
    home = fit(baseball(), None, FitOptions(estimator="mle", anchor="Ba", position=True))
    np.testing.assert_allclose([row.theta for row in home.strategies], published.BASEBALL_HOME, atol=1e-8)
    np.testing.assert_allclose([row.se for row in home.strategies], published.BASEBALL_HOME_SE, atol=1e-8)
    assert home.position == pytest.approx(published.BASEBALL_HOME_EFFECT, abs=1e-8)
    assert "shown first is worth +52.5 Elo" in text_table(home)


def test_a_position_that_names_explain_is_refused() -> None:
    records = RecordSet.from_records([record("x", "y", "a"), record("x", "y", "b")])
    with pytest.raises(UsageError):
        fit(records, None, FitOptions(position=True))


def test_puddings() -> None:
    names = [f"pudding_{k}" for k in range(1, 7)]
    made = []
    for i in range(6):
        for j in range(i + 1, 6):
            made += [record(names[i], names[j], "a")] * int(published.PUDDING_WINS[i, j])
            made += [record(names[i], names[j], "b")] * int(published.PUDDING_WINS[j, i])
            made += [record(names[i], names[j], "tie")] * int(published.PUDDING_TIES[i, j])
    records = RecordSet.from_records(made)
    expected = {
        ("davidson", "half"): published.PUDDING_DAVIDSON,
        ("mle", "davidson"): published.PUDDING_DAVIDSON,
        ("mle", "half"): published.PUDDING_HALF,
        ("mle", "drop"): published.PUDDING_DROPPED,
    }
    for (estimator, ties), theta in expected.items():
        result = fit(records, None, FitOptions(estimator=estimator, ties=ties))
        np.testing.assert_allclose([row.theta for row in result.strategies], theta, atol=1e-8)
    davidson = fit(records, None, FitOptions(estimator="davidson"))
    np.testing.assert_allclose(
        [row.se for row in davidson.strategies], published.PUDDING_DAVIDSON_SE, atol=1e-8
    )
    assert davidson.log_nu == pytest.approx(published.PUDDING_LOG_NU, abs=1e-8)


def test_weights_never_change_the_sample_size() -> None:
    """arena-hard-auto counted a verdict three times, and its intervals shrank."""
    pairs = [("a", "b", "a")] * 14 + [("a", "b", "b")] * 9
    once = fit(RecordSet.from_records(record(*pair) for pair in pairs))
    thrice = fit(RecordSet.from_records(record(*pair, weight=3.0) for pair in pairs))
    for one, other in zip(once.strategies, thrice.strategies, strict=True):
        assert one.elo == pytest.approx(other.elo, abs=1e-6)
        assert one.se == pytest.approx(other.se, abs=1e-8)
