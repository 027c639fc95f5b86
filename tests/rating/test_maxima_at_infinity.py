"""Likelihoods that grow without end: refused where one fit was asked for, left aside among others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from elometer.core.errors import UsageError
from elometer.rating.estimators.newton import maximise
from elometer.rating.fit import fit
from elometer.rating.options import FitOptions
from elometer.rating.records import PairRecord, RecordSet

Floats = npt.NDArray[np.float64]


def record(a: str, b: str, outcome: str, weight: float = 1.0) -> PairRecord:
    winner, loser = {"a": (a, b), "b": (b, a), "tie": (None, None)}[outcome]
    return PairRecord(
        experiment_id="x", task="t", run=1, winner=winner, loser=loser, a=a, b=b, outcome=outcome,
        weight=weight,
    )  # fmt: skip


def test_davidsons_model_without_a_loss_of_a_pair_is_refused() -> None:
    """One win, one tie and no loss of a pair: with x and ν growing together both become certain in the limit.

    P(win) + P(tie) of that pair then tends to one, and every other pair only tied.
    """
    records = RecordSet.from_records(
        [
            record("sample_1", "sample_2", "a"),
            record("sample_1", "sample_2", "tie"),
            record("sample_1", "sample_4", "tie", 2.5),
            record("sample_2", "sample_8", "tie"),
        ]
    )
    with pytest.raises(UsageError, match="no finite maximum"):
        fit(records, None, FitOptions(estimator="mle", ties="davidson"))


def test_a_flat_row_leaves_the_others_to_their_maxima() -> None:
    """Maxima of a·t − eᵗ lie at ln a; the row in the middle has no curvature at all."""
    heights = np.array([2.0, 0.0, 5.0])

    def objective(theta: Floats, which: npt.NDArray[np.intp]) -> Floats:
        t = theta[:, 0]
        return np.where(which == 1, t, heights[which] * t - np.exp(t))

    def climb(theta: Floats, which: npt.NDArray[np.intp]) -> tuple[Floats, object]:
        t = theta[:, 0]
        slope = np.where(which == 1, 1.0, heights[which] - np.exp(t))[:, None]
        bend = np.where(which == 1, 0.0, np.exp(t))[:, None, None]
        return slope, lambda rows: np.linalg.solve(bend[rows], slope[rows][..., None])[..., 0]

    found = maximise(objective, climb, np.zeros((3, 1)), np.ones(3))  # type: ignore[arg-type]
    assert found.converged.tolist() == [True, False, True]
    assert found.theta[[0, 2], 0] == pytest.approx(np.log([2.0, 5.0]))
