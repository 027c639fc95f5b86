"""The rows of a fit: each strategy's rating, its difference to the rung below, and what that costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from elometer.rating.comparisons import difference, rank_ranges, simultaneous_reach
from elometer.rating.economics import Marginal, marginal, power_of
from elometer.rating.estimate import Estimate, Interval, contrast
from elometer.rating.options import FitOptions
from elometer.rating.records import Floats, RecordSet
from elometer.rating.result import Name, StrategyFit
from elometer.rating.tokens import LOCAL_COUNTS, TaskTokens, TokenUse

DECIMALS = 10


@dataclass(frozen=True, slots=True)
class Parts:
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


def predecessors(names: tuple[Name, ...]) -> tuple[int | None, ...]:
    """The next lower rung of the same ladder, in natural order."""
    last: dict[str, int] = {}
    before: list[int | None] = []
    for index, name in enumerate(names):
        before.append(last.get(name.stem))
        last[name.stem] = index
    return tuple(before)


def strategy_rows(parts: Parts) -> tuple[StrategyFit, ...]:
    size = len(parts.names)
    pairs = [(b, s) for s, b in enumerate(parts.before) if b is not None]
    reach = math.nan
    if pairs:
        weights = np.stack([difference(size, b, s) for b, s in pairs])
        reach = simultaneous_reach(parts.estimate, weights, parts.options.level, parts.options.seed)
    ranks = rank_ranges(parts.estimate, parts.options.level, parts.options.seed)
    return tuple(_row(parts, s, reach, ranks[s]) for s in range(size))


def _row(parts: Parts, s: int, reach: float, ranks: tuple[int, int]) -> StrategyFit:
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
        tasks=int(records.tasks_of[s]),
        runs=int(records.runs_of[s]),
        calls=None if parts.use is None else parts.use.calls.get(names[s]),
        total_tokens=None if parts.use is None else parts.use.total_tokens.get(names[s]),
        tokens_per_task_run=_number(float(parts.cost[s])),
        uncached_per_task_run=(
            None if parts.uncached is None else _number(float(parts.uncached.per_task_run[s]))
        ),
        compared_with=None if before is None else names[before],
        delta_elo=_number(per_logit * delta.value) if delta is not None and _bounded(delta) else None,
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


def _one_unit(parts: Parts, one: int, other: int, *, totals: bool = False) -> bool:
    """Whether a difference in tokens means something: local counts of two models are different units."""
    names = parts.records.strategies
    return parts.use is None or parts.use.comparable((names[one], names[other]), totals=totals)


def _price(
    parts: Parts, tokens: TaskTokens | None, before: int | None, s: int, delta: Interval | None
) -> Marginal | None:
    if before is None or tokens is None or not _bounded(delta) or not parts.in_elo:
        return None
    if not _one_unit(parts, before, s):
        return Marginal(None, None, None, LOCAL_COUNTS)
    return marginal(parts.estimate, tokens, before, s, parts.options.level, parts.options.per_logit)


def _doubling(
    parts: Parts, before: int | None, s: int, delta: Interval | None
) -> tuple[float | None, float | None, float | None]:
    if before is None or delta is None or not _bounded(delta) or not parts.in_elo:
        return None, None, None
    low, high = parts.cost[before], parts.cost[s]
    if not (low > 0 and high > low and _one_unit(parts, before, s)):
        return None, None, None
    factor = parts.options.per_logit / math.log2(high / low)
    return _number(factor * delta.value), _times(delta.low, factor), _times(delta.high, factor)


def _delta_token(parts: Parts, before: int | None, s: int) -> int | None:
    if before is None or parts.use is None:
        return None
    names, total = parts.records.strategies, parts.use.total_tokens
    now, earlier = total.get(names[s]), total.get(names[before])
    return None if now is None or earlier is None else int(now - earlier)


def _founding_marginal(
    parts: Parts, before: int | None, s: int, delta: Interval | None, per_logit: float
) -> float | None:
    tokens = _delta_token(parts, before, s)
    if delta is None or not _bounded(delta) or tokens is None or tokens <= 0:
        return None
    if before is not None and not _one_unit(parts, before, s, totals=True):
        return None
    return _number(1000.0 * per_logit * delta.value / tokens)


def _elo_per_1k(parts: Parts, s: int, gain: float) -> float | None:
    further = (parts.cost[s] - parts.cost[parts.anchor]) / 1000.0
    return _number(gain / further) if further > 0 and _one_unit(parts, parts.anchor, s) else None


def _share(scores: Floats, s: int, other: int | None) -> float | None:
    won = scores[s, other] if other is not None else scores[s].sum()
    lost = scores[other, s] if other is not None else scores[:, s].sum()
    return float(won / (won + lost)) if won + lost > 0 else None


def _excluded(parts: Parts, s: int) -> int | None:
    """Task-runs that used tokens and stand in no comparison of the strategy."""
    if parts.tokens is None or not parts.tokens.joined:
        return None
    return int(parts.tokens.uncompared[s])


def _unused(parts: Parts, s: int) -> float | None:
    """The share of a strategy's tokens that no compared task-run rests on."""
    if parts.use is None or parts.tokens is None or not parts.tokens.joined:
        return None
    total = parts.use.total_tokens.get(parts.records.strategies[s], 0)
    return max(0.0, 1.0 - float(parts.tokens.counted[s]) / total) if total > 0 else None


def _estimated(parts: Parts, s: int) -> float | None:
    if parts.use is None:
        return None
    name = parts.records.strategies[s]
    total = parts.use.total_tokens.get(name, 0)
    return parts.use.estimated_tokens.get(name, 0) / total if total > 0 else None
