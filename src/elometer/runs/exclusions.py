"""Excluded blocks: how many, whether errors fell on strategies alike, and what they could at most have moved.

An error is not a loss, so its pairs are left out. That is harmless only where errors strike all strategies
alike: whoever makes more calls meets more of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from elometer.core.errors import UsageError
from elometer.core.natural import natural_key
from elometer.core.text import gettext as _
from elometer.rating.fit import elo_ratings
from elometer.rating.options import FitOptions
from elometer.runs.journal import Outcome
from elometer.runs.pairing import Pairing

# Not made, rather than gone wrong: a later start makes them.
UNFINISHED = frozenset({"cancelled", "budget_stop"})
DRAWS = 9_999
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Exclusions:
    """What was left out of the pairs.

    `errors` and `unfinished` count blocks by strategy and outcome, `blocks` all blocks of a strategy. `p` is
    the probability of error rates at least so different if errors struck all strategies alike (`test` names
    how it was found), None without errors. `if_won` and `if_lost` are Elo by strategy in the best and the
    worst case for it: its own excluded answers set to the best of their blocks and all others' to the worst,
    and the other way round; empty where nothing was excluded or no fit exists.
    """

    errors: dict[str, dict[str, int]]
    unfinished: dict[str, int]
    blocks: dict[str, int]
    test: str = ""
    p: float | None = None
    if_won: dict[str, float | None] = field(default_factory=dict)
    if_lost: dict[str, float | None] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """True where anything was excluded."""
        return bool(self.errors or self.unfinished)

    @property
    def differ(self) -> bool:
        """True where error rates differ by strategy at the level of 5 %."""
        return self.p is not None and self.p < LEVEL

    def as_json(self) -> dict[str, Any]:
        """The object in fit.json."""
        return {
            "errors": self.errors,
            "unfinished": self.unfinished,
            "blocks": self.blocks,
            "test": self.test,
            "p": self.p,
            "elo_if_all_won": self.if_won,
            "elo_if_all_lost": self.if_lost,
        }

    def lines(self, elo: Mapping[str, float | None]) -> list[str]:
        """What a reader must know, `elo` being the fit that left them out."""
        if not self.any:
            return []
        found = []
        for name, kinds in self.errors.items():
            words = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
            found.append(
                _("{name} {n} of {blocks} ({kinds})").format(
                    name=name, n=sum(kinds.values()), blocks=self.blocks[name], kinds=words
                )
            )
        said = [_("Excluded from pairs: {list}.").format(list="; ".join(found))] if found else []
        if self.unfinished:
            words = ", ".join(f"{name} {count}" for name, count in self.unfinished.items())
            said.append(_("Not finished, to be filled by a later start: {list}.").format(list=words))
        if self.p is not None:
            verdict = _("they differ") if self.differ else _("no difference shown")
            said.append(
                _("Error rates by strategy: {verdict} ({test}, p = {p:.3g}).").format(
                    verdict=verdict, test=self.test, p=self.p
                )
            )
        bounds = [
            _("{name} {elo:.0f} [{low:.0f}, {high:.0f}]").format(
                name=name, elo=elo[name], low=min(one, other), high=max(one, other)
            )
            for name in self.if_won
            if (one := self.if_won[name]) is not None
            and (other := self.if_lost.get(name)) is not None
            and elo.get(name) is not None
        ]
        if bounds:
            said.append(
                _("Elo [if every excluded answer spoke against it, for it]: {list}.").format(
                    list=", ".join(bounds)
                )
            )
        return said


def exclusions(
    outcomes: Iterable[Outcome],
    names: Sequence[str],
    options: FitOptions,
    *,
    pairing: Pairing | None = None,
) -> Exclusions:
    """The account of what is excluded among the outcomes of the strategies `names` (those in the fit).

    Where strategies share draws one error excludes several of them: no test of alike rates then holds.
    """
    pairing = pairing or Pairing.within_runs(options.experiment_id, names)
    kept = [item for item in outcomes if item.strategy in set(names)]
    blocks = Counter(item.strategy for item in kept)
    errors: dict[str, Counter[str]] = {}
    unfinished: Counter[str] = Counter()
    for item in kept:
        if item.counted:
            continue
        if item.outcome in UNFINISHED:
            unfinished[item.strategy] += 1
        else:
            errors.setdefault(item.strategy, Counter())[item.outcome] += 1
    ordered = sorted(blocks, key=natural_key)
    failed = [sum(errors.get(name, Counter()).values()) for name in ordered]
    tried = [blocks[name] - unfinished[name] for name in ordered]
    test, p = rates_differ(failed, tried) if pairing.plan == "independent" else ("", None)
    left_out = bool(errors or unfinished)
    return Exclusions(
        errors={name: dict(errors[name]) for name in ordered if name in errors},
        unfinished={name: unfinished[name] for name in ordered if unfinished[name]},
        blocks={name: blocks[name] for name in ordered},
        test=test,
        p=p,
        if_won=_elo_if(kept, ordered, math.inf, options, pairing) if left_out else {},
        if_lost=_elo_if(kept, ordered, -math.inf, options, pairing) if left_out else {},
    )


def _elo_if(
    outcomes: Sequence[Outcome],
    names: Sequence[str],
    score: float,
    options: FitOptions,
    pairing: Pairing,
) -> dict[str, float | None]:
    """Elo of each strategy with its own excluded answers scored so, and everybody else's the opposite way.

    All of them at once would be no bound: where the anchor's excluded answers win too, they take Elo away.
    """
    found = {}
    for name in names:
        filled = [
            one
            if one.counted
            else replace(one, outcome="ok", score=score if one.strategy == name else -score)
            for one in outcomes
        ]
        try:
            found[name] = elo_ratings(pairing.counts(filled), options).get(name)
        except UsageError:
            return {}
    return found


def rates_differ(failed: Sequence[int], tried: Sequence[int]) -> tuple[str, float | None]:
    """The name of a test of equal rates and its p-value; None where nothing failed or nobody differs.

    Two groups: Fisher's exact test. More: the chi-square statistic of homogeneity against its distribution
    under the fixed margins (9,999 draws with a fixed seed), since expected counts are small here.
    """
    groups = [(bad, all_) for bad, all_ in zip(failed, tried, strict=True) if all_]
    bad = [one for one, _all in groups]
    if not sum(bad) or len(groups) < 2:
        return "", None
    sizes = [size for _bad, size in groups]
    if sum(bad) == sum(sizes):
        return "", None  # everything failed: no difference can show
    if len(groups) == 2:
        return "Fisher", _fisher(bad[0], sizes[0], bad[1], sizes[1])
    import numpy as np

    total = np.array(sizes, dtype=np.int64)
    rate = sum(bad) / total.sum()
    expected = total * rate
    spread = expected * (1 - rate)
    drawn = np.random.default_rng(0).multivariate_hypergeometric(total, sum(bad), size=DRAWS)
    statistics = (((drawn - expected) ** 2) / spread).sum(axis=1)
    observed = float((((np.array(bad) - expected) ** 2) / spread).sum())
    as_far = int((statistics >= observed * (1 - 1e-9)).sum())
    return "chi-square, permuted", (as_far + 1) / (DRAWS + 1)


def _fisher(bad: int, size: int, other_bad: int, other_size: int) -> float:
    """Two-sided Fisher's exact test: all tables of the margins that are no likelier than this one."""
    failures, everyone = bad + other_bad, size + other_size

    def chance(count: int) -> float:
        return (
            math.comb(size, count) * math.comb(other_size, failures - count) / math.comb(everyone, failures)
        )

    low, high = max(0, failures - other_size), min(size, failures)
    here = chance(bad)
    return min(1.0, math.fsum(p for p in map(chance, range(low, high + 1)) if p <= here * (1 + 1e-9)))
