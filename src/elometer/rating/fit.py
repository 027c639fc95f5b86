"""The fit: pair records and tokens in, ratings with intervals and what they cost out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.rating.comparisons import difference, rank_ranges, simultaneous_reach
from elometer.rating.economics import Curvature, Knee, Marginal, curvature, knee, marginal, power_of
from elometer.rating.estimate import Estimate, Interval, contrast
from elometer.rating.graph import WinGraph
from elometer.rating.options import FitOptions
from elometer.rating.per_task import fit_per_task
from elometer.rating.pooled import ability, fit_pooled, graph_of, require_maximum
from elometer.rating.records import Floats, RecordSet
from elometer.rating.report import csv_text, fit_json, text_table
from elometer.rating.result import FitResult, FitWarning, Name, StrategyFit, Unbounded, take_apart
from elometer.rating.returns import sentences
from elometer.rating.tokens import TaskTokens, TokenUse, task_tokens
from elometer.rating.warnings import collect

__all__ = ["FitOptions", "FitResult", "TokenUse", "csv_text", "fit", "fit_json", "fit_records", "text_table"]

KNEE_LEVEL = 0.95
DECIMALS = 10


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the rows are made of."""

    records: RecordSet
    options: FitOptions
    use: TokenUse | None
    tokens: TaskTokens | None
    uncached: TaskTokens | None
    estimate: Estimate
    names: tuple[Name, ...]
    anchor: int
    before: tuple[int | None, ...]
    in_elo: bool
    cost: Floats  # (K) tokens per task-run, NaN where unknown


def fit(records: RecordSet, tokens: TokenUse | None = None, options: FitOptions | None = None) -> FitResult:
    """Fit Bradley-Terry to in-task comparisons and price it in tokens.

    Default: a tie is half a win for each, each task weighs the same, Jeffreys' penalty (Firth), and intervals
    clustered by task. Raises UsageError for an unknown anchor, for `mle` and `davidson` without a finite
    maximum, and for a model that the records cannot tell.
    """
    options = options or FitOptions()
    names = tuple(take_apart(name) for name in records.strategies)
    anchor = _anchor(records, options)
    graph = graph_of(records, options)
    components = _named(records, graph)
    require_maximum(graph, options, component_text(components))
    left_out: tuple[str, ...] = ()
    if options.aggregation == "pooled":
        estimate = fit_pooled(records, options, graph)
    else:
        estimate, left_out = fit_per_task(records, options, graph)
    known = None if tokens is None else task_tokens(records, tokens.charged)
    parts = _Parts(
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
        before=_predecessors(names),
        in_elo=options.aggregation != "per-task-standardised" or options.profile_as_elo,
        cost=np.full(len(names), np.nan) if known is None else known.per_task_run,
    )
    rows = _rows(parts)
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
    require_maximum(graph, options, component_text(_named(records, graph)))
    theta = ability(records, options, graph)
    elo = options.elo_base + options.per_logit * (theta - theta[anchor])
    return {
        name: float(elo[s]) if graph.island_of[s] == graph.island_of[anchor] else None
        for s, name in enumerate(records.strategies)
    }


def _named(records: RecordSet, graph: WinGraph) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(records.strategies[s] for s in part) for part in graph.components)


def component_text(components: tuple[tuple[str, ...], ...]) -> str:
    """`{a, b} > {c}`, strongest first."""
    return " > ".join("{" + ", ".join(part) + "}" for part in components)


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


def _predecessors(names: tuple[Name, ...]) -> tuple[int | None, ...]:
    """The next lower rung of the same ladder, in natural order."""
    last: dict[str, int] = {}
    before: list[int | None] = []
    for index, name in enumerate(names):
        before.append(last.get(name.stem))
        last[name.stem] = index
    return tuple(before)


def _rows(parts: _Parts) -> tuple[StrategyFit, ...]:
    size = len(parts.names)
    pairs = [(b, s) for s, b in enumerate(parts.before) if b is not None]
    reach = math.nan
    if pairs:
        weights = np.stack([difference(size, b, s) for b, s in pairs])
        reach = simultaneous_reach(parts.estimate, weights, parts.options.level, parts.options.seed)
    ranks = rank_ranges(parts.estimate, parts.options.level, parts.options.seed)
    return tuple(_row(parts, s, reach, ranks[s]) for s in range(size))


