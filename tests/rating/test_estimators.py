"""Estimators against published tables, closed forms and finite differences."""

from __future__ import annotations

import math

import numpy as np
import published
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elometer.rating.estimators import bradley_terry, davidson, position

ELO = 400.0 / math.log(10.0)


def islands(size: int) -> np.ndarray:
    return np.zeros(size, dtype=int)


def against_first(theta: np.ndarray) -> np.ndarray:
    return theta - theta[0]


def errors_against_first(spread: np.ndarray, size: int) -> np.ndarray:
    own = np.diag(spread)[:size]
    return np.sqrt(np.maximum(own[0] + own - 2.0 * spread[0, :size], 0.0))


def spread_of(theta: np.ndarray, wins: np.ndarray) -> np.ndarray:
    matrix = bradley_terry.information(theta, wins + wins.T)
    return bradley_terry.covariance(matrix, bradley_terry.gauge(islands(len(wins))))


def test_citations_by_maximum_likelihood() -> None:
    found = bradley_terry.fit_maximum_likelihood(published.CITATIONS[None], islands(4))
    assert found.converged.all()
    np.testing.assert_allclose(against_first(found.theta[0]), published.CITATIONS_ML, atol=1e-8)
    spread = spread_of(found.theta[0], published.CITATIONS)
    np.testing.assert_allclose(errors_against_first(spread, 4), published.CITATIONS_SE, atol=1e-8)
    for (i, j), value in published.CITATIONS_COVARIANCE.items():
        found_value = spread[i, j] - spread[0, i] - spread[0, j] + spread[0, 0]
        assert found_value == pytest.approx(value, abs=1e-8)


def test_citations_log_likelihood() -> None:
    found = bradley_terry.fit_maximum_likelihood(published.CITATIONS[None], islands(4))
    wins = published.CITATIONS
    coefficients = sum(
        math.lgamma(wins[i, j] + wins[j, i] + 1) - math.lgamma(wins[i, j] + 1) - math.lgamma(wins[j, i] + 1)
        for i in range(4)
        for j in range(i)
    )
    value = bradley_terry.log_likelihood(found.theta, wins[None])[0] + coefficients
    assert value == pytest.approx(published.CITATIONS_LOG_LIKELIHOOD, abs=1e-6)


def test_citations_with_the_penalty() -> None:
    found = bradley_terry.fit_firth(published.CITATIONS[None], islands(4))
    assert found.converged.all()
    np.testing.assert_allclose(against_first(found.theta[0]), published.CITATIONS_FIRTH, atol=1e-8)
    spread = spread_of(found.theta[0], published.CITATIONS)
    np.testing.assert_allclose(errors_against_first(spread, 4), published.CITATIONS_FIRTH_SE, atol=1e-8)


def baseball() -> tuple[np.ndarray, np.ndarray]:
    first, played = np.zeros((7, 7)), np.zeros((7, 7))
    for home, away, won, lost in published.BASEBALL:
        i, j = published.TEAMS.index(home), published.TEAMS.index(away)
        first[i, j], played[i, j] = won, won + lost
    return first, played


def test_baseball_without_a_home_effect() -> None:
    first, played = baseball()
    wins = first + (played - first).T
    found = bradley_terry.fit_maximum_likelihood(wins[None], islands(7))
    np.testing.assert_allclose(against_first(found.theta[0]), published.BASEBALL_ML, atol=1e-8)
    # By default R takes standard errors from the weights of the step before the last, which costs it the
    # seventh digit; these are from a run to the last one.
    errors = errors_against_first(spread_of(found.theta[0], wins), 7)
    np.testing.assert_allclose(errors, published.BASEBALL_SE, atol=1e-8)
    penalised = bradley_terry.fit_firth(wins[None], islands(7))
    np.testing.assert_allclose(against_first(penalised.theta[0]), published.BASEBALL_FIRTH, atol=1e-8)
    errors = errors_against_first(spread_of(penalised.theta[0], wins), 7)
    np.testing.assert_allclose(errors, published.BASEBALL_FIRTH_SE, atol=1e-8)


