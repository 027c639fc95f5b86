"""A fit as JSON, CSV and text."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from elometer.core.terminal_text import cell_width, printable, to_left, to_right
from elometer.core.text import gettext as _
from elometer.core.text import ngettext, percent
from elometer.rating.design import Design
from elometer.rating.economics import best_of_n_doubling
from elometer.rating.result import FitResult, StrategyFit

JSON_COLUMNS = (
    "strategy",
    "theta",
    "se",
    "elo",
    "elo_lo",
    "elo_hi",
    "total_tokens",
    "delta_elo",
    "delta_lo",
    "delta_hi",
    "delta_token",
    "marginal_elo_per_1k",
    "marginal_lo",
    "marginal_hi",
    "elo_per_doubling",
    "win_rate_vs_anchor",
    "win_rate_round_robin",
    "resolved",
)
CSV_COLUMNS = (
    "strategy",
    "total_tokens",
    "elo",
    "delta_elo",
    "delta_token",
    "marginal_elo_per_1k",
    "k",
    "role",
    "tasks",
    "runs",
    "calls",
    "tokens_per_task_run",
    "marginal_per_1k_task_run",
    "marginal_lo",
    "marginal_hi",
    "win_rate_vs_anchor",
    "win_rate_round_robin",
    "ties",
    "excluded",
    "elo_lo",
    "elo_hi",
    "delta_lo",
    "delta_hi",
    "resolved",
    "elo_per_1k",
    "elo_per_doubling",
    "unused_token_share",
    "estimated_token_share",
)
NOTHING = "-"
GAP = 2


def fit_json(result: FitResult) -> dict[str, Any]:
    """The object that `elometer fit --json` prints; None where the data do not tell."""
    return {
        "experiment_id": result.experiment_id,
        "estimator": result.estimator,
        "ties": result.ties,
        "aggregation": result.aggregation,
        "identified": result.identified,
        "components": [list(part) for part in result.components],
        "unbounded": [asdict(each) for each in result.unbounded],
        "tasks": result.tasks,
        "comparisons": result.comparisons,
        "tie_rate": result.tie_rate,
        "elo_base": result.elo_base,
        "elo_scale": result.elo_scale,
        "anchor": result.anchor,
        "strategies": [_json_row(row) for row in result.strategies],
        "warnings": [{"code": each.code, "message": each.message} for each in result.warnings],
        "unit": result.unit,
        "level": result.level,
        "interval_basis": result.interval_basis,
        "islands": [list(part) for part in result.islands],
        "reference_elo_per_doubling": best_of_n_doubling(result.elo_scale),
        "curvature": None if result.curvature is None else asdict(result.curvature),
        "knee": _knee_json(result),
        "design": None if result.design is None else asdict(result.design),
        "returns": list(result.returns),
        "position": _term(result.position),
        "log_nu": _term(result.log_nu),
    }


def _json_row(row: StrategyFit) -> dict[str, Any]:
    values = asdict(row)
    return {name: values[name] for name in JSON_COLUMNS} | {
        name: value for name, value in values.items() if name not in JSON_COLUMNS
    }


def _knee_json(result: FitResult) -> dict[str, Any] | None:
    knee = result.knee
    if knee is None:
        return None
    names = [row.strategy for row in result.strategies]

    def name(index: int | None) -> str | None:
        return None if index is None else names[index]

    return {
        "strategy": name(knee.strategy),
        "candidate": name(knee.candidate),
        "best": name(knee.best),
        "margin": knee.margin,
        "tasks_needed": knee.tasks_needed,
    }


def _term(term: tuple[float, float] | None) -> dict[str, float] | None:
    return None if term is None else {"value": term[0], "se": term[1]}


def csv_text(result: FitResult) -> str:
    """elo_result.csv: one row per strategy in natural order, an empty field where the data do not tell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in result.strategies:
        writer.writerow([_csv_value(getattr(row, name)) for name in CSV_COLUMNS])
    return text.getvalue()


