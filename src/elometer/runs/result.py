"""From outcomes and ledger to pairs, fit and table. Everything here can be derived again from the files."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec

from elometer.core.atomic import replace_file
from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.ledger.charged import TokenSums, token_sums
from elometer.rating.fit import FitOptions, FitResult, TokenUse, csv_text, fit, fit_json, text_table
from elometer.rating.records import PairRecord, RecordSet
from elometer.rating.result import FitWarning
from elometer.runs.ceilings import Ceiling, ceilings, csv_rows, mean_scores
from elometer.runs.exclusions import Exclusions, exclusions
from elometer.runs.folder import ExperimentFolder
from elometer.runs.halves import Halves, halves
from elometer.runs.journal import Outcome, latest_outcomes
from elometer.runs.observed import Observed, observe
from elometer.runs.pairing import Pairing
from elometer.runs.served import accepted_names
from elometer.runs.spec import Experiment


@dataclass(frozen=True, slots=True)
class Sharing:
    """How calls were shared: tokens charged to all strategies together, and tokens their calls took."""

    plan: str
    charged_tokens: int
    spent_tokens: int

    def line(self) -> str:
        """The sharing in a sentence."""
        return _(
            "Sampling plan {plan}: {charged:,} tokens are charged to strategies, {spent:,} were spent; a "
            "shared call is paid once."
        ).format(plan=self.plan, charged=self.charged_tokens, spent=self.spent_tokens)


@dataclass(frozen=True, slots=True)
class Remarks:
    """What a reader of the fit must know beside it. `halves` is None unless the experiment asks for it."""

    exclusions: Exclusions
    halves: Halves | None
    observed: Observed
    mean_scores: dict[str, float]
    isolation: dict[str, int]  # how far graders' code was kept apart: outcomes by level
    sharing: Sharing | None = None  # None where every strategy makes its own calls


@dataclass(frozen=True, slots=True)
class Derived:
    """What the files of an experiment come to.

    `fit` is None, with a reason, where nothing can be fitted; `remarks` where nobody asked for them.
    """

    records: list[PairRecord]
    fit: FitResult | None
    reason: str = ""
    ceilings: tuple[Ceiling, ...] = ()
    remarks: Remarks | None = None


def derive(experiment: Experiment, folder: ExperimentFolder, *, remarks: bool = False) -> Derived:
    """Pairs from outcomes, the fit from pairs and ledger. Ceilings take no part; exclusions are pairwise.

    With `remarks` also what stands beside the fit, which takes a few fits more.
    """
    outcomes = latest_outcomes(folder.outcomes)
    records = pair_outcomes(experiment, outcomes)
    if not records:
        return Derived([], None, "no block has two strategies to compare")
    sums = token_sums([folder.ledger], experiment.eval.token_basis)
    found = tuple(ceilings(experiment, outcomes, sums, experiment.eval.elo_anchor))
    try:
        fitted = fit(RecordSet.from_records(records), token_use(sums), fit_options(experiment))
    except UsageError as error:
        return Derived(records, None, error.message, found)
    derived = Derived(records, with_roles(experiment, fitted), "", found)
    return _with_remarks(experiment, folder, outcomes, derived, sums) if remarks else derived


def with_roles(experiment: Experiment, fitted: FitResult) -> FitResult:
    """The roles that the experiment gives, where names would tell others."""
    roles = {one.name: "control" if one.role == "control" else "strategy" for one in experiment.contestants}
    rows = tuple(replace(row, role=roles.get(row.strategy, row.role)) for row in fitted.strategies)
    return replace(fitted, strategies=rows)


def _with_remarks(
    experiment: Experiment,
    folder: ExperimentFolder,
    outcomes: dict[tuple[str, int, str], Outcome],
    derived: Derived,
    sums: TokenSums,
) -> Derived:
    assert derived.fit is not None
    names = [one.name for one in experiment.contestants]
    options, pairing = fit_options(experiment), Pairing.of(experiment)
    remarks = Remarks(
        exclusions=exclusions(outcomes.values(), names, options, pairing=pairing),
        halves=halves(outcomes.values(), names, options, pairing=pairing)
        if experiment.schedule.half_check
        else None,
        observed=observe(folder.ledger, accepted_names(experiment, folder)),
        mean_scores=mean_scores(outcomes.values()),
        isolation=dict(Counter(item.isolation for item in outcomes.values() if item.isolation)),
        sharing=Sharing(experiment.sampling.plan, sum(sums.total.values()), sums.spent)
        if experiment.sampling.plan != "independent"
        else None,
    )
    fitted = replace(derived.fit, warnings=(*_grave(remarks), *derived.fit.warnings))
    return replace(derived, fit=fitted, remarks=remarks)


def _grave(remarks: Remarks) -> list[FitWarning]:
    """What puts the numbers themselves in doubt."""
    found = []
    if remarks.observed.strangers:
        names = ", ".join(f"{name} {n}" for name, n in sorted(remarks.observed.strangers.items()))
        message = _("Answers under a name that nobody asked for are among these numbers: {names}.")
        found.append(FitWarning("strangers", message.format(names=names)))
    if remarks.exclusions.differ:
        message = _("Errors fell on strategies unevenly (p = {p:.2g}): see the bounds below.")
        found.append(FitWarning("exclusions_differ", message.format(p=remarks.exclusions.p)))
    if remarks.halves is not None and remarks.halves.differ:
        found.append(FitWarning("halves_differ", remarks.halves.line()))
    canaries = remarks.observed.canaries
    if canaries is not None and len(canaries.models) > 1:
        found.append(FitWarning("canary_models", canaries.line()))
    return found


def text_of(derived: Derived, *, width: int) -> str:
    """The result for people: the table, and below it what stands beside the fit."""
    if derived.fit is None:
        return _("No rating: {reason}.").format(reason=derived.reason)
    said = [one.line() for one in derived.ceilings]
    remarks = derived.remarks
    if remarks is not None:
        said += remarks.exclusions.lines({row.strategy: row.elo for row in derived.fit.strategies})
        if remarks.halves is not None and not remarks.halves.differ:
            said.append(remarks.halves.line())
        if remarks.sharing is not None:
            said.append(remarks.sharing.line())
        said += remarks.observed.lines()
        if remarks.isolation:
            levels = ", ".join(f"{level} {n}" for level, n in sorted(remarks.isolation.items()))
            said.append(_("Graders' code was kept apart by: {levels}.").format(levels=levels))
    table = text_table(derived.fit, width=width)
    wrapped = [line for text in said for line in textwrap.wrap(text, width, subsequent_indent="  ")]
    return table + "".join(line + "\n" for line in wrapped)


def table_csv(derived: Derived) -> str:
    """elo_result.csv: the strategies in the fit, then the ceilings. Raises ValueError without a fit."""
    if derived.fit is None:
        raise ValueError(derived.reason)
    return csv_text(derived.fit) + csv_rows(derived.ceilings)


def _document(derived: Derived, fitted: FitResult) -> dict[str, Any]:
    """fit.json: what `fit --json` prints, and what only an experiment's files can tell."""
    document = {**fit_json(fitted), "ceilings": [one.as_json() for one in derived.ceilings]}
    remarks = derived.remarks
    if remarks is not None:
        document |= {
            "mean_scores": remarks.mean_scores,
            "isolation": remarks.isolation,
            "sharing": None if remarks.sharing is None else asdict(remarks.sharing),
            "exclusions": remarks.exclusions.as_json(),
            "halves": None if remarks.halves is None else remarks.halves.as_json(),
            **remarks.observed.as_json(),
        }
    return document


def pair_outcomes(experiment: Experiment, outcomes: dict[tuple[str, int, str], Outcome]) -> list[PairRecord]:
    """One record per pair of strategies per block, in an order that depends on the outcomes alone."""
    return Pairing.of(experiment).records(outcomes.values())


def token_use(sums: TokenSums) -> TokenUse:
    """A ledger's sums as the fit wants them: answered attempts are what counted answers rest on."""
    uncached = None
    if sums.cached:
        uncached = {where: spent - sums.cached.get(where, 0) for where, spent in sums.answered.items()}
    return TokenUse(
        charged=sums.answered,
        total_tokens=sums.total,
        calls=sums.calls,
        estimated_tokens=sums.estimated,
        models=sums.models,
        local=sums.local,
        uncached=uncached,
        unread_lines=len(sums.bad),
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
    replace_file(folder.table, table_csv(derived).encode())
    replace_file(folder.fit, json.dumps(_document(derived, derived.fit), indent=1).encode() + b"\n")