def _row(parts: _Parts, s: int, reach: float, ranks: tuple[int, int]) -> StrategyFit:
    estimate, options, records = parts.estimate, parts.options, parts.records
    size, level = len(parts.names), options.level
    per_logit = options.per_logit if parts.in_elo else math.nan
    bounded = bool(estimate.graph.component_of[s] == estimate.graph.component_of[parts.anchor])
    known = estimate.same_island(s, parts.anchor)
    gain = contrast(estimate, difference(size, parts.anchor, s), level)
    bar = contrast(estimate, _sum_zero(estimate, s, parts.anchor), level) if bounded else None
    before = parts.before[s]
    delta = None
    if before is not None and estimate.same_island(before, s):
        delta = contrast(estimate, difference(size, before, s), level)
    elo = _number(options.elo_base + per_logit * gain.value) if known else None
    price = _price(parts, parts.tokens, before, s, delta)
    uncached = _price(parts, parts.uncached, before, s, delta)
    doubling = _doubling(parts, before, s, delta)
    power = None if delta is None else power_of(delta, estimate.clusters, per_logit)
    names = records.strategies
    blocks = records.counted[records.counted[:, 1] == s, 0]
    simultaneous = _scaled(delta, reach, per_logit)
    return StrategyFit(
        strategy=names[s],
        k=parts.names[s].k,
        role=parts.names[s].role,
        identified=bounded,
        theta=_number(gain.value) if known else None,
        se=gain.error,
        elo=elo,
        elo_lo=None if bar is None or elo is None else _shifted(elo, bar, bar.low, per_logit),
        elo_hi=None if bar is None or elo is None else _shifted(elo, bar, bar.high, per_logit),
        gain=_number(per_logit * gain.value) if known else None,
        gain_lo=_times(gain.low, per_logit),
        gain_hi=_times(gain.high, per_logit),
        tasks=len(np.unique(records.block_task[blocks])),
        runs=len(blocks),
        calls=None if parts.use is None else parts.use.calls.get(names[s], 0),
        total_tokens=None if parts.use is None else parts.use.total_tokens.get(names[s], 0),
        tokens_per_task_run=_number(float(parts.cost[s])),
        uncached_per_task_run=(
            None if parts.uncached is None else _number(float(parts.uncached.per_task_run[s]))
        ),
        compared_with=None if before is None else names[before],
        delta_elo=None if delta is None else _number(per_logit * delta.value),
        delta_bounded=_bounded(delta),
        delta_lo=None if delta is None else _times(delta.low, per_logit),
        delta_hi=None if delta is None else _times(delta.high, per_logit),
        delta_simultaneous_lo=simultaneous[0],
        delta_simultaneous_hi=simultaneous[1],
        delta_token=_delta_token(parts, before, s),
        marginal_elo_per_1k=_founding_marginal(parts, before, s, delta, per_logit),
        marginal_per_1k_task_run=None if price is None else _number(price.value),
        marginal_lo=None if price is None else _number(price.low),
        marginal_hi=None if price is None else _number(price.high),
        marginal_basis=None if price is None else price.basis,
        marginal_per_1k_uncached=None if uncached is None else _number(uncached.value),
        elo_per_1k=_elo_per_1k(parts, s, per_logit * gain.value if bounded else math.nan),
        elo_per_doubling=doubling[0],
        elo_per_doubling_lo=doubling[1],
        elo_per_doubling_hi=doubling[2],
        win_rate_vs_anchor=_share(estimate.scores, s, parts.anchor) if s != parts.anchor else 0.5,
        win_rate_round_robin=_share(estimate.scores, s, None),
        ties=int(records.ties_of[s]),
        excluded=_excluded(parts, s),
        resolved=delta is not None and delta.excludes_zero,
        resolved_simultaneous=_excludes_zero(simultaneous),
        rank_lo=ranks[0] if known and len(estimate.graph.islands) == 1 else None,
        rank_hi=ranks[1] if known and len(estimate.graph.islands) == 1 else None,
        detectable_delta_elo=None if power is None else _number(power.detectable),
        tasks_needed=None if power is None else power.tasks_needed,
        unused_token_share=_unused(parts, s),
        estimated_token_share=_estimated(parts, s),
    )


def _sum_zero(estimate: Estimate, s: int, anchor: int) -> Floats:
    """θ_s less the mean of the anchor's component: a bar that no choice of an anchor widens."""
    inside = estimate.graph.component_of == estimate.graph.component_of[anchor]
    weights: Floats = -(inside / inside.sum())
    weights[s] += 1.0
    if inside.sum() == 1:
        weights[:] = 0.0
    return weights


def _shifted(elo: float, bar: Interval, end: float | None, per_logit: float) -> float | None:
    if end is None or not bar.error:
        return None
    return _number(elo + per_logit * (end - bar.value))


def _number(value: float | None) -> float | None:
    """The value without the rounding noise of the last digits, so that an exact 0 reads as one."""
    return None if value is None or not math.isfinite(value) else round(float(value), DECIMALS) + 0.0


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else _number(value * factor)