def _csv_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    return str(value)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the text table; the one with the highest `rank` goes first where the width is short.

    A `priced` column is left out where there are no tokens.
    """

    title: str
    cell: Callable[[StrategyFit], str]
    rank: int = 0
    priced: bool = False


def _integer(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def _decimal(value: float | None, digits: int = 2) -> str:
    return NOTHING if value is None else f"{_unsigned_zero(value, digits):.{digits}f}"


def _signed(value: float | None, digits: int = 2) -> str:
    return NOTHING if value is None else f"{_unsigned_zero(value, digits):+.{digits}f}"


def _unsigned_zero(value: float, digits: int) -> float:
    return 0.0 if abs(value) < 0.5 * 10.0**-digits else value


def _range(low: float | None, high: float | None, digits: int = 0) -> str:
    if low is None or high is None:
        return NOTHING
    return f"[{_signed(low, digits)}, {_signed(high, digits)}]"


def _short(value: float | None) -> str:
    return _decimal(value, 2 if value is not None and abs(value) < 10 else 1)


def _marginal_range(row: StrategyFit) -> str:
    low, high = row.marginal_lo, row.marginal_hi
    if low is None or high is None:
        return NOTHING
    largest = max(abs(low), abs(high))
    return _range(low, high, 2 if largest < 10 else 1 if largest < 100 else 0)


def _elo_range(low: float | None, high: float | None) -> str:
    return NOTHING if low is None or high is None else f"[{low:.0f}, {high:.0f}]"


def _marked_elo(row: StrategyFit) -> str:
    return _decimal(row.elo) + ("" if row.identified else " *")


def _bounded_delta(row: StrategyFit) -> str:
    return _signed(row.delta_elo, 1)


def _resolved(row: StrategyFit) -> str:
    if not row.identified:
        return _("no *")
    if row.compared_with is None:
        return NOTHING
    return _("yes") if row.resolved else _("no")


def _columns(result: FitResult) -> list[_Column]:
    priced = result.tokens is not None or any(row.total_tokens is not None for row in result.strategies)
    if result.unit == "profile":
        return [
            _Column(_("strategy"), lambda row: row.strategy),
            _Column(_("profile (no unit)"), lambda row: _signed(row.theta, 3)),
            _Column(_("win rate"), lambda row: _decimal(row.win_rate_round_robin)),
        ]
    columns = [
        _Column(_("strategy"), lambda row: row.strategy),
        _Column(_("tokens"), lambda row: _integer(row.total_tokens), priced=True),
        _Column(_("Elo"), _marked_elo),
        _Column(_("interval"), lambda row: _elo_range(row.elo_lo, row.elo_hi), rank=3),
        _Column(_("ΔElo"), _bounded_delta),
        _Column(_("interval of Δ"), lambda row: _range(row.delta_lo, row.delta_hi), rank=2),
        _Column(_("/1k"), lambda row: _decimal(row.marginal_elo_per_1k), priced=True),
        _Column(_("/1k run"), lambda row: _short(row.marginal_per_1k_task_run), priced=True),
        _Column(_("its interval"), _marginal_range, rank=1, priced=True),
        _Column(_("resolved?"), _resolved),
    ]
    return [column for column in columns if priced or not column.priced]


def text_table(result: FitResult, *, width: int = 80) -> str:
    """The fit as a table of at most `width` columns where names allow, with what must be known below it."""
    columns = _columns(result)
    cells = _cells(columns, result)
    while _width(cells) > width and any(column.rank for column in columns):
        last = max(range(len(columns)), key=lambda index: columns[index].rank)
        del columns[last]
        cells = _cells(columns, result)
    lines = _aligned(cells)
    notes = [_head(result), *_legend(result, columns), *_terms(result), *result.returns, *_power(result)]
    notes.extend(f"! {each.message}" for each in result.warnings)
    wrapped = [
        line
        for note in notes
        for line in textwrap.wrap(
            printable(note), max(width, 20), subsequent_indent="  ", break_on_hyphens=False
        )
    ]
    return "\n".join([*lines, "", *wrapped]) + "\n"


def _cells(columns: list[_Column], result: FitResult) -> list[list[str]]:
    titles = [column.title for column in columns]
    return [titles, *([printable(column.cell(row)) for column in columns] for row in result.strategies)]


def _width(cells: list[list[str]]) -> int:
    return sum(max(map(cell_width, column)) for column in zip(*cells, strict=True)) + GAP * (
        len(cells[0]) - 1
    )


def _aligned(cells: list[list[str]]) -> list[str]:
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        first = to_left(row[0], widths[0])
        rest = [to_right(cell, size) for cell, size in zip(row[1:], widths[1:], strict=True)]
        lines.append((" " * GAP).join([first, *rest]).rstrip())
    return lines


def _head(result: FitResult) -> str:
    return _(
        "{estimator}, ties {ties}, {aggregation}; {comparisons} comparisons in {tasks}, {share} "
        "ties; {level:g} % intervals {basis}; {anchor} = {base}."
    ).format(
        estimator=result.estimator,
        ties=result.ties,
        aggregation=result.aggregation,
        comparisons=result.comparisons,
        tasks=ngettext("{n} task", "{n} tasks", result.tasks).format(n=result.tasks),
        share=percent(result.tie_rate),
        level=round(100 * result.level, 6),
        basis=_basis(result),
        anchor=result.anchor,
        base=f"{result.elo_base:g}" if result.unit == "elo" else "0",
    )


def _basis(result: FitResult) -> str:
    """What standard errors rest on, in words."""
    if result.interval_basis == "model" and result.options.generalise == "runs":
        return _("of the model, one run a task")
    return {
        "tasks": _("clustered by task"),
        "runs": _("over further runs of these tasks"),
        "model": _("of the model, this task only"),
    }[result.interval_basis]


def _terms(result: FitResult) -> list[str]:
    """What the model estimates beside strengths."""
    said = []
    if result.position is not None:
        value, error = (result.options.per_logit * number for number in result.position)
        said.append(
            _("Being shown first is worth {value:+.1f} Elo (standard error {error:.1f}, {basis}).").format(
                value=value, error=error, basis=_basis(result)
            )
        )
    if result.log_nu is not None:
        chance = 1.0 / (1.0 + 2.0 * math.exp(-result.log_nu[0]))
        said.append(_("Two equal strategies tie with a chance of {chance}.").format(chance=percent(chance)))
    if result.design is not None:
        said.append(_weights(result.design))
    uncached = [
        _("{strategy} {value}").format(strategy=row.strategy, value=_short(row.marginal_per_1k_uncached))
        for row in result.strategies
        if row.marginal_per_1k_uncached is not None
    ]
    if uncached:
        said.append(
            _("/1k run without input read from a cache: {values}.").format(values=", ".join(uncached))
        )
    return said


def _power(result: FitResult) -> list[str]:
    """What would resolve the rest: tasks at the differences seen, and the step that these tasks find."""
    open_ = [row for row in result.strategies if row.delta_bounded and not row.resolved and row.tasks_needed]
    found = [row.detectable_delta_elo for row in result.strategies if row.detectable_delta_elo is not None]
    if not open_ or not found:
        return []
    low, high = _integer(min(found)), _integer(max(found))
    return [
        _(
            "To resolve ΔElo as seen takes, in tasks: {needed}. These tasks find steps of {least} Elo (80 %)."
        ).format(
            needed=", ".join(f"{row.strategy} {_integer(row.tasks_needed)}" for row in open_),
            least=low if low == high else _("{low} to {high}").format(low=low, high=high),
        )
    ]


def _weights(design: Design) -> str:
    largest = _("Each record weighs the same; task {name} holds {share} of the weight.").format(
        name=design.largest_task, share=percent(design.largest_share)
    )
    effects = sorted(effect for effect in design.effects if effect is not None)
    if not effects:
        return largest
    low, high = f"{effects[0]:.2f}", f"{effects[-1]:.2f}"
    told = low if low == high else _("{low} to {high}").format(low=low, high=high)
    return largest + _(" Design effect of ΔElo {effects}: variance over that of independent records.").format(
        effects=told
    )


def _legend(result: FitResult, columns: list[_Column]) -> list[str]:
    said = []
    if any(column.priced for column in columns):
        said.append(_("/1k: ΔElo per 1,000 further tokens in all; /1k run: per 1,000 of a task-run."))
    if all(row.identified for row in result.strategies):
        return said
    kept = ", ".join(row.strategy for row in result.strategies if not row.identified and row.elo is not None)
    if kept:
        marked = _("* not resolved: {names}. The penalty keeps the number finite, the data do not bound it.")
        said.append(marked.format(names=kept))
    apart = ", ".join(row.strategy for row in result.strategies if row.elo is None)
    if apart and result.unit == "elo":
        marked = _("* no Elo: {names}. No chain of comparisons joins them with {anchor}.")
        said.append(marked.format(names=apart, anchor=result.anchor))
    return said
