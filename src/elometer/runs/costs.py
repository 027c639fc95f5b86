"""What the calls of a plan will cost in tokens: from a table of earlier totals, or from a pilot's ledger."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from elometer.core.errors import UsageError
from elometer.core.text import gettext as _
from elometer.runs.sharing import calls_per_block
from elometer.runs.spec import Experiment


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A strategy's tokens in a table: of the whole experiment, or of one (task, run) where that is known."""

    total: int
    per_task_run: float | None = None


def read_token_table(path: Path) -> dict[str, TokenRow]:
    """`strategy,total_tokens[,tokens_per_task_run]` as in elo_result.csv; other columns are left aside.

    Raises UsageError for a file that is missing, has no such columns, or holds something other than tokens.
    """
    fix = _("Give a CSV with the columns strategy and total_tokens.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else _("not UTF-8 text")
        raise UsageError(
            _("The token table cannot be read."), evidence=f"{path}: {reason}", fix=fix
        ) from error
    reader = csv.DictReader(io.StringIO(text))
    if not {"strategy", "total_tokens"} <= set(reader.fieldnames or ()):
        columns = ", ".join(reader.fieldnames or ())
        raise UsageError(
            _("The token table lacks a column."), evidence=f"{path}: {columns or _('empty')}", fix=fix
        )
    rows: dict[str, TokenRow] = {}
    for row in reader:
        name = row["strategy"]
        total = _tokens(row["total_tokens"])
        if not name or name in rows or total is None:
            raise UsageError(
                _("A line of the token table does not fit."),
                evidence=f"{path}:{reader.line_num}: {name}, {row['total_tokens']}",
                fix=_("Give each strategy once, with a whole number of tokens."),
            )
        rows[name] = TokenRow(round(total), _tokens(row.get("tokens_per_task_run")))
    return rows


def _tokens(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


@dataclass(frozen=True, slots=True)
class Estimate:
    """Tokens of a whole plan by strategy, low and high, and where the numbers come from.

    `charged`: what each strategy's answers rest on, whoever made the calls; else what its own calls take.
    """

    by_strategy: Mapping[str, tuple[float, float]]
    source: str
    charged: bool = False

    @property
    def low(self) -> int:
        """Tokens of all strategies at the low end."""
        return round(sum(low for low, _high in self.by_strategy.values()))

    @property
    def high(self) -> int:
        """Tokens of all strategies at the high end."""
        return round(sum(high for _low, high in self.by_strategy.values()))


def from_table(table: Mapping[str, TokenRow], blocks: int, source: str) -> Estimate:
    """Totals as they stand, or tokens of a task-run times the blocks of the plan where the table has them."""
    totals = {
        name: row.total if row.per_task_run is None else row.per_task_run * blocks
        for name, row in table.items()
    }
    return Estimate({name: (total, total) for name, total in totals.items()}, source, charged=True)


def spent(experiment: Experiment, estimate: Estimate) -> Estimate:
    """What the calls of an experiment take, each counted once, at the strategy that owns it.

    Of charged tokens an owner's part is taken by the number of its calls. Later rounds cost more than the
    first ones, which it may not own, so there all that it is charged is taken: a bound from above.
    """
    parts = {}
    owners = {one.name: one for one in experiment.strategies}
    for name, calls in calls_per_block(experiment).items():
        owner = owners[name]
        share = calls / owner.calls if estimate.charged and owner.rounds == 1 else 1.0
        low, high = estimate.by_strategy[name]
        parts[name] = (low * share, high * share)
    return Estimate(parts, estimate.source)


@dataclass(frozen=True, slots=True)
class PilotLine:
    """What the estimate needs of a ledger line; `answered` for the attempt that answered its call."""

    strategy: str
    task: str
    run: int
    tokens: int
    answered: bool


def from_pilot(
    lines: Iterable[PilotLine], samples: Mapping[str, int], blocks: int, source: str
) -> Estimate | None:
    """From the ledger of blocks already made: the 10th and 90th percentile of tokens per task-run.

    Failed attempts count with the call that they belong to; a task-run with fewer answers than `samples` says
    is left out, since it would look cheap. None where no task-run is complete.
    """
    tokens: dict[tuple[str, str, int], int] = defaultdict(int)
    answers: dict[tuple[str, str, int], int] = defaultdict(int)
    for line in lines:
        place = (line.strategy, line.task, line.run)
        tokens[place] += line.tokens
        answers[place] += line.answered
    complete: dict[str, list[int]] = defaultdict(list)
    for place, total in tokens.items():
        if answers[place] >= samples.get(place[0], 1):
            complete[place[0]].append(total)
    bounds = {}
    for strategy, totals in complete.items():
        ordered = sorted(totals)
        low, high = (ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.9))
        bounds[strategy] = (float(low) * blocks, float(high) * blocks)
    return Estimate(bounds, source) if bounds else None
