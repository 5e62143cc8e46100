"""Paths through a direct-connect topology, where servers forward for each other.

AllReduce traffic takes coin-change paths: the difference of two positions of the group as the
shortest sum of steps. Model-parallel traffic takes the k shortest paths (TopoOpt, section 4.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

import networkx as nx

from planner.errors import PlanError

Path = tuple[int, ...]
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


def coin_change_path(members: Sequence[int], steps: Sequence[int], source: int, to: int) -> Path:
    """The coin-change path between two positions of a group, as servers."""
    group = len(members)
    position = source
    path = [members[position]]
    for step in coin_change(group, steps)[(to - source) % group]:
        position = (position + step) % group
        path.append(members[position])
    return tuple(path)


def k_shortest_paths(graph: nx.DiGraph, source: int, to: int, k: int) -> list[Path]:
    """At most k loop-free paths of the fewest hops, shortest first.

    Raises PlanError when k is not positive or there is no path.
    """
    if k < 1:
        raise PlanError(f"{k} paths: at least 1 is needed")
    try:
        paths = nx.shortest_simple_paths(graph, source, to)
        return [tuple(path) for path in islice(paths, k)]
    except nx.NetworkXNoPath as error:
        raise PlanError(f"no path from server {source} to server {to}") from error
