"""Speed of the fit beside its peers in one run: `OPENBLAS_NUM_THREADS=1 pytest -m benchmark -s` on this file.

CPU seconds of this process, one thread; the input is a list of (winner, loser) names in memory, a cell is the
conversion to the library's own form plus the fit. All contenders take turns, block by block, so that a change of
the machine's load meets all alike; the figure is the median over blocks of the median call of a block. Peers are
not dependencies: choix, evalica, arena-rank and arenakit are measured where they are installed.

The factors asked for are those of the first measurement (2026, an EPYC server, same peers and versions). NOISE
is what a factor may fall short of them. They are ratios of unlike work, and move with the machine: at 1e4 records
three fifths of our half millisecond is reading pairs from memory and two fifths the calls of some eighty small
array operations, which a faster core hastens less than a peer's arithmetic, and which suffer first where another
process shares the core's caches. Counting with `collections.Counter` alone takes 0.5 ms there.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from elometer.rating.bootstrap import task_bootstrap
from elometer.rating.fit import FitOptions, TokenUse, elo_ratings, fit
from elometer.rating.lines import Line
from elometer.rating.pairs import BlockScores, count_blocks
from elometer.rating.records import PairRecord, RecordSet, read_records

pytestmark = pytest.mark.benchmark

Pairs = list[tuple[str, str]]
MLE = FitOptions(estimator="mle")
NOISE = 0.85  # of a factor
BLOCKS = 5


@cache
def data(size: int, count: int) -> tuple[Pairs, np.ndarray]:
    """Pairs at random, abilities N(0, 0.7) logits; and a task of a hundred for each."""
    rng = np.random.default_rng([size, count])
    theta = rng.normal(0, 0.7, size)
    first = rng.integers(0, size, count)
    second = (first + rng.integers(1, size, count)) % size
    won = rng.random(count) < 1 / (1 + np.exp(theta[second] - theta[first]))
    names = [f"m{k}" for k in range(size)]
    winners = [names[k] for k in np.where(won, first, second)]
    losers = [names[k] for k in np.where(won, second, first)]
    return list(zip(winners, losers, strict=True)), rng.integers(0, 100, count)


def spent(work: Callable[[], Any], times: int) -> tuple[float, Any]:
    """The median of CPU seconds, and the last result."""
    found, result = [], None
    gc.collect()  # the garbage of the one before is not ours to sweep
    for _ in range(times):
        begin = time.process_time()
        result = work()
        found.append(time.process_time() - begin)
    return statistics.median(found), result


def ours(pairs: Pairs) -> dict[str, float | None]:
    return elo_ratings(RecordSet.from_pairs(pairs), MLE)


def with_choix(pairs: Pairs) -> dict[str, float]:
    choix = importlib.import_module("choix")
    names: dict[str, int] = {}
    numbered = [(names.setdefault(w, len(names)), names.setdefault(x, len(names))) for w, x in pairs]
    return dict(zip(names, choix.ilsr_pairwise(len(names), numbered), strict=True))


def with_evalica(pairs: Pairs) -> dict[str, float]:
    evalica = importlib.import_module("evalica")
    winners, losers = [w for w, _ in pairs], [x for _, x in pairs]
    found = evalica.bradley_terry(winners, losers, [evalica.Winner.X] * len(pairs))
    return {name: float(np.log(worth)) for name, worth in found.scores.items()}


def with_arena_rank(pairs: Pairs) -> dict[str, float]:
    import pandas as pd

    data_utils = importlib.import_module("arena_rank.utils.data_utils")
    models = importlib.import_module("arena_rank.models.bradley_terry")
    frame = pd.DataFrame(pairs, columns=["model_a", "model_b"])
    frame["winner"] = "model_a"
    records = data_utils.PairDataset.from_pandas(frame)
    model = models.BradleyTerry(n_competitors=len(records.competitors)).fit(records)
    return dict(zip(records.competitors, np.asarray(model.params["ratings"]), strict=True))


def with_arenakit(pairs: Pairs) -> dict[str, float]:
    arenakit = importlib.import_module("arenakit")
    arena = arenakit.Arena([arenakit.Battle(model_a=w, model_b=x, winner="a") for w, x in pairs])
    return dict(zip(arena.models, arenakit.fit_bt(arena.counts(), prior=0.0).scores, strict=True))


PEERS: dict[str, Callable[[Pairs], dict[str, float]]] = {
    "choix": with_choix,
    "evalica": with_evalica,
    "arena_rank": with_arena_rank,
    "arenakit": with_arenakit,
}
CELLS = [(5, 10**4), (20, 10**4), (200, 10**4), (5, 10**6), (20, 10**6), (200, 10**6), (20, 10**7)]
# None: minutes or gigabytes.
FACTORS = {
    "choix": (30, 38, 5.1, 30, 28, 8.1, None),
    "evalica": (5.1, 7.2, 1.0, 9.5, 8.3, 1.2, 7.2),
    "arena_rank": (1500, 1600, 219, 42, 39, 9.8, None),
    "arenakit": (38, 43, 12, 83, 63, 11.7, None),
}


def in_turns(contenders: dict[str, Callable[[], Any]], blocks: int) -> dict[str, float]:
    """CPU seconds of each: the median over blocks of a block's median call; a block lasts a while."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _block in range(blocks):
        for name, work in contenders.items():
            first, _ = spent(work, 1)
            times = min(40, int(0.05 / max(first, 1e-6)))
            found[name].append(spent(work, times)[0] if times > 1 else first)
    return {name: statistics.median(values) for name, values in found.items()}


