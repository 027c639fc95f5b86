"""The fit: pair records and tokens in, ratings with intervals and what they cost out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.design import design_of
from elometer.rating.economics import Curvature, Knee, curvature, knee
from elometer.rating.graph import WinGraph
from elometer.rating.options import FitOptions
from elometer.rating.per_task import fit_per_task
from elometer.rating.pooled import ability, fit_pooled, graph_of, require_maximum
from elometer.rating.records import RecordSet
from elometer.rating.report import csv_text, fit_json, text_table
from elometer.rating.result import FitResult, Name, StrategyFit, Unbounded, chains, take_apart
from elometer.rating.returns import sentences
from elometer.rating.rows import Parts, predecessors, strategy_rows
from elometer.rating.tokens import TokenUse, task_tokens
from elometer.rating.warnings import collect

__all__ = [
    "FitOptions",
    "FitResult",
    "TokenUse",
    "csv_text",
    "elo_ratings",
    "fit",
    "fit_json",
    "fit_records",
    "text_table",
]

KNEE_LEVEL = 0.95


def fit(records: RecordSet, tokens: TokenUse | None = None, options: FitOptions | None = None) -> FitResult:
    """Fit Bradley-Terry to in-task comparisons and price it in tokens.

    Default: a tie is half a win for each, each task weighs the same, Jeffreys' penalty (Firth), and intervals
    clustered by task. Raises UsageError for an unknown anchor, for `mle` and `davidson` without a finite
    maximum, and for a model that the records cannot tell.
    """
    options = options or FitOptions()
    _require_runs_apart(records, options)
    names = tuple(take_apart(name) for name in records.strategies)
    anchor = _anchor(records, options)
    graph = graph_of(records, options)
    components, islands = _named(records, graph.components), _named(records, graph.islands)
    require_maximum(graph, options, chains(components, islands))
    left_out: tuple[str, ...] = ()
    if options.aggregation == "pooled":
        estimate = fit_pooled(records, options, graph)
    else:
        estimate, left_out = fit_per_task(records, options, graph)
    known = None if tokens is None else task_tokens(records, tokens.charged)
    parts = Parts(
        records=records,
        options=options,
        use=tokens,
        tokens=known,
        uncached=(
            None if tokens is None or tokens.uncached is None else task_tokens(records, tokens.uncached)
        ),
        estimate=estimate,
        names=names,
        anchor=anchor,
        before=predecessors(names),
        in_elo=options.aggregation != "per-task-standardised" or options.profile_as_elo,
        cost=np.full(len(names), np.nan) if known is None else known.per_task_run,
    )
    rows = strategy_rows(parts)
    return _result(parts, graph, components, rows, left_out)


# The same function under a name that the package can export beside its module `fit`.
fit_records = fit


def elo_ratings(records: RecordSet, options: FitOptions | None = None) -> dict[str, float | None]:
    """Elo of each strategy and nothing else, for many fits in a row; `fit` tells how far to trust them.

    None for strategies that no chain of comparisons joins to the anchor. Raises UsageError as `fit` does.
    """
    options = options or FitOptions()
    anchor = _anchor(records, options)
    graph = graph_of(records, options)
    if not graph.strongly_connected:
        found_apart = (_named(records, parts) for parts in (graph.components, graph.islands))
        require_maximum(graph, options, chains(*found_apart))
    theta = ability(records, options, graph)
    elo = options.elo_base + options.per_logit * (theta - theta[anchor])
    found: dict[str, float | None] = dict(zip(records.strategies, elo.tolist(), strict=True))
    if len(graph.islands) > 1:
        for s in np.flatnonzero(graph.island_of != graph.island_of[anchor]).tolist():
            found[records.strategies[s]] = None
    return found


def _require_runs_apart(records: RecordSet, options: FitOptions) -> None:
    if options.generalise == "runs" and records.across_runs is not None:
        raise UsageError(
            _("These records join answers of two runs, so runs are not independent of each other."),
            evidence=_("run_a and run_b differ in some of them."),
            fix=_("Let intervals generalise to tasks, which is the default."),
        )


def _named(records: RecordSet, parts: tuple[tuple[int, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(records.strategies[s] for s in part) for part in parts)


def _anchor(records: RecordSet, options: FitOptions) -> int:
    if options.anchor is not None:
        if options.anchor not in records.strategies:
            raise UsageError(
                _("The anchor {name} is in no record.").format(name=options.anchor),
                evidence=_("The strategies are {names}.").format(names=", ".join(records.strategies)),
                fix=_("Choose one of them with --anchor."),
            )
        return records.strategies.index(options.anchor)
    roles = (take_apart(name).role for name in records.strategies)
    return next((index for index, role in enumerate(roles) if role == "strategy"), 0)


def main_ladder(names: tuple[Name, ...], anchor: int) -> list[int]:
    """The rungs of the anchor's ladder, on which curvature and knee are judged."""
    stem = names[anchor].stem
    return [index for index, name in enumerate(names) if name.stem == stem]


