"""The sentences on returns: against the reference line, the bend, and the knee."""

from __future__ import annotations

from elometer.core.text import gettext as _
from elometer.rating.economics import Curvature, Knee, best_of_n_doubling
from elometer.rating.options import FitOptions
from elometer.rating.result import StrategyFit
from elometer.rating.tokens import LOCAL_COUNTS


def sentences(
    in_elo: bool,
    rows: tuple[StrategyFit, ...],
    bend: Curvature | None,
    knee: Knee | None,
    options: FitOptions,
    names: tuple[str, ...],
) -> tuple[str, ...]:
    """What may be said of returns; empty without tokens."""
    if not in_elo:
        return ()
    said = [_last_doubling(rows, options), _bend(bend, rows), _knee(knee, names)]
    return tuple(sentence for sentence in said if sentence)


def _last_doubling(rows: tuple[StrategyFit, ...], options: FitOptions) -> str:
    measured = [row for row in rows if row.elo_per_doubling is not None and row.role == "strategy"]
    if not measured:
        return ""
    row = measured[-1]
    reference = best_of_n_doubling(options.elo_scale)
    low, high = row.elo_per_doubling_lo, row.elo_per_doubling_hi
    pair = _("{one} to {other}").format(one=row.compared_with, other=row.strategy)
    if low is None or high is None:
        return _("{pair}: what a doubling of tokens buys is not bounded by these data.").format(pair=pair)
    # By the digits that are printed: an interval whose end reads like the reference is not off it.
    if round(high, 1) < round(reference, 1):
        verdict = _("below")
    elif round(low, 1) > round(reference, 1):
        verdict = _("above")
    else:
        verdict = _("not told apart from")
    return _(
        "{pair}: {value:+.1f} Elo per doubling of tokens [{low:+.1f}, {high:+.1f}], {verdict} "
        "the {reference:.1f} of perfect best-of-n, under which Elo per 1k tokens halves at every doubling."
    ).format(
        pair=pair,
        value=row.elo_per_doubling,
        low=low,
        high=high,
        verdict=verdict,
        reference=reference,
    )


def _bend(bend: Curvature | None, rows: tuple[StrategyFit, ...]) -> str:
    if not any(row.tokens_per_task_run is not None for row in rows):
        return ""
    if bend is None and any(row.marginal_basis == LOCAL_COUNTS for row in rows):
        return _("Diminishing returns: not tested, the tokens are local counts of several models.")
    if bend is None:
        return _("Diminishing returns: not tested, which takes four identified budgets of one ladder.")
    if bend.low is None or bend.high is None or bend.p_diminishing is None:
        return _("Diminishing returns: not tested, the data do not bound the bend.")
    if bend.high < 0:
        verdict = _("returns diminish faster than the logarithm of tokens")
    elif bend.low > 0:
        verdict = _("returns grow faster than the logarithm of tokens")
    else:
        verdict = _("no departure from the logarithm of tokens is resolved")
    return _(
        "Bend: {value:+.1f} Elo per squared doubling [{low:+.1f}, {high:+.1f}], "
        "one-sided p = {p:.3f}: {verdict}."
    ).format(value=bend.value, low=bend.low, high=bend.high, p=bend.p_diminishing, verdict=verdict)


def _knee(knee: Knee | None, names: tuple[str, ...]) -> str:
    if knee is None:
        return ""
    if knee.strategy == knee.best:
        return _(
            "Knee: {best}, the best; all that are cheaper lie more than {margin:g} Elo below it."
        ).format(best=names[knee.best], margin=knee.margin)
    if knee.strategy is not None:
        return _("Knee: {name} is the cheapest within {margin:g} Elo of the best, {best}.").format(
            name=names[knee.strategy], margin=knee.margin, best=names[knee.best]
        )
    if knee.candidate is None or knee.tasks_needed is None:
        return _("Knee (within {margin:g} Elo of the best): not determined.").format(margin=knee.margin)
    return _(
        "Knee (within {margin:g} Elo of the best): not determined; "
        "to confirm {name} takes about {tasks} tasks."
    ).format(margin=knee.margin, name=names[knee.candidate], tasks=knee.tasks_needed)