@pytest.mark.parametrize("cell", range(len(CELLS)))
def test_records_to_ratings(cell: int) -> None:
    size, count = CELLS[cell]
    asked = {
        peer: factors[cell] for peer, factors in FACTORS.items()
        if factors[cell] is not None and importlib.util.find_spec(peer) is not None
    }  # fmt: skip
    if not asked:
        pytest.skip("no peer is installed")
    pairs, _tasks = data(size, count)
    found = ours(pairs)
    anchor = next(iter(found))
    apart = {}
    for peer in asked:
        PEERS[peer](pairs[:5000])  # imports and first compilation are not counted
        theirs = PEERS[peer](pairs)
        apart[peer] = max(
            abs(found[name] - found[anchor] - 173.7178 * (theirs[name] - theirs[anchor])) for name in found
        )
    contenders = {peer: partial(PEERS[peer], pairs) for peer in asked} | {"ours": partial(ours, pairs)}
    took = in_turns(contenders, BLOCKS if count < 10**7 else 1)
    factors = {peer: took[peer] / took["ours"] for peer in asked}
    print(f"\nK={size} n={count:.0e}: ours {took['ours'] * 1e3:.3f} ms")
    for peer, factor in factors.items():
        print(
            f"  {peer}: {took[peer] * 1e3:.2f} ms, factor {factor:.1f} (asked {asked[peer]}), "
            f"apart {apart[peer]:.1g} Elo"
        )
    assert max(apart.values()) < 2.0
    short = {peer: factor for peer, factor in factors.items() if factor < NOISE * asked[peer]}
    assert not short


def task_counts(pairs: Pairs, tasks: np.ndarray) -> RecordSet:
    lines = [
        PairRecord(
            experiment_id="b", task=str(t), run=1, winner=w, loser=x, a=w, b=x, outcome="a"
        )
        for (w, x), t in zip(pairs, tasks.tolist(), strict=True)
    ]  # fmt: skip
    return RecordSet.from_records(lines)


@pytest.mark.parametrize(
    ("size", "count", "replicates", "needed"),
    [(5, 10**4, 200, 150), (20, 10**4, 200, 100), (20, 10**6, 60, 135)],
)
def test_a_thousand_replicates_beside_arenakit(size: int, count: int, replicates: int, needed: float) -> None:
    """Both resample tasks; arenakit's time is that of fewer replicates, extrapolated."""
    arenakit = pytest.importorskip("arenakit", reason="arenakit is not installed")
    pairs, tasks = data(size, count)
    records = task_counts(pairs, tasks)
    battles = [
        arenakit.Battle(model_a=w, model_b=x, winner="a", item_id=str(t))
        for (w, x), t in zip(pairs, tasks.tolist(), strict=True)
    ]
    arena = arenakit.Arena(battles)
    task_bootstrap(records, MLE, replicates=10)
    our_spent, found = spent(lambda: task_bootstrap(records, FitOptions(task_weight="records")), 5)
    peer_spent, theirs = spent(lambda: arenakit.bootstrap(arena, n_resamples=replicates, cluster="item"), 1)
    scores = theirs.scores[:, [arena.models.index(name) for name in records.strategies]]
    weights = np.zeros(size)
    weights[:2] = 1, -1
    peer_spent *= 1000 / replicates
    factor = peer_spent / our_spent
    print(
        f"\nK={size} n={count:.0e}: arenakit {peer_spent:.2f} s, ours {our_spent:.4f} s, factor {factor:.0f} "
        f"(asked {needed}); error of a difference {found.standard_error(weights):.4f}, "
        f"{(scores @ weights).std():.4f}"
    )
    assert found.standard_error(weights) == pytest.approx(
        (scores @ weights).std(), rel=0.2 if count < 10**6 else 0.6
    )
    assert factor >= NOISE * needed