def _shape(parts: Parts) -> tuple[Curvature | None, Knee | None]:
    if parts.tokens is None or not parts.in_elo:
        return None, None
    rungs = main_ladder(parts.names, parts.anchor)
    if parts.use is not None and not parts.use.comparable(parts.records.strategies[s] for s in rungs):
        return None, None
    options = parts.options
    bend = curvature(parts.estimate, parts.cost, rungs, options.level, options.per_logit)
    return bend, knee(parts.estimate, parts.cost, rungs, options.knee_margin, KNEE_LEVEL, options.per_logit)


def unbounded_strategies(records: RecordSet, graph: WinGraph, anchor: int) -> tuple[Unbounded, ...]:
    """Who has no bounded distance to the anchor, in which direction, and why."""
    found = []
    inside = [i for i, part in enumerate(graph.component_of) if part == graph.component_of[anchor]]
    others = ", ".join(records.strategies[i] for i in inside)
    for s, name in enumerate(records.strategies):
        direction = graph.direction(s, anchor)
        if direction is None:
            continue
        if direction == "below":
            reason = _("{name} never beat or tied {others}, directly or through others: unbounded below.")
        elif direction == "above":
            reason = _("{name} never lost to or tied {others}, directly or through others: unbounded above.")
        else:
            reason = _("No chain of wins joins {name} and {others} in either direction: not comparable.")
        found.append(Unbounded(name, direction, reason.format(name=name, others=others)))
    return tuple(found)


def _result(
    parts: Parts,
    graph: WinGraph,
    components: tuple[tuple[str, ...], ...],
    rows: tuple[StrategyFit, ...],
    left_out: tuple[str, ...],
) -> FitResult:
    options, records, estimate = parts.options, parts.records, parts.estimate
    bend, found_knee = _shape(parts)
    basis = "model"
    if estimate.clustered:
        basis = options.generalise if options.aggregation == "pooled" else "tasks"
    extra = estimate.extra
    result = FitResult(
        experiment_id=options.experiment_id or records.experiment_id,
        options=options,
        estimator=options.estimator,
        ties=options.ties_used,
        aggregation=options.aggregation,
        unit="elo" if parts.in_elo else "profile",
        interval_basis=basis,  # type: ignore[arg-type]
        identified=graph.strongly_connected,
        components=components,
        islands=_named(records, graph.islands),
        unbounded=unbounded_strategies(records, graph, parts.anchor),
        tasks=len(records.tasks),
        comparisons=records.comparisons,
        tie_rate=records.tie_rate,
        elo_base=options.elo_base,
        elo_scale=options.elo_scale,
        anchor=records.strategies[parts.anchor],
        level=options.level,
        strategies=rows,
        warnings=(),
        returns=sentences(parts.in_elo, rows, bend, found_knee, options, records.strategies),
        curvature=bend,
        knee=found_knee,
        design=design_of(
            records, options, estimate, [(b, s) for s, b in enumerate(parts.before) if b is not None]
        ),
        position=extra[1:] if extra and extra[0] == "position" else None,
        log_nu=extra[1:] if extra and extra[0] == "log_nu" else None,
        estimate=estimate,
        records=records,
        tokens=parts.tokens,
    )
    return replace(result, warnings=collect(result, parts.use, left_out))
