"""Links for model-parallel demand: rounds of maximum-weight matching (TopoOpt, section 4.3).

Each round gives every server at most one link, between pairs whose demand adds up to the most
(Edmonds' Blossom algorithm, of networkx). What a link serves counts less in the next round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import networkx as nx
import numpy as np
import numpy.typing as npt

from planner.errors import PlanError

Discount = Callable[[int], float]
"""What the demand of a pair is multiplied with after its c-th link, c from 1 on."""

DISCOUNTS: Mapping[str, Discount] = {
    "paper": lambda links: 1 / 2,
    "artifact": lambda links: links / (links + 1),
}
"""Of the paper: half for every link, 2^−c in all. Of the released code: 1 / (c + 1) in all."""


def heaviest_pairs(weights: npt.NDArray[np.float64]) -> list[tuple[int, int]]:
    """Pairs of servers of the largest total weight, each server in one pair at most.

    Args:
        weights: symmetric float64, (n, n), not negative; pairs of weight zero are never taken.

    Returns:
        Pairs (a, b) with a < b, ascending.

    """
    graph = nx.Graph()
    rows, columns = np.nonzero(np.triu(weights, 1))
    graph.add_weighted_edges_from(
        (int(a), int(b), float(weights[a, b])) for a, b in zip(rows, columns, strict=True)
    )
    matched = nx.max_weight_matching(graph)
    return sorted((min(pair), max(pair)) for pair in matched)


def match_rounds(
    demand: npt.NDArray[np.float64],
    interfaces: npt.NDArray[np.int64] | int,
    mode: str = "artifact",
) -> list[tuple[int, int]]:
    """Links for a demand between servers, one at most per server and round.

    Args:
        demand: float64, (n, n), bytes from each server (row) to each (column).
        interfaces: of each server, int64, (n,), or of all alike, that links may use.
        mode: whose discount: one of `DISCOUNTS`.

    Returns:
        Pairs (a, b), a < b, of links both ways; a pair comes again for a parallel link.

    Raises:
        PlanError: an unknown mode, or a demand that is not square, finite and not negative.

    """
    if mode not in DISCOUNTS:
        raise PlanError(f"unknown mode {mode!r}; known are {', '.join(DISCOUNTS)}")
    check_demand(demand)
    discount = DISCOUNTS[mode]
    weights = demand + demand.T
    np.fill_diagonal(weights, 0.0)
    free = np.broadcast_to(interfaces, len(demand)).copy()
    links: Counter[tuple[int, int]] = Counter()
    while pairs := heaviest_pairs(weights * np.outer(free > 0, free > 0)):
        for a, b in pairs:
            links[a, b] += 1
            weights[a, b] = weights[b, a] = weights[a, b] * discount(links[a, b])
            free[[a, b]] -= 1
    return sorted(links.elements())


def check_demand(demand: npt.NDArray[np.float64]) -> None:
    """Raise PlanError when a traffic matrix is not square, finite and not negative."""
    if demand.ndim != 2 or demand.shape[0] != demand.shape[1]:
        raise PlanError(f"a traffic matrix of shape {demand.shape}: it must be square")
    if not np.isfinite(demand).all() or (demand < 0).any():
        raise PlanError("a traffic matrix holds a number that is negative or not finite")
