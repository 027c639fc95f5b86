"""From outcomes and ledger to pairs, fit and table. Everything here can be derived again from the files."""

from __future__ import annotations

import json
from dataclasses import dataclass

import msgspec

from elometer.core.atomic import replace_file
from elometer.core.errors import UsageError
from elometer.core.natural import natural_key
from elometer.ledger.charged import TokenSums, token_sums
from elometer.rating.fit import FitOptions, FitResult, TokenUse, csv_text, fit, fit_json
from elometer.rating.pairs import BlockScores, pair_blocks
from elometer.rating.records import PairRecord, RecordSet
from elometer.runs.folder import ExperimentFolder
from elometer.runs.journal import Outcome, latest_outcomes
from elometer.runs.spec import Experiment


@dataclass(frozen=True, slots=True)
class Derived:
    """What the files of an experiment come to; `fit` is None, with a reason, where nothing can be fitted."""

    records: list[PairRecord]
    fit: FitResult | None
    reason: str = ""


def derive(experiment: Experiment, folder: ExperimentFolder) -> Derived:
    """Pairs from outcomes, the fit from pairs and ledger. Ceilings take no part; exclusions are pairwise."""
    outcomes = latest_outcomes(folder.outcomes)
    records = pair_outcomes(experiment, outcomes)
    if not records:
        return Derived([], None, "no block has two strategies to compare")
    tokens = token_use(token_sums([folder.ledger], experiment.eval.token_basis))
    try:
        return Derived(records, fit(RecordSet.from_records(records), tokens, fit_options(experiment)))
    except UsageError as error:
        return Derived(records, None, error.message)


def pair_outcomes(experiment: Experiment, outcomes: dict[tuple[str, int, str], Outcome]) -> list[PairRecord]:
    """One record per pair of strategies per block, in an order that depends on the outcomes alone."""
    names = {item.name for item in experiment.contestants}
    blocks: dict[tuple[str, int], BlockScores] = {}
    for (task, run, strategy), outcome in sorted(
        outcomes.items(), key=lambda item: (natural_key(item[0][0]), item[0][1], natural_key(item[0][2]))
    ):
        if strategy not in names:
            continue
        block = blocks.setdefault((task, run), BlockScores(task, run, outcome.block, {}))
        block.scores[strategy] = outcome.score if outcome.counted else None
    return pair_blocks(experiment.experiment_id, blocks.values(), tie_epsilon=experiment.eval.tie_epsilon)


def token_use(sums: TokenSums) -> TokenUse:
    """A ledger's sums as the fit wants them: answered attempts are what counted answers rest on."""
    return TokenUse(
        charged=sums.answered,
        total_tokens=sums.total,
        calls=sums.calls,
        estimated_tokens=sums.estimated,
    )


def fit_options(experiment: Experiment) -> FitOptions:
    """The choices that experiment.yaml makes for the fit."""
    chosen = experiment.eval
    return FitOptions(
        estimator=chosen.estimator,
        ties=chosen.ties,
        aggregation=chosen.aggregation,
        anchor=chosen.elo_anchor or None,
        level=chosen.ci.level,
        elo_base=chosen.elo_base,
        elo_scale=chosen.elo_scale,
        seed=experiment.seed,
        experiment_id=experiment.experiment_id,
    )


def write(folder: ExperimentFolder, derived: Derived) -> None:
    """Write pairwise_records.jsonl, and elo_result.csv and fit.json where there is a fit."""
    encode = msgspec.json.Encoder().encode
    replace_file(folder.records, b"".join(encode(record) + b"\n" for record in derived.records))
    if derived.fit is None:
        for stale in (folder.table, folder.fit):
            stale.unlink(missing_ok=True)
        return
    replace_file(folder.table, csv_text(derived.fit).encode())
    replace_file(folder.fit, json.dumps(fit_json(derived.fit), indent=1).encode() + b"\n")