@pytest.mark.parametrize(
    ("penalised", "abilities", "errors", "effect"),
    [
        (False, published.BASEBALL_HOME, published.BASEBALL_HOME_SE, published.BASEBALL_HOME_EFFECT),
        (
            True,
            published.BASEBALL_HOME_FIRTH,
            published.BASEBALL_HOME_FIRTH_SE,
            published.BASEBALL_HOME_FIRTH_EFFECT,
        ),
    ],
)
def test_baseball_with_a_home_effect(
    penalised: bool, abilities: np.ndarray, errors: np.ndarray, effect: tuple[float, float]
) -> None:
    first, played = baseball()
    found = position.fit_position(first, played, penalised=penalised)
    assert found.converged.all()
    parameters = found.theta[0]
    np.testing.assert_allclose(against_first(parameters[:7]), abilities, atol=1e-8)
    spread = davidson.covariance(position.information(parameters, played))
    np.testing.assert_allclose(errors_against_first(spread, 7), errors, atol=1e-8)
    assert (parameters[7], math.sqrt(spread[7, 7])) == pytest.approx(effect, abs=1e-8)


def test_puddings_by_davidson() -> None:
    found = davidson.fit_davidson(published.PUDDING_WINS, published.PUDDING_TIES, penalised=False)
    assert found.converged.all()
    parameters = found.theta[0]
    np.testing.assert_allclose(against_first(parameters[:6]), published.PUDDING_DAVIDSON, atol=1e-8)
    games = published.PUDDING_WINS + published.PUDDING_WINS.T + published.PUDDING_TIES
    spread = davidson.covariance(davidson.information(parameters, games))
    np.testing.assert_allclose(errors_against_first(spread, 6), published.PUDDING_DAVIDSON_SE, atol=1e-8)
    log_nu, error = published.PUDDING_LOG_NU
    assert parameters[6] == pytest.approx(log_nu, abs=1e-8)
    assert math.sqrt(spread[6, 6]) == pytest.approx(error, abs=1e-8)


def test_two_islands_share_one_tie_parameter() -> None:
    """Two copies side by side have the maximum of one copy; the penalised maximum is flat to differences."""
    apart = np.repeat([0, 1], 6)
    wins, ties = (np.kron(np.eye(2), matrix) for matrix in (published.PUDDING_WINS, published.PUDDING_TIES))
    one = davidson.fit_davidson(published.PUDDING_WINS, published.PUDDING_TIES, penalised=False).theta[0]
    two = davidson.fit_davidson(wins, ties, apart, penalised=False).theta[0]
    np.testing.assert_allclose(two, np.concatenate([one[:-1], one]), atol=1e-9)
    found = davidson.fit_davidson(wins, ties, apart, penalised=True)
    assert found.converged.all()
    games, shift = wins + wins.T + ties, davidson.gauge(12, apart)

    def objective(at: np.ndarray) -> float:
        return davidson.log_likelihood(at, wins, ties) + davidson.penalty(at, games, shift)

    np.testing.assert_allclose(numeric(objective, found.theta[0]), 0.0, atol=1e-4)


def test_puddings_with_ties_half_and_dropped() -> None:
    half = published.PUDDING_WINS + 0.5 * published.PUDDING_TIES
    found = bradley_terry.fit_maximum_likelihood(half[None], islands(6))
    np.testing.assert_allclose(against_first(found.theta[0]), published.PUDDING_HALF, atol=1e-8)
    spread = spread_of(found.theta[0], half)
    np.testing.assert_allclose(errors_against_first(spread, 6), published.PUDDING_HALF_FISHER_SE, atol=1e-8)
    sandwich = bradley_terry.record_sandwich(found.theta[0], published.PUDDING_WINS, published.PUDDING_TIES)
    np.testing.assert_allclose(
        errors_against_first(sandwich, 6), published.PUDDING_HALF_SANDWICH_SE, atol=1e-6
    )
    dropped = bradley_terry.fit_maximum_likelihood(published.PUDDING_WINS[None], islands(6))
    np.testing.assert_allclose(against_first(dropped.theta[0]), published.PUDDING_DROPPED, atol=1e-8)


