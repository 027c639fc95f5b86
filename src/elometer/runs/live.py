"""The fit of a start that is under way, from what came since the last one."""

from __future__ import annotations

from elometer.core.errors import UsageError
from elometer.ledger.charged import RunningCharges
from elometer.ledger.reader import Reading
from elometer.rating.fit import FitResult, fit
from elometer.rating.pairs import count_blocks
from elometer.runs.folder import ExperimentFolder
from elometer.runs.journal import Outcome
from elometer.runs.result import Blocks, fit_options, score_block, token_use, with_roles
from elometer.runs.spec import Experiment


class LiveFit:
    """The same numbers as `result.derive`, at the price of new lines only. For one thread at a time."""

    def __init__(self, experiment: Experiment, folder: ExperimentFolder) -> None:
        self.experiment = experiment
        self._outcomes = Reading(folder.outcomes, Outcome)
        self._charges = RunningCharges([folder.ledger], experiment.eval.token_basis)
        self._names = {item.name for item in experiment.contestants}
        self._blocks: Blocks = {}

    def update(self) -> FitResult | None:
        """The fit of what is on disk now; None while two strategies cannot be compared."""
        for outcome in self._outcomes:
            if outcome.strategy in self._names:
                score_block(self._blocks, outcome)
        chosen = self.experiment
        try:
            records = count_blocks(
                chosen.experiment_id, self._blocks.values(), tie_epsilon=chosen.eval.tie_epsilon
            )
            fitted = fit(records, token_use(self._charges.update()), fit_options(chosen))
        except UsageError:
            return None
        return with_roles(chosen, fitted)
