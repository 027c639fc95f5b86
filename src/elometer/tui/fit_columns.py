"""The Fit pane as text: columns as data, what is not resolved, and what would resolve it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elometer.core.text import gettext as _
from elometer.tui.figures import (
    UNKNOWN,
    count,
    count_in,
    decimal,
    interval,
    share,
    short,
    short_interval,
    signed,
    with_minus,
)
from elometer.tui.fits import elo_interval, is_claim, resolved_word
from elometer.tui.widgets.rows import Column, Row

if TYPE_CHECKING:
    from elometer.rating.result import FitResult, StrategyFit
    from elometer.runs.ceilings import Ceiling
    from elometer.runs.result import Derived


# A step of next to nothing would need astronomically many tasks; a longer number says no more.
MOST_TASKS = 1_000_000


@dataclass(frozen=True, slots=True)
class Quantity:
    """A column and how its cell follows from a strategy's row of the fit."""

    column: Column
    cell: Callable[[Any], str]
    of_step: bool = False  # a quantity of the step from the strategy before; the first row has none


def _value(name: str, show: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda row: show(getattr(row, name, None))


def _number(places: int) -> Callable[[Any], str]:
    return lambda value: decimal(value, places)


def rank_text(best: int | None, worst: int | None) -> str:
    """`2–4`: the ranks that the data leave open."""
    if best is None or worst is None:
        return UNKNOWN
    return str(best) if best == worst else f"{best}–{worst}"


STRATEGY = Quantity(Column("strategy", _("strategy"), 9, "left", grow=8), lambda row: str(row.strategy))
RESOLVED = Quantity(Column("resolved", _("sure?"), 6, "left"), lambda row: "")
FOUNDING = (
    STRATEGY,
    Quantity(Column("tokens", _("tokens"), 8), lambda row: count_in(row.total_tokens, 8)),
    Quantity(Column("elo", _("Elo"), 6), _value("elo", _number(1))),
    Quantity(Column("delta", _("ΔElo"), 6), _value("delta_elo", signed), of_step=True),
    Quantity(
        Column("delta_token", _("Δtoken"), 7, drop=1),
        lambda row: count_in(row.delta_token, 7),
        of_step=True,
    ),
    Quantity(Column("marginal", _("ΔE/1k"), 6, drop=2), _value("marginal_elo_per_1k", short), of_step=True),
    Quantity(Column("per_run", _("/run"), 6), _value("marginal_per_1k_task_run", short), of_step=True),
    Quantity(
        Column("interval", _("/run interval"), 14, drop=3),
        lambda row: short_interval(getattr(row, "marginal_lo", None), getattr(row, "marginal_hi", None)),
        of_step=True,
    ),
    RESOLVED,
)
UNCACHED = Quantity(
    Column("uncached", _("/run uncached"), 13), _value("marginal_per_1k_uncached", short), of_step=True
)
MORE = (
    Quantity(
        Column("elo_interval", _("Elo interval"), 16),
        elo_interval,
    ),
    Quantity(
        Column("delta_interval", _("ΔElo interval"), 16),
        lambda row: interval(row.delta_lo, row.delta_hi),
        of_step=True,
    ),
    Quantity(Column("doubling", _("per ×2"), 7), _value("elo_per_doubling", _number(1)), of_step=True),
    Quantity(Column("elo_per_1k", _("gain/1k"), 8), _value("elo_per_1k", short), of_step=True),
    Quantity(Column("per_task_run", _("tok/run"), 8), _value("tokens_per_task_run", count)),
    UNCACHED,
    Quantity(Column("vs_anchor", _("win:anchor"), 10), _value("win_rate_vs_anchor", _number(3))),
    Quantity(Column("round_robin", _("win:all"), 7), _value("win_rate_round_robin", _number(3))),
    Quantity(Column("rank", _("rank"), 5), lambda row: rank_text(row.rank_lo, row.rank_hi)),
    Quantity(Column("ties", _("ties"), 5), _value("ties", count)),
    Quantity(Column("runs", _("runs"), 5), _value("runs", count)),
    Quantity(Column("calls", _("calls"), 6), _value("calls", count)),
    Quantity(Column("excluded", _("excl."), 5), _value("excluded", count)),
    Quantity(Column("unused", _("unused"), 6), _value("unused_token_share", share)),
    Quantity(Column("estimated", _("est."), 5), _value("estimated_token_share", share)),
    Quantity(Column("k", _("k"), 3), _value("k", count)),
    Quantity(Column("role", _("role"), 8, "left"), _value("role", lambda value: str(value or ""))),
)


def pages(width: int, fit: FitResult | None = None) -> list[tuple[Quantity, ...]]:
    """The founding columns, then the rest in as many screens as the width asks for.

    With a fit, without the column of a second token axis where no cache was used.
    """
    one_axis = fit is not None and all(row.uncached_per_task_run is None for row in fit.strategies)
    found: list[tuple[Quantity, ...]] = [FOUNDING]
    page: list[Quantity] = [STRATEGY]
    used = STRATEGY.column.width
    for quantity in MORE:
        if quantity is UNCACHED and one_axis:
            continue
        if used + 1 + quantity.column.width > width and len(page) > 1:
            found.append(tuple(page))
            page, used = [STRATEGY], STRATEGY.column.width
        page.append(quantity)
        used += 1 + quantity.column.width
    found.append(tuple(page))
    return found


def fit_rows(fit: FitResult, quantities: Sequence[Quantity]) -> list[Row]:
    """One row per strategy; what the data do not resolve is muted and says `? no`."""
    return [
        Row(
            row.strategy,
            {quantity.column.key: _cell(quantity, row, fit.anchor) for quantity in quantities},
            style="" if is_claim(row) else "muted",
        )
        for row in fit.strategies
    ]


def _cell(quantity: Quantity, row: StrategyFit, anchor: str) -> str:
    if quantity is RESOLVED:
        return resolved_word(row, anchor)
    if quantity.of_step and row.compared_with is None:
        return ""
    return quantity.cell(row)


def sentences(fit: FitResult, beside: Derived | None = None) -> list[tuple[str, str]]:
    """What may be said of returns and ceilings, what would resolve the rest, and warnings: (text, style)."""
    warnings = beside.fit.warnings if beside and beside.fit else fit.warnings
    said = [(text, "") for text in fit.returns]
    said += [(ceiling_text(fit, ceiling), "") for ceiling in (beside.ceilings if beside else ())]
    said += [(text, "muted") for row in fit.strategies if (text := _what_would_resolve(row))]
    said += [(f"! {warning.message}", "warning") for warning in warnings]
    remarks = beside.remarks if beside else None
    if remarks is not None:
        elo = {row.strategy: row.elo for row in fit.strategies}
        said += [(text, "") for text in (*remarks.exclusions.lines(elo), *remarks.observed.lines())]
        if remarks.halves is not None and not remarks.halves.differ:
            said.append((remarks.halves.line(), ""))
    return [(with_minus(text), style) for text, style in said]


def ceiling_text(fit: FitResult, ceiling: Ceiling) -> str:
    """A ceiling in words, and where it is drawn."""
    if ceiling_elo(fit, ceiling) is None:
        return ceiling.line()
    drawn = _("Drawn ◇ where its win rate of {rate} against {anchor} puts it.").format(
        rate=decimal(ceiling.win_rate_vs_anchor, 3), anchor=fit.anchor
    )
    return f"{ceiling.line()} {drawn}"


def ceiling_elo(fit: FitResult, ceiling: Ceiling) -> float | None:
    """The Elo at which the anchor would lose to it as often as it did; None where one of both always won."""
    rate = ceiling.win_rate_vs_anchor
    anchor = next((row.elo for row in fit.strategies if row.strategy == fit.anchor), None)
    if rate is None or not 0.0 < rate < 1.0 or anchor is None or fit.unit != "elo":
        return None
    return anchor + fit.elo_scale * math.log10(rate / (1.0 - rate))


def _what_would_resolve(row: StrategyFit) -> str:
    if is_claim(row) or row.tasks_needed is None:
        return ""
    wanted = _("about {n}").format(n=count(row.tasks_needed))
    if row.tasks_needed > MOST_TASKS:
        wanted = _("more than {n}").format(n=count(MOST_TASKS))
    return _("? {strategy}: ΔElo {delta} {interval} not resolved; needs {wanted} tasks.").format(
        strategy=row.strategy,
        delta=signed(row.delta_elo),
        interval=interval(row.delta_lo, row.delta_hi),
        wanted=wanted,
    )


def basis_text(fit: FitResult) -> str:
    """Tasks, comparisons, share of ties, estimator, and the level of all intervals shown."""
    return _("{tasks} tasks, {comparisons} comparisons, {ties} ties, {estimator}, {level} intervals").format(
        tasks=count(fit.tasks),
        comparisons=count(fit.comparisons),
        ties=share(fit.tie_rate),
        estimator=fit.estimator,
        level=share(fit.level),
    )
