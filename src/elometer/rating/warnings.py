"""What a reader of the numbers must know, each with a code that scripts may rely on."""

from __future__ import annotations

from elometer.core.natural import natural_key
from elometer.core.text import gettext as _
from elometer.core.text import ngettext, percent
from elometer.rating.comparisons import difference
from elometer.rating.consistency import circle, position_of
from elometer.rating.estimate import contrast, contrast_error
from elometer.rating.estimators import bradley_terry
from elometer.rating.orders import order_changes
from elometer.rating.records import sums
from elometer.rating.result import FitResult, FitWarning, chains
from elometer.rating.student import two_sided
from elometer.rating.tokens import TokenUse

FEW_TASKS = 10
# tests/rating/test_coverage.py, 2 to 10 tasks, with and without task effects.
SIMULATED_COVERAGE = "94 to 97 %"
FEW_COMPARISONS = 30
MANY_TIES = 0.5
LARGEST_TASK = 0.5
LARGEST_MOVE = 20  # Elo
LARGEST_SHARE_OF_ERROR = 0.5
FEW_TASKS_OF_STRATEGY = 5


def collect(result: FitResult, use: TokenUse | None, left_out: tuple[str, ...]) -> tuple[FitWarning, ...]:
    """All warnings of a fit, the gravest first."""
    found = [
        *_existence(result),
        *_convergence(result),
        *_shared_draws(result),
        *_profile(result),
        *_clusters(result),
        *_amount(result),
        *_consistency(result),
        *_tokens(result, use),
    ]
    if left_out:
        found.append(
            FitWarning(
                "tasks_left_out",
                _("Left out, since not all strategies are joined in them: {names}.").format(
                    names=_shortened(left_out)
                ),
            )
        )
    found.extend(FitWarning(code, message) for code, message in result.records.notes)
    return tuple(found)