def _scaled(delta: Interval | None, reach: float, per_logit: float) -> tuple[float | None, float | None]:
    if delta is None or delta.error is None:
        return None, None
    return (
        _number(per_logit * (delta.value - reach * delta.error)),
        _number(per_logit * (delta.value + reach * delta.error)),
    )


def _excludes_zero(ends: tuple[float | None, float | None]) -> bool:
    low, high = ends
    return low is not None and high is not None and (low > 0 or high < 0)


def _bounded(difference: Interval | None) -> bool:
    """Whether the data bound a difference: a number that only the penalty keeps finite has no price."""
    return difference is not None and difference.basis != "unbounded"


def _price(
    parts: _Parts, tokens: TaskTokens | None, before: int | None, s: int, delta: Interval | None
) -> Marginal | None:
    if before is None or tokens is None or not _bounded(delta) or not parts.in_elo:
        return None
    return marginal(parts.estimate, tokens, before, s, parts.options.level, parts.options.per_logit)


def _doubling(
    parts: _Parts, before: int | None, s: int, delta: Interval | None
) -> tuple[float | None, float | None, float | None]:
    if before is None or delta is None or not _bounded(delta) or not parts.in_elo:
        return None, None, None
    low, high = parts.cost[before], parts.cost[s]
    if not (low > 0 and high > low):
        return None, None, None
    factor = parts.options.per_logit / math.log2(high / low)
    return _number(factor * delta.value), _times(delta.low, factor), _times(delta.high, factor)


def _delta_token(parts: _Parts, before: int | None, s: int) -> int | None:
    if before is None or parts.use is None:
        return None
    names, total = parts.records.strategies, parts.use.total_tokens
    return int(total.get(names[s], 0) - total.get(names[before], 0))


def _founding_marginal(
    parts: _Parts, before: int | None, s: int, delta: Interval | None, per_logit: float
) -> float | None:
    tokens = _delta_token(parts, before, s)
    if delta is None or not _bounded(delta) or tokens is None or tokens <= 0:
        return None
    return _number(1000.0 * per_logit * delta.value / tokens)


def _elo_per_1k(parts: _Parts, s: int, gain: float) -> float | None:
    further = (parts.cost[s] - parts.cost[parts.anchor]) / 1000.0
    return _number(gain / further) if further > 0 else None


def _share(scores: Floats, s: int, other: int | None) -> float | None:
    won = scores[s, other] if other is not None else scores[s].sum()
    lost = scores[other, s] if other is not None else scores[:, s].sum()
    return float(won / (won + lost)) if won + lost > 0 else None


def _excluded(parts: _Parts, s: int) -> int | None:
    """Task-runs that used tokens and stand in no comparison of the strategy."""
    if parts.tokens is None or not parts.tokens.joined:
        return None
    return int(parts.tokens.uncompared[s])


def _unused(parts: _Parts, s: int) -> float | None:
    """The share of a strategy's tokens that no compared task-run rests on."""
    if parts.use is None or parts.tokens is None or not parts.tokens.joined:
        return None
    total = parts.use.total_tokens.get(parts.records.strategies[s], 0)
    return max(0.0, 1.0 - float(parts.tokens.counted[s]) / total) if total > 0 else None


def _estimated(parts: _Parts, s: int) -> float | None:
    if parts.use is None:
        return None
    name = parts.records.strategies[s]
    total = parts.use.total_tokens.get(name, 0)
    return parts.use.estimated_tokens.get(name, 0) / total if total > 0 else None


def main_ladder(names: tuple[Name, ...], anchor: int) -> list[int]:
    """The rungs of the anchor's ladder, on which curvature and knee are judged."""
    stem = names[anchor].stem
    return [index for index, name in enumerate(names) if name.stem == stem]


def _shape(parts: _Parts) -> tuple[Curvature | None, Knee | None]:
    if parts.tokens is None or not parts.in_elo:
        return None, None
    rungs = main_ladder(parts.names, parts.anchor)
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
    parts: _Parts,
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
        islands=tuple(tuple(records.strategies[s] for s in part) for part in graph.islands),
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
        position=extra[1:] if extra and extra[0] == "position" else None,
        log_nu=extra[1:] if extra and extra[0] == "log_nu" else None,
        estimate=estimate,
        records=records,
        tokens=parts.tokens,
    )
    notes: tuple[FitWarning, ...] = collect(result, parts.use, left_out)
    return _with_warnings(result, notes)


def _with_warnings(result: FitResult, warnings: tuple[FitWarning, ...]) -> FitResult:
    from dataclasses import replace

    return replace(result, warnings=warnings)