def test_the_worked_example() -> None:
    found = bradley_terry.fit_maximum_likelihood(published.WORKED[None], islands(4))
    np.testing.assert_allclose(np.exp(found.theta[0]), published.WORKED_WORTHS, atol=5e-8)


@pytest.mark.parametrize(("won", "lost"), [(7, 3), (1, 1), (999, 1), (0.5, 12)])
def test_two_strategies_in_closed_form(won: float, lost: float) -> None:
    wins = np.array([[0.0, won], [lost, 0.0]])
    theta = bradley_terry.fit_maximum_likelihood(wins[None], islands(2)).theta[0]
    assert theta[0] - theta[1] == pytest.approx(math.log(won / lost), abs=1e-8)
    error = errors_against_first(spread_of(theta, wins), 2)[1]
    assert error == pytest.approx(math.sqrt(1 / won + 1 / lost), abs=1e-7)
    theta = bradley_terry.fit_firth(wins[None], islands(2)).theta[0]
    assert theta[0] - theta[1] == pytest.approx(math.log((won + 0.5) / (lost + 0.5)), abs=1e-8)


@pytest.mark.parametrize("each", [1, 1000])
def test_best_of_n_is_exactly_bradley_terry(each: int) -> None:
    rungs = np.array([1, 2, 4, 8, 16.0])
    wins = each * rungs[:, None] / (rungs[:, None] + rungs[None, :])
    np.fill_diagonal(wins, 0.0)
    theta = bradley_terry.fit_maximum_likelihood(wins[None], islands(5)).theta[0]
    expected = [0.0, 120.411998, 240.823997, 361.235995, 481.647993]
    np.testing.assert_allclose(ELO * against_first(theta), expected, atol=1e-6)
    np.testing.assert_allclose(ELO * against_first(theta), 400 * np.log10(rungs), atol=1e-8)


def test_penalty_adds_k_minus_one_comparisons() -> None:
    games = published.CITATIONS + published.CITATIONS.T
    shift = bradley_terry.gauge(islands(4))
    assert bradley_terry.leverage(np.array([0.3, -1, 0, 2.0]), games, shift).sum() / 2 == pytest.approx(3.0)


counts = st.lists(st.integers(0, 9), min_size=12, max_size=12)
abilities = st.lists(st.floats(-3, 3), min_size=4, max_size=4)


def matrix_of(values: list[int]) -> np.ndarray:
    wins = np.zeros((4, 4))
    wins[~np.eye(4, dtype=bool)] = values
    return wins + np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1)


def numeric(function, at: np.ndarray) -> np.ndarray:
    step = 1e-5
    return np.array(
        [(function(at + step * e) - function(at - step * e)) / (2 * step) for e in np.eye(len(at))]
    )


@settings(max_examples=40)
@given(counts, abilities)
def test_derivatives_of_bradley_terry(values: list[int], theta: list[float]) -> None:
    wins, at = matrix_of(values), np.array(theta)
    shift = bradley_terry.gauge(islands(4))
    games = wins + wins.T
    slope = numeric(lambda x: bradley_terry.log_likelihood(x, wins), at)
    np.testing.assert_allclose(slope, bradley_terry.score(at, wins), atol=1e-5)
    hessian = np.array([numeric(lambda x, i=i: bradley_terry.score(x, wins)[i], at) for i in range(4)])
    np.testing.assert_allclose(hessian, -bradley_terry.information(at, games), atol=1e-5)
    penalised = numeric(
        lambda x: bradley_terry.log_likelihood(x, wins) + bradley_terry.penalty(x, games, shift), at
    )
    np.testing.assert_allclose(penalised, bradley_terry.penalised_score(at, wins, shift), atol=1e-4)