def _shortened(names: tuple[str, ...], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else _("{names} and {n} more").format(names=shown, n=len(names) - most)


def _existence(result: FitResult) -> list[FitWarning]:
    if result.identified:
        return []
    found = []
    chain = chains(result.components, result.islands)
    if len(result.islands) > 1:
        message = _("No comparison joins these groups, so no Elo spans them: {islands}.")
        islands = "; ".join("{" + ", ".join(part) + "}" for part in result.islands)
        found.append(FitWarning("disconnected", message.format(islands=islands)))
    if len(result.islands) < len(result.components):
        message = _("no finite maximum: components {chain}, strongest first; no one won or tied upward.")
        found.append(FitWarning("no_finite_maximum", message.format(chain=chain)))
    found.extend(FitWarning("unbounded_" + each.direction, each.reason) for each in result.unbounded)
    return found


def _convergence(result: FitResult) -> list[FitWarning]:
    if result.estimate.converged:
        return []
    return [
        FitWarning(
            "not_converged",
            _("The search for the maximum did not pass its gradient check; do not rely on these numbers."),
        )
    ]


def _shared_draws(result: FitResult) -> list[FitWarning]:
    """Nested samples: only 0/1 scores in a pooled fit with ties as half wins depend on no shared draw."""
    records = result.records
    harmless = result.ties == "half" and result.aggregation == "pooled"
    tilted = records.shared_measured if harmless else records.shared
    if not tilted:
        return []
    message = _(
        "{n} of {all} comparisons rest on shared draws: the larger strategy holds the smaller one's answers, "
        "so gaps are too large (in simulation 677 Elo for 482) and no interval covers that. Pair answers of "
        "different runs, or draw from a pool."
    )
    return [FitWarning("shared_draws", message.format(n=tilted, all=records.comparisons))]


def _profile(result: FitResult) -> list[FitWarning]:
    if result.aggregation != "per-task-standardised":
        return []
    reason = _(
        "Standardising θ in each task makes a unitless profile: it prints a spread of about 480 Elo where "
        "all strategies are equal, and its intervals cover 9 to 63 % where 95 % is claimed."
    )
    return [FitWarning("standardised_profile", reason)]


def _clusters(result: FitResult) -> list[FitWarning]:
    clusters = result.estimate.clusters
    if result.interval_basis == "model":
        if result.options.generalise == "runs":
            message = _("One run of each task: runs tell no spread, and intervals are those of the model.")
            return [FitWarning("one_run_a_task", message)]
        message = _("One task: intervals are those of the model and speak of this task only.")
        return [FitWarning("this_task_only", message)]
    found = []
    if result.interval_basis == "tasks" and clusters < FEW_TASKS:
        found.append(
            FitWarning(
                "few_tasks",
                _(
                    "{n} tasks: in simulation 95 % intervals cover {cover} with so few tasks, by being wide; "
                    "more tasks narrow them more than more runs."
                ).format(n=clusters, cover=SIMULATED_COVERAGE),
            )
        )
    if any(_no_spread(result)):
        found.append(
            FitWarning(
                "no_spread",
                _("All tasks say exactly the same of some differences; their intervals are the model's."),
            )
        )
    return found


def _no_spread(result: FitResult) -> list[bool]:
    names = [row.strategy for row in result.strategies]
    flat = []
    for index, row in enumerate(result.strategies):
        if row.compared_with is not None and row.delta_lo is not None:
            weights = difference(len(names), names.index(row.compared_with), index)
            flat.append(contrast_error(result.estimate, weights)[2] == "no spread")
    return flat


def _amount(result: FitResult) -> list[FitWarning]:
    found = []
    counts = result.records.records_of.tolist()
    few = [row.strategy for row, n in zip(result.strategies, counts, strict=True) if n < FEW_COMPARISONS]
    if few:
        found.append(
            FitWarning(
                "few_comparisons",
                _("Fewer than {n} comparisons: {names}.").format(
                    n=FEW_COMPARISONS, names=_shortened(tuple(few))
                ),
            )
        )
    found.extend(_few_tasks_of_strategy(result))
    found.extend(_dominant_task(result))
    found.extend(_penalty_moves(result))
    if result.tie_rate > MANY_TIES:
        found.append(
            FitWarning(
                "many_ties", _("{share} of the comparisons are ties.").format(share=percent(result.tie_rate))
            )
        )
    if result.ties == "drop" and result.tie_rate > 0:
        found.append(
            FitWarning(
                "ties_dropped",
                _("Ties are dropped: Elo speaks of decisive comparisons only, and gaps look larger."),
            )
        )
    return found


def _few_tasks_of_strategy(result: FitResult) -> list[FitWarning]:
    """Where the fit has tasks enough, but not each strategy; `few_tasks` speaks of the others."""
    few = tuple(row.strategy for row in result.strategies if row.tasks < FEW_TASKS_OF_STRATEGY)
    if not few or result.tasks < FEW_TASKS_OF_STRATEGY:
        return []
    message = _("Compared in fewer than {n} tasks: {names}.")
    return [
        FitWarning("few_tasks_of_strategy", message.format(n=FEW_TASKS_OF_STRATEGY, names=_shortened(few)))
    ]


def _dominant_task(result: FitResult) -> list[FitWarning]:
    """Only where records, not tasks, weigh the same can one task outweigh all others."""
    if result.options.task_weight == "equal" or result.tasks < 2:
        return []
    records = result.records
    weight = records.first_wins + records.second_wins + records.ties
    per_task = sums(records.block_task[records.cell_block], weight, len(records.tasks))
    share = float(per_task.max() / per_task.sum())
    if share <= LARGEST_TASK:
        return []
    message = _("Task {name} holds {share} of the weight and decides the result.")
    return [
        FitWarning(
            "dominant_task", message.format(name=records.tasks[int(per_task.argmax())], share=percent(share))
        )
    ]


def _penalty_moves(result: FitResult) -> list[FitWarning]:
    """Where the penalty moves a difference by much, the data are too few for the number to be theirs."""
    estimate = result.estimate
    if result.estimator != "firth" or result.unit != "elo" or not result.identified:
        return []
    if result.aggregation != "pooled" or result.ties == "davidson" or result.options.position:
        return []
    plain = bradley_terry.fit_maximum_likelihood(estimate.scores[None], estimate.graph.island_of)
    moved = estimate.theta - plain.theta[0]
    names = [row.strategy for row in result.strategies]
    far = []
    for s, row in enumerate(result.strategies):
        if row.compared_with is None:
            continue
        weights = difference(len(names), names.index(row.compared_with), s)
        move, error = abs(float(weights @ moved)), contrast_error(estimate, weights)[0]
        limit = LARGEST_MOVE / result.options.per_logit
        if move > limit or (error is not None and move > LARGEST_SHARE_OF_ERROR * error):
            far.append(row.strategy)
    if not far:
        return []
    message = _(
        "The penalty moves ΔElo of {names} by more than {most} Elo or half a standard error: "
        "comparisons are few."
    )
    return [FitWarning("penalty_moves", message.format(names=_shortened(tuple(far)), most=LARGEST_MOVE))]


def _consistency(result: FitResult) -> list[FitWarning]:
    """Where the data contradict one number per strategy."""
    found = []
    three = circle(result.records, result.options, result.estimate.scores)
    if three is not None:
        a, b, c = (result.records.strategies[s] for s in three)
        message = _(
            "{a} beats {b}, {b} beats {c} and {c} beats {a}, each beyond chance: no number orders them."
        )
        found.append(FitWarning("intransitive", message.format(a=a, b=b, c=c)))
    found.extend(_order(result))
    position = position_of(result.records, result.options)
    if position is None:
        return found
    worth, error = (result.options.per_logit * value for value in (position.effect, position.error))
    if abs(worth) > two_sided(result.options.level, position.degrees) * error:
        message = _("Being shown first is worth {worth:+.0f} Elo (SE {error:.0f}): fit with --position.")
        found.append(FitWarning("position_effect", message.format(worth=worth, error=error)))
    if position.uneven:
        shares = tuple(
            _("{name} ({share})").format(name=result.records.strategies[s], share=percent(share))
            for s, share in position.uneven
        )
        message = _("Not shown first as often as second: {names} of their comparisons.")
        found.append(FitWarning("position_imbalance", message.format(names=_shortened(shares))))
    return found


def _order(result: FitResult) -> list[FitWarning]:
    """Pairs that change places with ties counted otherwise, those first whose difference is resolved."""
    estimate, names = result.estimate, result.records.strategies
    changes = order_changes(result.records, result.options, estimate.theta, estimate.graph)
    if not changes:
        return []
    ways = {"half": _("half"), "drop": _("dropped"), "davidson": _("by Davidson")}
    told = []
    for each in changes:
        gap = contrast(estimate, difference(len(names), each.lower, each.higher), result.level)
        said = _("{higher} over {lower} ({ways})").format(
            higher=names[each.higher], lower=names[each.lower], ways=", ".join(ways[way] for way in each.ties)
        )
        told.append((not gap.excludes_zero, said))
    told.sort(key=lambda pair: pair[0])
    message = _("The order turns with ties counted otherwise: {pairs}.")
    if all(open_ for open_, _said in told):
        message = _("The order turns with ties counted otherwise, none of it resolved: {pairs}.")
    shown = _shortened(tuple(said for _open, said in told))
    return [FitWarning("order_depends_on_ties", message.format(pairs=shown))]


def _units(result: FitResult, use: TokenUse) -> list[FitWarning]:
    """Where marginal Elo is refused: local counts of two models cannot be set against each other."""
    pairs = [(row.compared_with, row.strategy) for row in result.strategies if row.compared_with is not None]
    refused = [pair for pair in pairs if not use.comparable(pair, totals=True)]
    if not refused:
        return []
    names = sorted({name for pair in refused for name in pair}, key=natural_key)
    models = sorted({model for name in names for model in use.models.get(name, ())}, key=natural_key)
    if all(use.comparable(pair) for pair in refused):
        message = _(
            "No marginal Elo of total tokens across {models} for {names}: attempts that were cut are counted "
            "locally. That per task-run rests on the servers' own counts."
        )
    else:
        message = _(
            "No marginal Elo across {models} for {names}: their tokens are counted locally, and a local "
            "count holds within one model only. Have the gateway report usage, or fit each model apart."
        )
    shown = message.format(models=_shortened(tuple(models)), names=_shortened(tuple(names)))
    return [FitWarning("local_counts_across_models", shown)]


def _tokens(result: FitResult, use: TokenUse | None) -> list[FitWarning]:
    if use is None:
        return []
    found = _units(result, use)
    if use.unread_lines:
        message = ngettext(
            "{n} line of the ledger cannot be read, and its tokens are missing here.",
            "{n} lines of the ledger cannot be read, and their tokens are missing here.",
            use.unread_lines,
        )
        found.append(FitWarning("ledger_lines_unread", message.format(n=use.unread_lines)))
    unknown = tuple(
        row.strategy for row in result.strategies if not row.total_tokens or row.tokens_per_task_run is None
    )
    if unknown:
        found.append(
            FitWarning(
                "no_tokens", _("The ledger has no tokens for {names}.").format(names=_shortened(unknown))
            )
        )
    if result.tokens is not None and not result.tokens.joined:
        found.append(
            FitWarning(
                "tokens_not_joined",
                _("The records name no tasks: tokens are means over the ledger's task-runs, without spread."),
            )
        )
    for row in result.strategies:
        if row.marginal_basis == "no further tokens" and row.compared_with is not None:
            message = _("{name} used no more tokens per task-run than {other}.")
            if row.delta_elo is not None and row.delta_elo > 0 and row.resolved:
                message = _("{name} dominates {other}: higher Elo, no more tokens.")
            found.append(
                FitWarning("no_further_tokens", message.format(name=row.strategy, other=row.compared_with))
            )
        elif row.marginal_basis == "no extra cost measured":
            found.append(
                FitWarning(
                    "no_extra_cost_measured",
                    _("{name} against {other}: the interval of the token difference includes 0.").format(
                        name=row.strategy, other=row.compared_with
                    ),
                )
            )
    return found
