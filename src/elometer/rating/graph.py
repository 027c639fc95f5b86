"""The win graph: whether a finite maximum exists (Ford 1957), and who is unbounded in which direction.

An edge i → j stands for "i won at least once against j"; a tie is an edge both ways. The likelihood of a
Bradley-Terry model has a finite maximum if and only if this graph is strongly connected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Booleans = npt.NDArray[np.bool_]
Direction = Literal["below", "above", "both"]


@dataclass(frozen=True, slots=True)
class WinGraph:
    """Strong components of a win graph.

    `components` lists indices of strategies, stronger components first; `component_of` (K) numbers them.
    `islands` are the weakly connected parts, `island_of` (K) numbers them.
    """

    components: tuple[tuple[int, ...], ...]
    component_of: npt.NDArray[np.int64]
    islands: tuple[tuple[int, ...], ...]
    island_of: npt.NDArray[np.int64]
    edges: Booleans

    @property
    def strongly_connected(self) -> bool:
        """True where a finite maximum exists for all strategies."""
        return len(self.components) == 1

    def direction(self, strategy: int, anchor: int) -> Direction | None:
        """Where the strategy's distance to the anchor has no bound; None where it is bounded."""
        if self.component_of[strategy] == self.component_of[anchor]:
            return None
        if reachable(self.edges, anchor)[strategy]:
            return "below"
        if reachable(self.edges, strategy)[anchor]:
            return "above"
        return "both"


def win_graph(wins: npt.NDArray[np.float64]) -> WinGraph:
    """The graph of a (K, K) matrix of wins, `wins[i, j]` being positive where i won or tied against j."""
    edges = wins > 0
    size = len(edges)
    edges.flat[:: size + 1] = False
    # Mostly everyone won against everyone, and then no path needs to be sought.
    everyone = np.count_nonzero(edges) == size * (size - 1)
    if everyone or (reachable(edges, 0).all() and reachable(edges.T, 0).all()):
        whole = (tuple(range(size)),)
        numbers = np.zeros(size, dtype=np.int64)
        return WinGraph(whole, numbers, whole, numbers, edges)
    islands = _parts(edges | edges.T)
    components = _in_order(edges, _strong_components(edges))
    return WinGraph(components, _numbers(components, size), islands, _numbers(islands, size), edges)


def reachable(edges: Booleans, start: int) -> Booleans:
    """(K) which vertices a path from `start` reaches, itself among them."""
    seen: Booleans = edges[start].copy()
    seen[start] = True
    front = seen
    while not seen.all() and front.any():
        front = edges[front].any(axis=0) & ~seen
        seen |= front
    return np.asarray(seen)


def _numbers(parts: tuple[tuple[int, ...], ...], size: int) -> npt.NDArray[np.int64]:
    numbers = np.zeros(size, dtype=np.int64)
    for number, part in enumerate(parts):
        numbers[list(part)] = number
    return numbers


def _parts(edges: Booleans) -> tuple[tuple[int, ...], ...]:
    left = np.ones(len(edges), dtype=bool)
    parts = []
    while left.any():
        part = reachable(edges, int(left.argmax()))
        parts.append(tuple(np.flatnonzero(part).tolist()))
        left &= ~part
    return tuple(parts)


def _strong_components(edges: Booleans) -> list[tuple[int, ...]]:
    """Tarjan's algorithm (1972) without recursion, so that long chains do not exhaust the stack."""
    neighbours = [np.flatnonzero(row).tolist() for row in edges]
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    found = []
    for root in range(len(edges)):
        if root in index:
            continue
        work = [(root, iter(neighbours[root]))]
        index[root] = low[root] = len(index)
        path.append(root)
        on_path.add(root)
        while work:
            vertex, ahead = work[-1]
            following = next((v for v in ahead if v not in index or v in on_path), None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[vertex])
                if low[vertex] == index[vertex]:
                    at = path.index(vertex)
                    found.append(tuple(sorted(path[at:])))
                    on_path.difference_update(path[at:])
                    del path[at:]
            elif following in index:
                low[vertex] = min(low[vertex], index[following])
            else:
                index[following] = low[following] = len(index)
                path.append(following)
                on_path.add(following)
                work.append((following, iter(neighbours[following])))
    return found


def _in_order(edges: Booleans, components: list[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Stronger before weaker; among those that no path joins, the one with the first strategy first."""
    waiting = sorted(components)
    ordered = []
    while waiting:
        for component in waiting:
            inside = np.zeros(len(edges), dtype=bool)
            inside[list(component)] = True
            others = np.zeros(len(edges), dtype=bool)
            others[[v for part in waiting for v in part]] = True
            if not edges[np.ix_(others & ~inside, inside)].any():
                ordered.append(component)
                waiting.remove(component)
                break
    return tuple(ordered)