@settings(max_examples=40)
@given(counts, counts, abilities, st.floats(-2, 2))
def test_derivatives_of_davidson(won: list[int], tied: list[int], theta: list[float], log_nu: float) -> None:
    wins, ties = matrix_of(won), matrix_of(tied)
    ties = ties + ties.T
    at = np.array([*theta, log_nu])
    games = wins + wins.T + ties
    slope = numeric(lambda x: davidson.log_likelihood(x, wins, ties), at)
    np.testing.assert_allclose(slope, davidson.score(at, wins, ties), atol=1e-5)
    hessian = np.array([numeric(lambda x, i=i: davidson.score(x, wins, ties)[i], at) for i in range(5)])
    np.testing.assert_allclose(hessian, -davidson.information(at, games), atol=1e-5)
    penalty = numeric(lambda x: davidson.penalty(x, games), at)
    np.testing.assert_allclose(penalty, davidson.penalty_score(at, games), atol=1e-4)


@settings(max_examples=40)
@given(counts, counts, abilities, st.floats(-2, 2))
def test_derivatives_of_the_position_model(
    won: list[int], lost: list[int], theta: list[float], effect: float
) -> None:
    first = matrix_of(won)
    games = first + matrix_of(lost)
    at = np.array([*theta, effect])
    slope = numeric(lambda x: position.log_likelihood(x, first, games), at)
    np.testing.assert_allclose(slope, position.score(at, first, games), atol=1e-5)
    hessian = np.array([numeric(lambda x, i=i: position.score(x, first, games)[i], at) for i in range(5)])
    np.testing.assert_allclose(hessian, -position.information(at, games), atol=1e-5)
    shift = np.zeros((5, 5))
    shift[:4, :4] = 0.25
    penalty = numeric(lambda x: 0.5 * np.linalg.slogdet(position.information(x, games) + shift)[1], at)
    np.testing.assert_allclose(penalty, position.penalty_score(at, games), atol=1e-4)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=12, max_size=12))
def test_firth_is_finite_and_flat_on_every_connected_graph(values: list[int]) -> None:
    wins = np.zeros((4, 4))
    wins[~np.eye(4, dtype=bool)] = values
    wins += np.diag([1.0, 1.0, 1.0], 1)
    found = bradley_terry.fit_firth(wins[None], islands(4))
    assert found.converged.all()
    assert np.isfinite(found.theta).all()
    slope = bradley_terry.penalised_score(found.theta, wins[None], bradley_terry.gauge(islands(4)))
    assert np.abs(slope).max() <= 1e-10 * wins.sum()


def test_a_chain_of_thirty_is_solved_to_the_last_digit() -> None:
    """8 games per link, 5 to 3: the estimate of each link is ln(5/3); MM and L-BFGS stop 0.03 to 75 Elo short."""
    wins = 5.0 * np.diag(np.ones(29), 1) + 3.0 * np.diag(np.ones(29), -1)
    found = bradley_terry.fit_maximum_likelihood(wins[None], islands(30))
    assert found.converged.all()
    np.testing.assert_allclose(-np.diff(found.theta[0]), math.log(5 / 3), atol=1e-8)


def test_a_chain_of_eleven_thousand_elo_is_solved_too() -> None:
    """9 to 1 per link; tabarena PR 500 and 501: MM stopped at its cap more than 1,000 Elo short."""
    wins = 9.0 * np.diag(np.ones(29), 1) + 1.0 * np.diag(np.ones(29), -1)
    found = bradley_terry.fit_maximum_likelihood(wins[None], islands(30))
    assert found.converged.all()
    span = (found.theta[0, 0] - found.theta[0, -1]) * 400 / math.log(10)
    assert span == pytest.approx(29 * 400 * math.log10(9), abs=1e-4)  # 11,069


def test_a_thousand_strategies() -> None:
    rng = np.random.default_rng(3)
    theta = rng.normal(0, 0.7, 1000)
    chance = bradley_terry.probabilities(theta)
    wins = 3.0 * chance
    np.fill_diagonal(wins, 0.0)
    found = bradley_terry.fit_maximum_likelihood(wins[None], islands(1000))
    assert found.converged.all()
    np.testing.assert_allclose(found.theta[0], theta - theta.mean(), atol=1e-8)
