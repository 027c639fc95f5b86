"""Where a row of the fit comes from: ledger lines, pairs, formula, and the commands that show each."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from elometer.core.text import gettext as _
from elometer.core.text import ngettext
from elometer.tui.figures import count, decimal, interval, short, short_interval, signed
from elometer.tui.widgets.lines import fit_cells

if TYPE_CHECKING:
    from elometer.ledger.totals import TotalsRow
    from elometer.rating.result import FitResult, StrategyFit

NAME_CELLS = 20


def source_lines(fit: FitResult, strategy: str, spent: TotalsRow | None, folder: Path) -> list[str]:
    """The way from files to the numbers of one row. `spent` is None where no ledger line carries its name."""
    row = fit.row(strategy)
    ledger, records = (
        shlex.quote(str(folder / name)) for name in ("token_ledger.jsonl", "pairwise_records.jsonl")
    )
    return [
        *_ledger(strategy, spent),
        *_charged(row, spent, ledger),
        f"  $ elometer ledger totals {ledger}",
        f'  $ grep \'"strategy":"{strategy}"\' {ledger}',
        "",
        *_pairs(fit, strategy),
        f"  $ grep '\"{strategy}\"' {records}",
        "",
        *_formula(fit, row),
        f"  $ elometer fit {records} --ledger {ledger}",
    ]


def _charged(row: StrategyFit, spent: TotalsRow | None, ledger: str) -> list[str]:
    """What a strategy is charged beside its own lines, where it shares calls with others."""
    own = 0 if spent is None else spent.total_tokens or 0
    if not row.total_tokens or row.total_tokens == own:
        return []
    text = _("  charged {total} tokens, with calls that it shares: {calls} calls in all").format(
        total=count(row.total_tokens), calls=count(row.calls)
    )
    return [text, f'  $ elometer ledger export {ledger} --expand | grep \'"strategy":"{row.strategy}"\'']


def _ledger(strategy: str, spent: TotalsRow | None) -> list[str]:
    if spent is None:
        return [_("1 Ledger: no line carries the name {strategy}.").format(strategy=strategy)]
    lines = [
        _("1 Ledger: {lines} lines of {calls} calls in {runs} task-runs").format(
            lines=count(spent.lines), calls=count(spent.calls), runs=count(spent.runs)
        ),
        _("  prompt {prompt} + completion {completion} = {total} tokens").format(
            prompt=count(spent.prompt_tokens),
            completion=count(spent.completion_tokens),
            total=count(spent.total_tokens),
        ),
    ]
    if spent.failed_attempts:
        n = spent.failed_attempts
        lines.append("  " + ngettext("{n} failed attempt", "{n} failed attempts", n).format(n=count(n)))
    if spent.estimated_tokens:
        lines.append(_("  {n} of the tokens are estimates").format(n=count(spent.estimated_tokens)))
    if spent.unknown_usage_lines:
        lines.append(_("  {n} answered lines have no count").format(n=count(spent.unknown_usage_lines)))
    return lines


def _pairs(fit: FitResult, strategy: str) -> list[str]:
    """Comparisons with each other strategy, summed over tasks."""
    records = fit.records
    me = records.strategies.index(strategy)
    met: dict[int, tuple[float, float, float]] = {}
    cells = zip(
        records.first.tolist(), records.second.tolist(), records.first_wins.tolist(),
        records.second_wins.tolist(), records.ties.tolist(), strict=True,
    )  # fmt: skip
    for first, second, first_wins, second_wins, ties in cells:
        if me not in (first, second):
            continue
        other = second if first == me else first
        won, lost = (first_wins, second_wins) if first == me else (second_wins, first_wins)
        before = met.get(other, (0.0, 0.0, 0.0))
        met[other] = (before[0] + won, before[1] + lost, before[2] + ties)
    total = sum(sum(each) for each in met.values())
    lines = [
        _("2 Pairs: {n} comparisons in {tasks} tasks, {runs} task-runs").format(
            n=count(total), tasks=count(fit.row(strategy).tasks), runs=count(fit.row(strategy).runs)
        )
    ]
    for other in sorted(met):
        won, lost, tied = met[other]
        lines.append(
            _("  against {name}  won {won}, lost {lost}, tied {tied}").format(
                name=fit_cells(records.strategies[other], NAME_CELLS),
                won=count(won),
                lost=count(lost),
                tied=count(tied),
            )
        )
    return lines


def _formula(fit: FitResult, row: StrategyFit) -> list[str]:
    if row.theta is None or row.elo is None:
        return [_("3 Fit: {estimator}; the data do not bound this strategy.").format(estimator=fit.estimator)]
    lines = [
        _("3 Fit: {estimator}, {anchor} is the anchor").format(estimator=fit.estimator, anchor=fit.anchor),
        _("  Elo = {base:g} + {scale:g} × θ / ln 10 = {base:g} + {per:.2f} × {theta} = {elo}").format(
            base=fit.elo_base,
            scale=fit.elo_scale,
            per=fit.elo_scale / math.log(10),
            theta=signed(row.theta, 4),
            elo=decimal(row.elo, 1),
        ),
    ]
    if not row.identified:
        lines.append(_("  * The penalty keeps this number finite, the data do not bound it."))
    if row.compared_with is None:
        return lines
    if not row.delta_bounded:
        lines.append(_("  ΔElo to {name}: the data do not bound it.").format(name=row.compared_with))
        return lines
    before = fit.row(row.compared_with)
    lines.append(
        _("  ΔElo = {elo} − {before} ({name}) = {delta} {interval}").format(
            elo=decimal(row.elo, 1),
            before=decimal(before.elo, 1),
            name=before.strategy,
            delta=signed(row.delta_elo),
            interval=interval(row.delta_lo, row.delta_hi),
        )
    )
    if row.marginal_elo_per_1k is not None:
        lines.append(
            _("  ΔE/1k = 1000 × {delta} / ({tokens} − {before} tokens) = {value}").format(
                delta=signed(row.delta_elo),
                tokens=count(row.total_tokens),
                before=count(before.total_tokens),
                value=short(row.marginal_elo_per_1k),
            )
        )
    if row.marginal_per_1k_task_run is not None:
        lines.append(
            _(
                "  /run = 1000 × {delta} / ({tokens} − {before} tokens per task-run) = {value} {interval}"
            ).format(
                delta=signed(row.delta_elo),
                tokens=decimal(row.tokens_per_task_run, 1),
                before=decimal(before.tokens_per_task_run, 1),
                value=short(row.marginal_per_1k_task_run),
                interval=short_interval(row.marginal_lo, row.marginal_hi),
            )
        )
    return lines
