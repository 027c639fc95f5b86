"""Ceilings: strategies outside the fit, drawn beside it as what selection could reach at most."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from elometer.core.natural import natural_key
from elometer.core.text import gettext as _
from elometer.ledger.charged import TokenSums
from elometer.rating.report import CSV_COLUMNS
from elometer.runs.journal import Outcome
from elometer.runs.spec import Experiment


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A row without Elo. `mean_score` over counted blocks; `win_rate_vs_anchor` counts ties as halves."""

    strategy: str
    k: int
    tasks: int
    runs: int
    calls: int
    total_tokens: int
    tokens_per_task_run: float | None
    mean_score: float | None
    win_rate_vs_anchor: float | None
    ties: int
    excluded: int

    def as_json(self) -> dict[str, Any]:
        """The object in fit.json."""
        return asdict(self)

    def line(self) -> str:
        """The ceiling in a sentence."""
        score = "–" if self.mean_score is None else f"{self.mean_score:.3f}"
        tokens = "–" if self.tokens_per_task_run is None else f"{self.tokens_per_task_run:,.0f}"
        return _(
            "Ceiling {name}: mean score {score}, {tokens} tokens a task-run; outside the fit, since its "
            "choice looks at the grades."
        ).format(name=self.strategy, score=score, tokens=tokens)


def mean_scores(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """Mean score of each strategy over its counted blocks."""
    scores: dict[str, list[float]] = {}
    for item in outcomes:
        if item.counted and item.score is not None:
            scores.setdefault(item.strategy, []).append(item.score)
    return {name: fmean(scores[name]) for name in sorted(scores, key=natural_key)}


def ceilings(
    experiment: Experiment, outcomes: Mapping[tuple[str, int, str], Outcome], sums: TokenSums, anchor: str
) -> list[Ceiling]:
    """The rows of all strategies with the role `ceiling`, in natural order."""
    found = []
    for strategy in sorted(experiment.strategies, key=lambda one: natural_key(one.name)):
        if strategy.role != "ceiling":
            continue
        mine = [item for (_task, _run, name), item in outcomes.items() if name == strategy.name]
        counted = [item for item in mine if item.counted and item.score is not None]
        wins, met, ties = 0.0, 0, 0
        for item in counted:
            other = outcomes.get((item.task, item.run, anchor))
            if other is None or not other.counted or other.score is None or item.score is None:
                continue
            met += 1
            if (shares := _shares(item, other)) is not None:
                wins += shares[0] + (1 - sum(shares)) / 2
                continue
            tie = abs(item.score - other.score) <= experiment.eval.tie_epsilon
            ties += tie
            wins += 0.5 if tie else float(item.score > other.score)
        tokens = [sums.answered.get((strategy.name, item.task, item.run)) for item in counted]
        known = [count for count in tokens if count is not None]
        found.append(
            Ceiling(
                strategy=strategy.name,
                k=strategy.calls,
                tasks=len({item.task for item in counted}),
                runs=len({(item.task, item.run) for item in counted}),
                calls=sums.calls.get(strategy.name, 0),
                total_tokens=sums.total.get(strategy.name, 0),
                tokens_per_task_run=fmean(known) if known else None,
                mean_score=fmean(item.score for item in counted if item.score is not None)
                if counted
                else None,
                win_rate_vs_anchor=wins / met if met else None,
                ties=ties,
                excluded=len(mine) - len(counted),
            )
        )
    return found


def _shares(one: Outcome, other: Outcome) -> tuple[float, float] | None:
    """How often the one won and lost in redraws; None outside the plan `pool`."""
    if one.against is None and other.against is None:
        return None
    from elometer.runs.pool import shares_of

    return shares_of(one, other)


def csv_rows(found: Iterable[Ceiling]) -> str:
    """Lines for elo_result.csv: the columns that a strategy without Elo has, the others empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for one in found:
        values = {**asdict(one), "role": "ceiling"}
        writer.writerow(["" if values.get(name) is None else values[name] for name in CSV_COLUMNS])
    return text.getvalue()