@pytest.mark.parametrize(
    ("peer", "times", "needed"), [("evalica", 20, 870), ("choix", 10, 4600), ("arena_rank", 2, 200_000)]
)
def test_a_thousand_replicates_beside_loops_of_fits(peer: str, times: int, needed: float) -> None:
    """Peers without task clusters refit resampled records one by one; few are timed, a thousand extrapolated."""
    pytest.importorskip(peer, reason=f"{peer} is not installed")
    pairs, tasks = data(5, 10**4)
    records = task_counts(pairs, tasks)
    rng = np.random.default_rng(1)
    draws = [[pairs[i] for i in rng.integers(0, len(pairs), len(pairs))] for _ in range(times)]
    PEERS[peer](pairs)
    peer_spent, _ = spent(lambda: [PEERS[peer](sample) for sample in draws], 1)
    task_bootstrap(records, replicates=10)
    our_spent, _ = spent(lambda: task_bootstrap(records), 5)
    peer_spent *= 1000 / times
    factor = peer_spent / our_spent
    print(
        f"\n{peer}: {peer_spent:.1f} s a thousand, ours {our_spent:.4f} s, factor {factor:.0f} (asked {needed})"
    )
    assert factor >= NOISE * needed


def test_a_million_records_from_jsonl(tmp_path: Path) -> None:
    """To per-task counts in at most three times what decoding the lines alone takes."""
    path = tmp_path / "records.jsonl"
    rng = np.random.default_rng(1)
    names = [f"sample_{k}" for k in range(1, 21)]
    low, high = np.triu_indices(20, 1)
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for block in range(10**6 // len(low) + 1):
            outcomes = rng.integers(0, 3, len(low)).tolist()
            for i, j, outcome in zip(low.tolist(), high.tolist(), outcomes, strict=True):
                a, b = names[i], names[j]
                winner, loser = ((a, b), (b, a), (None, None))[outcome]
                record = PairRecord(
                    experiment_id="bench", task=f"task-{block % 100}", run=block // 100 + 1, winner=winner,
                    loser=loser, a=a, b=b, outcome=("a", "b", "tie")[outcome], score_a=0.5, score_b=0.25, block=block,
                )  # fmt: skip
                file.write(encode(record) + b"\n")
    content = path.read_bytes()
    typed, _ = spent(lambda: len(msgspec.json.Decoder(Line).decode_lines(content)), 3)
    whole, _ = spent(lambda: len(msgspec.json.Decoder(PairRecord).decode_lines(content)), 3)
    read, records = spent(lambda: read_records(path), 3)
    print(
        f"\n{records.comparisons} records, {len(content) / 1e6:.0f} MB: {read:.2f} s; decode_lines alone "
        f"{whole:.2f} s whole, {typed:.2f} s the fields we use; ratio {read / whole:.2f} and {read / typed:.2f}"
    )
    assert read <= 3 * typed


def test_live_refit_of_sixteen_strategies_and_a_thousand_tasks() -> None:
    """Scores and tokens of 1,000 tasks to a result with all intervals."""
    rng = np.random.default_rng(1)
    names = [f"sample_{k}" for k in range(1, 17)]
    chance = rng.beta(0.8, 0.8, (1000, 1)) * np.linspace(0.7, 1.0, 16)
    right = rng.random((1000, 16)) < chance
    blocks = [
        BlockScores(f"task-{t}", 1, t, dict(zip(names, map(float, row), strict=True)))
        for t, row in enumerate(right)
    ]
    charged = {(name, f"task-{t}", 1): float(100 * k) for t in range(1000) for k, name in enumerate(names, 1)}
    use = TokenUse(charged, dict.fromkeys(names, 10**6))
    batch = rng.random((1000, 16, 16)) + 16 * np.eye(16)
    solve, _ = spent(lambda: np.linalg.solve(batch, batch[:, :, :1]), 15)
    counts, records = spent(lambda: count_blocks("live", blocks), 9)
    refit, result = spent(lambda: fit(count_blocks("live", blocks), use), 9)
    print(
        f"\nscores to counts {counts * 1e3:.1f} ms, to the result {refit * 1e3:.1f} ms; "
        f"one batch of solves {solve * 1e3:.2f} ms, ratio {refit / solve:.1f}"
    )
    assert records.comparisons == 120_000
    assert all(row.marginal_lo is not None for row in result.strategies[1:])
    assert refit <= 100 * solve
