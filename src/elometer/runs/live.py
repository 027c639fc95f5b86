"""The fit of a start that is under way, from what came since the last one."""

from __future__ import annotations

from elometer.core.errors import UsageError
from elometer.ledger.charged import RunningCharges
from elometer.ledger.reader import Reading
from elometer.rating.fit import FitResult, fit
from elometer.rating.pairs import count_blocks
from elometer.rating.records import RecordSet
from elometer.runs.folder import ExperimentFolder
from elometer.runs.journal import Outcome
from elometer.runs.pairing import Blocks, Pairing, score_block
from elometer.runs.result import fit_options, token_use, with_roles
from elometer.runs.spec import Experiment


class LiveFit:
    """The same numbers as `result.derive`, at the price of new lines only. For one thread at a time."""

    def __init__(self, experiment: Experiment, folder: ExperimentFolder) -> None:
        self.experiment = experiment
        self._outcomes = Reading(folder.outcomes, Outcome)
        self._charges = RunningCharges([folder.ledger], experiment.eval.token_basis)
        self._names = {item.name for item in experiment.contestants}
        self._blocks: Blocks = {}
        self._pairing = Pairing.of(experiment)
        self._shared: dict[tuple[str, int, str], Outcome] = {}

    def update(self) -> FitResult | None:
        """The fit of what is on disk now; None while two strategies cannot be compared."""
        chosen = self.experiment
        try:
            fitted = fit(self._records(), token_use(self._charges.update()), fit_options(chosen))
        except UsageError:
            return None
        return with_roles(chosen, fitted)

    def _records(self) -> RecordSet:
        """The comparisons so far; without a record for each where every pair meets within its run."""
        if self._pairing.plan != "independent":
            self._shared |= {(one.task, one.run, one.strategy): one for one in self._outcomes}
            return RecordSet.from_records(self._pairing.records(self._shared.values()))
        for outcome in self._outcomes:
            if outcome.strategy in self._names:
                score_block(self._blocks, outcome)
        return count_blocks(
            self.experiment.experiment_id, self._blocks.values(), tie_epsilon=self._pairing.tie_epsilon
        )
