"""Paths through a direct-connect topology, where servers forward for each other.

AllReduce traffic takes coin-change paths: the difference of two positions of the group as the
shortest sum of steps. Model-parallel traffic takes the k shortest paths (TopoOpt, section 4.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import shortest_path

from planner.errors import PlanError

Route = tuple[int, ...]
"""The servers of a path, both ends included."""


def coin_change(members: int, steps: Sequence[int]) -> list[tuple[int, ...]]:
    """Write every difference of two positions as the shortest sum of steps, modulo g.

    Args:
        members: g, of the group.
        steps: of the directed rings, mirrors included; at equal length, earlier ones win.

    Returns:
        For each difference 0 … g − 1 the steps to take, in order.

    Raises:
        PlanError: a difference is no sum of steps.

    """
    sums: list[tuple[int, ...] | None] = [None] * members
    sums[0] = ()
    reached = deque([0])
    while reached:
        at = reached.popleft()
        here = sums[at]
        assert here is not None  # noqa: S101  what is in the queue has been reached
        for step in steps:
            to = (at + step) % members
            if sums[to] is None:
                sums[to] = (*here, step)
                reached.append(to)
    found = [taken for taken in sums if taken is not None]
    if len(found) < members:
        raise PlanError(
            f"steps {', '.join(map(str, steps))} of {members} members: some differences are no "
            "sum of them; a step coprime to the members makes them all"
        )
    return found


def coin_change_path(members: Sequence[int], steps: Sequence[int], source: int, to: int) -> Route:
    """The coin-change path between two positions of a group, as servers."""
    group = len(members)
    position = source
    path = [members[position]]
    for step in coin_change(group, steps)[(to - source) % group]:
        position = (position + step) % group
        path.append(members[position])
    return tuple(path)


class ShortestPaths:
    """The k shortest loop-free paths between servers, found when asked for and kept."""

    _DETOUR_HOPS = 2
    """How many hops a path is searched to be longer than the shortest; then networkx takes over."""

    def __init__(self, graph: nx.DiGraph) -> None:
        self._graph = graph
        self._next = [sorted(graph.successors(server)) for server in range(len(graph))]
        self._hops = _hop_counts(graph)
        self._found: dict[tuple[int, int, int], list[Route]] = {}

    def paths(self, source: int, to: int, k: int) -> list[Route]:
        """At most k loop-free paths of the fewest hops, shortest first, then by their servers.

        Raises PlanError when k is not positive or there is no path.
        """
        if k < 1:
            raise PlanError(f"{k} paths: at least 1 is needed")
        if not np.isfinite(self._hops[source, to]):
            raise PlanError(f"no path from server {source} to server {to}")
        key = (source, to, k)
        if key not in self._found:
            self._found[key] = self._search(*key)
        return self._found[key]

    def _search(self, source: int, to: int, k: int) -> list[Route]:
        paths: list[Route] = []
        fewest = int(self._hops[source, to])
        for hops in range(fewest, fewest + self._DETOUR_HOPS + 1):
            paths += islice(self._of_length((source,), to, hops), k - len(paths))
            if len(paths) == k:
                return paths
        further = nx.shortest_simple_paths(self._graph, source, to)
        longer = (tuple(path) for path in further if len(path) - 1 > hops)
        return [*paths, *islice(longer, k - len(paths))]

    def _of_length(self, path: Route, to: int, hops: int) -> Iterator[Route]:
        """Ways to go on with a path that end after exactly so many hops more."""
        if path[-1] == to:
            if hops == 0:
                yield path
            return
        for server in self._next[path[-1]]:
            if self._hops[server, to] <= hops - 1 and server not in path:
                yield from self._of_length((*path, server), to, hops - 1)


class FewestHops:
    """The first shortest path between every two servers, of all at once.

    Args:
        linked: bool, (n, n), which server is linked to which.

    """

    def __init__(self, linked: npt.NDArray[np.bool_]) -> None:
        self._hops = shortest_path(linked, unweighted=True)
        self._next = np.zeros(linked.shape, np.int64)
        for server, row in enumerate(linked):
            beside = np.flatnonzero(row)
            if len(beside):  # the first neighbour that is one hop nearer
                nearer = self._hops[beside] == self._hops[server] - 1
                self._next[server] = beside[nearer.argmax(axis=0)]

    def hops(
        self, sources: npt.NDArray[np.int64], targets: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The paths of p pairs, each the one that `ShortestPaths` names first.

        Returns:
            int64, (p + 1,), and int64, (u, 2): the hops of pair i, in order, each from one server
            to the next, are at `first[i]:first[i + 1]`; none where there is no path.

        """
        lengths = self._hops[sources, targets]
        lengths = np.where(np.isfinite(lengths), lengths, 0).astype(np.int64)
        first = np.concatenate([[0], np.cumsum(lengths)])
        found = np.zeros((first[-1], 2), np.int64)
        at = sources.copy()
        for hop in range(int(lengths.max(initial=0))):
            goes_on = np.flatnonzero(lengths > hop)
            to = self._next[at[goes_on], targets[goes_on]]
            found[first[goes_on] + hop] = np.column_stack([at[goes_on], to])
            at[goes_on] = to
        return first, found


def _hop_counts(graph: nx.DiGraph) -> npt.NDArray[np.float64]:
    """Hops from each server to each, infinite where there is no path: float64, (n, n)."""
    matrix = nx.to_scipy_sparse_array(graph, nodelist=range(len(graph)), weight=None)
    hops: npt.NDArray[np.float64] = shortest_path(matrix, unweighted=True)
    return hops
