"""One fit of all comparisons, games only inside a task, each task with the same weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.estimate import NO_SPREAD, Booleans, Estimate, centred
from elometer.rating.estimators import bradley_terry, davidson, position
from elometer.rating.estimators.newton import Maximum
from elometer.rating.graph import WinGraph, win_graph
from elometer.rating.options import FitOptions
from elometer.rating.records import Floats, Integers, RecordSet, sums

# Information per comparison below which a direction is flat; the search ends at a gradient of 1e-10 of them.
FLAT = 1e-9


@dataclass(frozen=True, slots=True)
class Cells:
    """Comparisons of one cluster and ordered pair, weighted: `first_score` of `games`, `ties` among them.

    `cluster` (N) is a task, or a block where runs are generalised; `stratum` (C) the task that clusters are
    centred in; `first` and `second` (N) are indices of strategies.
    """

    cluster: Integers
    stratum: Integers
    first: Integers
    second: Integers
    first_score: Floats
    games: Floats
    ties: Floats

    def matrix(self, values: Floats, size: int) -> Floats:
        """(K, K): values summed per (first, second)."""
        return sums(self.first * size + self.second, values, size * size).reshape(size, size)

    def per_strategy(self, first: Floats, second: Floats, size: int) -> Floats:
        """(C, K): sums of what the first and what the second strategy of each cell receives."""
        clusters = len(self.stratum)
        total = sums(self.cluster * size + self.first, first, clusters * size)
        total += sums(self.cluster * size + self.second, second, clusters * size)
        return total.reshape(clusters, size)

    def present(self, size: int) -> Booleans:
        """(C, K): which clusters hold a comparison of which strategy."""
        held = (self.games > 0).astype(np.float64)
        return self.per_strategy(held, held, size) > 0


Columns = tuple[Integers, Integers, Integers, Integers, Integers, Floats, Floats, Floats]


def weighted_cells(records: RecordSet, options: FitOptions) -> Cells:
    """The cells of a fit, each task with the same total, all together that of the records.

    The number of records, not the weights on them, is the sample size.
    """
    cluster, stratum, task, first, second, first_wins, second_wins, ties = _columns(records, options)
    if options.ties_used == "drop":
        ties = np.zeros_like(ties)
    games = first_wins + second_wins + ties
    used = games.sum()
    if used <= 0 and options.ties_used != "drop":
        raise UsageError(
            _("No comparison has any weight."),
            evidence=_("{n} records, the weight of each is 0.").format(n=records.comparisons),
            fix=_("Leave the weights out, or give a record one above 0."),
        )
    if used <= 0:
        raise UsageError(
            _("Every comparison is a tie, and ties are dropped."),
            evidence=_("{n} records, none of them decisive.").format(n=records.comparisons),
            fix=_("Let a tie count half: --ties half."),
        )
    dropped = int(records.tied_records.sum()) if options.ties_used == "drop" else 0
    sample = records.comparisons - dropped
    if options.task_weight == "equal":
        per_task = sums(task, games, len(records.tasks))
        held = per_task > 0
        factor = np.zeros(len(per_task))
        factor[held] = sample / (held.sum() * per_task[held])
        scale = factor[task]
    else:
        scale = np.full(len(task), sample / used)
    return Cells(
        cluster, stratum, first, second, scale * (first_wins + 0.5 * ties), scale * games, scale * ties
    )


def _columns(records: RecordSet, options: FitOptions) -> Columns:
    """The cells unweighted: tasks are the clusters, or blocks centred in their task where runs are."""
    none = np.zeros(len(records.tasks), dtype=np.int64)
    if not options.position and options.generalise == "tasks":
        pairs = records.pair_counts
        return (
            pairs.task,
            none,
            pairs.task,
            pairs.low,
            pairs.high,
            pairs.low_wins,
            pairs.high_wins,
            pairs.ties,
        )
    task = records.block_task[records.cell_block]
    runs = options.generalise == "runs"
    return (
        records.cell_block if runs else task,
        records.block_task if runs else none,
        task,
        records.first,
        records.second,
        records.first_wins,
        records.second_wins,
        records.ties,
    )


def graph_of(records: RecordSet, options: FitOptions) -> WinGraph:
    """The win graph of the comparisons that the fit uses: a tie is an edge both ways unless dropped."""
    if records.plain_wins is not None:
        return win_graph(records.plain_wins)
    pairs = records.pair_counts
    ties = 0.0 if options.ties_used == "drop" else pairs.ties
    size = len(records.strategies)
    wins = np.zeros((size, size))
    np.add.at(wins, (pairs.low, pairs.high), pairs.low_wins + ties)
    np.add.at(wins, (pairs.high, pairs.low), pairs.high_wins + ties)
    return win_graph(wins)


def fit_pooled(records: RecordSet, options: FitOptions, graph: WinGraph) -> Estimate:
    """The pooled estimate under the model that the options name."""
    cells = weighted_cells(records, options)
    return _MODELS[options.model](cells, len(records.strategies), options, graph)


def ability(records: RecordSet, options: FitOptions, graph: WinGraph) -> Floats:
    """(K,): θ alone, without what intervals need."""
    if options.aggregation != "pooled":
        raise UsageError(
            _("Ratings alone are those of a pooled fit."),
            evidence=_("Asked for {aggregation}.").format(aggregation=options.aggregation),
            fix=_("Use fit, or aggregation pooled."),
        )
    if options.model != "bradley-terry":
        return fit_pooled(records, options, graph).theta
    wins = records.plain_wins
    if wins is None:
        wins = _scores(weighted_cells(records, options), len(records.strategies))
    return np.asarray(_maximum(wins, options, graph).theta[0], dtype=np.float64)


def _estimate(
    cells: Cells,
    size: int,
    found: Maximum,
    influence: Floats,
    spread: Floats,
    graph: WinGraph,
    extra: tuple[str, float, float] | None,
) -> Estimate:
    present = cells.present(size)
    scores = _scores(cells, size)
    return Estimate(
        theta=found.theta[0, :size],
        influence=influence,
        present=present,
        stratum=cells.stratum,
        model_covariance=spread[:size, :size],
        scores=scores,
        graph=graph,
        converged=bool(found.converged[0]),
        extra=extra,
    )


def _scores(cells: Cells, size: int) -> Floats:
    """(K, K): what i scored against j."""
    scores = cells.matrix(cells.first_score, size)
    return scores + cells.matrix(cells.games - cells.first_score, size).T


def _maximum(scores: Floats, options: FitOptions, graph: WinGraph) -> Maximum:
    fit = bradley_terry.fit_firth if options.penalised else bradley_terry.fit_maximum_likelihood
    return fit(scores[None], graph.island_of)


def _fit_bradley_terry(cells: Cells, size: int, options: FitOptions, graph: WinGraph) -> Estimate:
    wins = _scores(cells, size)
    found = _maximum(wins, options, graph)
    theta = found.theta[0]
    shift = bradley_terry.gauge(graph.island_of)
    spread = bradley_terry.covariance(bradley_terry.information(theta, wins + wins.T), shift)
    gap = theta[cells.first] - theta[cells.second]
    residual = cells.first_score - cells.games * (0.5 + 0.5 * np.tanh(0.5 * gap))
    influence = cells.per_strategy(residual, -residual, size) @ spread
    influence = centred(influence, cells.present(size), cells.stratum)
    return _estimate(cells, size, found, influence, spread, graph, None)


def _fit_davidson(cells: Cells, size: int, options: FitOptions, graph: WinGraph) -> Estimate:
    decisive = cells.matrix(cells.first_score - 0.5 * cells.ties, size)
    lost = cells.matrix(cells.games - cells.first_score - 0.5 * cells.ties, size)
    ties = cells.matrix(cells.ties, size)
    if ties.sum() <= 0 or decisive.sum() + lost.sum() <= 0:
        raise UsageError(
            _("Davidson's model needs ties and decisive comparisons."),
            evidence=_("The records hold one of them only."),
            fix=_("Use --estimator firth --ties half."),
        )
    found = davidson.fit_davidson(
        decisive + lost.T, ties + ties.T, graph.island_of, penalised=options.penalised
    )
    parameters = found.theta[0]
    games = cells.matrix(cells.games, size)
    shift = davidson.gauge(size, graph.island_of)
    information = davidson.information(parameters, games + games.T)
    _require_bounded(information, shift, float(games.sum()), options)
    spread = davidson.covariance(information, shift)
    half = 0.5 * (parameters[cells.first] - parameters[cells.second])
    norm = np.logaddexp(np.logaddexp(half, -half), parameters[-1])
    tie = np.exp(parameters[-1] - norm)
    residual = cells.first_score - cells.games * (np.exp(half - norm) + 0.5 * tie)
    per_strategy = cells.per_strategy(residual, -residual, size)
    per_tie = sums(cells.cluster, cells.ties - cells.games * tie, len(cells.stratum))
    influence = per_strategy @ spread[:size, :size] + np.outer(per_tie, spread[size, :size])
    influence = centred(influence, cells.present(size), cells.stratum)
    along = per_strategy @ spread[:size, size] + per_tie * spread[size, size]
    error = _term_error(cells, along, cells.present(size), float(np.sqrt(spread[size, size])))
    extra = ("log_nu", float(parameters[-1]), error)
    return _estimate(cells, size, found, influence, spread, graph, extra)


def _fit_position(cells: Cells, size: int, options: FitOptions, graph: WinGraph) -> Estimate:
    games = cells.matrix(cells.games, size)
    _require_both_orders(games)
    found = position.fit_position(cells.matrix(cells.first_score, size), games, penalised=options.penalised)
    parameters = found.theta[0]
    information = position.information(parameters, games)
    _require_bounded(information, davidson.gauge(size), float(games.sum()), options)
    spread = davidson.covariance(information)
    gap = parameters[cells.first] - parameters[cells.second] + parameters[-1]
    residual = cells.first_score - cells.games * (0.5 + 0.5 * np.tanh(0.5 * gap))
    per_strategy = cells.per_strategy(residual, -residual, size)
    per_position = sums(cells.cluster, residual, len(cells.stratum))
    influence = per_strategy @ spread[:size, :size] + np.outer(per_position, spread[size, :size])
    influence = centred(influence, cells.present(size), cells.stratum)
    along = per_strategy @ spread[:size, size] + per_position * spread[size, size]
    error = _term_error(cells, along, cells.present(size), float(np.sqrt(spread[size, size])))
    extra = ("position", float(parameters[-1]), error)
    return _estimate(cells, size, found, influence, spread, graph, extra)


def _term_error(cells: Cells, along: Floats, present: Booleans, model: float) -> float:
    """The standard error of a further parameter from what each cluster adds to it (C), as of a difference.

    The model's where clusters show no spread: one task, or one run of each.
    """
    used = np.asarray(present.any(axis=1))
    count = np.bincount(cells.stratum[used])
    if int(used.sum()) <= int((count > 0).sum()):
        return model
    each = centred(along[:, None], present, cells.stratum)[:, 0]
    factor = np.where(count > 1, count / np.maximum(count - 1, 1), 1.0)
    error = float(np.sqrt((each[used] ** 2 * factor[cells.stratum[used]]).sum()))
    return error if error > NO_SPREAD * model else model


def _require_bounded(information: Floats, shift: Floats, games: float, options: FitOptions) -> None:
    """Refuse a maximum that lies at infinity although the win graph is strongly connected.

    A further parameter may run away together with strengths: with a win and a tie but no loss of a pair, or
    where whoever was shown first always won. There the search ends where the likelihood is flat.
    """
    if options.penalised:
        return
    scale = max(float(np.trace(information)) / len(information), 1e-300)
    if float(np.linalg.eigvalsh(information + scale * shift)[0]) > FLAT * games:
        return
    raise UsageError(
        _("There is no finite maximum of this model on these records."),
        evidence=_("Strengths and the term for {what} grow together without bound.").format(
            what=_("ties") if options.model == "davidson" else _("being shown first")
        ),
        fix=_("Use --estimator firth, whose penalty keeps every number finite."),
    )


def _require_both_orders(games: Floats) -> None:
    """The position term must not be a combination of strengths: the information must have full rank."""
    size = len(games)
    matrix = position.information(np.zeros(size + 1), games)
    if np.linalg.matrix_rank(matrix, hermitian=True) < size:
        raise UsageError(
            _("A position term cannot be told from the strategies."),
            evidence=_("Each pair was always shown in an order that the strategies explain."),
            fix=_("Show pairs in both orders, or fit without the position term."),
        )


_MODELS: dict[str, Callable[[Cells, int, FitOptions, WinGraph], Estimate]] = {
    "bradley-terry": _fit_bradley_terry,
    "davidson": _fit_davidson,
    "position": _fit_position,
}


def require_maximum(graph: WinGraph, options: FitOptions, components: str) -> None:
    """Refuse plain maximum likelihood where Ford's condition fails; `components` shows them."""
    if options.penalised or options.aggregation != "pooled" or graph.strongly_connected:
        return
    raise UsageError(
        _("There is no finite maximum: some strategies never won, or never lost, against the others."),
        evidence=_("Components, strongest first: {components}.").format(components=components),
        fix=_("Use --estimator firth, or add comparisons that cross the components."),
    )
