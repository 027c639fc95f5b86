"""Plain maximum likelihood beside other programs, to 1e-8 where they are that exact.

The numbers below are output of choix 0.4.1 (`ilsr_pairwise_dense`, tol 1e-14) and evalica 0.4.2
(`bradley_terry`, tolerance 1e-17), run on these very tables on 2026-11-29; the two agree with each other to
2e-14. scorio 0.2.3 differs from both by up to 2e-4: it stops an L-BFGS with finite differences early. None of
them is a dependency of the tests.
"""

from __future__ import annotations

import numpy as np
import published
import pytest

from elometer.rating.estimators import bradley_terry
from elometer.rating.fit import FitOptions, fit
from elometer.rating.records import PairRecord, RecordSet

# Wins of the row's strategy against the column's, a digit each; drawn at random until strongly connected.
DESIGNS: list[tuple[list[str], list[float]]] = [
    (
        ["0063", "0044", "6401", "7160"],
        [0.000000000000, 0.812596856292, 0.052874833480, 0.772869256904],
    ),
    (
        ["0051001", "0000533", "2003000", "2000042", "0403020", "0501200", "4303000"],
        [0.000000000000, 0.191951297229, -0.038732144137, -0.129157415504, 0.339642342156,
         0.013790434833, 0.544683655585],
    ),
    (
        ["0000000304", "0000000002", "0000010002", "0000000400", "0002004020", "0020001230", "0000120100",
         "4002024030", "0020240300", "0130000000"],
        [0.000000000000, -1.495664302471, -2.266419273851, 0.247910483403, 0.840344215431, -0.496048989810,
         -0.633589821311, 0.055420510549, 0.172724075034, -2.188811483031],
    ),
    (
        ["0000020000000000", "0000002230000012", "0001001000000000", "0010000000000000", "0000000030001000",
         "3000000020000300", "0330020000000300", "0000000000001000", "0300333000000001", "0000100000001000",
         "0000000020010110", "0000000000100000", "0000100301000000", "0000013000200000", "0300000000100000",
         "0200000010000000"],
        [0.000000000000, 0.529783862186, -0.574868160347, -0.574868160347, 0.494978371130, 0.405465108108,
         0.523744128321, -1.097767442976, 0.714746765706, 1.193272340778, 1.105548995937, 1.105548995937,
         0.502695243586, 0.462860638082, 1.426340668513, 0.591399102782],
    ),
]  # fmt: skip
CITATIONS = [0.0, -2.949072496844, -0.479569769752, 0.268954055819]
BASEBALL = [
    0.0,
    1.107697705379,
    0.683852769159,
    1.436408431812,
    1.581355876661,
    1.247617845141,
    1.294485123912,
]

# 6 models × 120 answers, right or wrong, through scorio 0.2.3 `rank.bradley_terry` (max_iter 10**6): a pair of
# answers to one question is decisive where one is right. Its own stopping rule limits what can be compared.
ANSWERS = [
    "110010100100100001010000001010001100000000010010100000101000001001000000000110101000000000000011000101110000011000100000",
    "101000000110001011100110001111100000000010000101000001010100000000000100000100000010101100010101111000000100001100000000",
    "110100100001010110101101100010110010010101010000110000000100101101101101110111001101110110011000001111101110101000010000",
    "100001111111110000101101110110001000001100111001111101111010101011110000111110111110001010000100101011100011111100001100",
    "011111010111011010001011010111110110001001010111001111111001001110111111100110011110111011111100011111110000110000101111",
    "111111101110010011101100101101111111001111111111100011111011111110010101011110111110101111100101011101111111100100101001",
]  # fmt: skip
SCORIO = [0.0, 0.18024254, 0.95348706, 1.24615574, 1.5785369, 1.9812073]


def digits(rows: list[str]) -> np.ndarray:
    return np.array([[int(digit) for digit in row] for row in rows], dtype=float)


def theta_of(wins: np.ndarray) -> np.ndarray:
    """Through records, as a user's fit goes: one record a win."""
    names = tuple(f"s{k:02}" for k in range(len(wins)))
    records = RecordSet.from_pairs(published.bare_lines(wins, names))
    result = fit(records, None, FitOptions(estimator="mle"))
    return np.array([row.theta for row in result.strategies])


@pytest.mark.parametrize(("rows", "expected"), DESIGNS)
def test_random_connected_designs(rows: list[str], expected: list[float]) -> None:
    np.testing.assert_allclose(theta_of(digits(rows)), expected, atol=1e-8)


@pytest.mark.parametrize(("rows", "expected"), DESIGNS)
def test_the_search_with_and_without_bare_steps_agree(rows: list[str], expected: list[float]) -> None:
    """A batch of two goes through the safeguarded search alone."""
    wins = digits(rows)
    both = bradley_terry.fit_maximum_likelihood(np.stack([wins, wins.T]), np.zeros(len(wins), dtype=np.int64))
    assert both.converged.all()
    np.testing.assert_allclose(both.theta[0] - both.theta[0, 0], expected, atol=1e-8)
    np.testing.assert_allclose(both.theta[1], -both.theta[0], atol=1e-8)


def test_citations_and_baseball() -> None:
    np.testing.assert_allclose(theta_of(published.CITATIONS), CITATIONS, atol=1e-8)
    wins = np.zeros((7, 7))
    for home, away, won, lost in published.BASEBALL:
        i, j = published.TEAMS.index(home), published.TEAMS.index(away)
        wins[i, j] += won
        wins[j, i] += lost
    np.testing.assert_allclose(theta_of(wins), BASEBALL, atol=1e-8)


def test_answers_to_questions_as_scorio_pools_them() -> None:
    """Ties dropped and every record weighing the same is scorio's estimate."""
    right = digits(ANSWERS)
    lines = []
    for question in range(right.shape[1]):
        for i in range(6):
            for j in range(i + 1, 6):
                outcome = {1: "a", 0: "tie", -1: "b"}[int(right[i, question] - right[j, question])]
                a, b = f"s{i}", f"s{j}"
                winner, loser = {"a": (a, b), "b": (b, a), "tie": (None, None)}[outcome]
                lines.append(
                    PairRecord(
                        experiment_id="x", task=f"q{question // 4}", run=question % 4 + 1,
                        winner=winner, loser=loser, a=a, b=b, outcome=outcome,
                    )
                )  # fmt: skip
    options = FitOptions(estimator="mle", ties="drop", task_weight="records")
    result = fit(RecordSet.from_records(lines), None, options)
    np.testing.assert_allclose([row.theta for row in result.strategies], SCORIO, atol=1e-5)
