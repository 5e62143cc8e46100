"""Parallelisation strategies: which servers compute an operator.

An operator on all servers is data-parallel: each has a replica for its own block, and gradients
are reduced among them. On one server it is model-parallel: it computes all blocks, and outputs
and their gradients travel. In between, replicas share the blocks evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mininet_topos.json_node import JsonNode
from planner.errors import PlanError
from planner.topology.operators import Workload

Placement = tuple[int, ...]
"""Servers with a replica, ascending."""


@dataclass(frozen=True)
class Strategy:
    """The placement of each operator of a workload, by index."""

    placements: tuple[Placement, ...]

    def with_placement(self, operators: Sequence[int], placement: Placement) -> Strategy:
        """The strategy with some operators on other servers."""
        placements = list(self.placements)
        for operator in operators:
            placements[operator] = placement
        return replace(self, placements=tuple(placements))

    def check(self, workload: Workload) -> None:
        """Raise PlanError unless every operator of a workload is on servers that it has."""
        if len(self.placements) != len(workload.operators):
            raise PlanError(
                f"a strategy for {len(self.placements)} operators: {workload.name} has "
                f"{len(workload.operators)}"
            )
        for operator, placement in zip(workload.operators, self.placements, strict=True):
            within = placement and placement[0] >= 0 and placement[-1] < workload.servers
            if not within or list(placement) != sorted(set(placement)):
                raise PlanError(
                    f"operator {operator.name} on servers {list(placement)[:8]}: allowed are "
                    f"servers from 0 to {workload.servers - 1}, ascending, one at least"
                )

    def memory_bytes(self, workload: Workload) -> npt.NDArray[np.float64]:
        """Parameters that each server holds: float64, (n,)."""
        held = np.zeros(workload.servers)
        for operator, placement in zip(workload.operators, self.placements, strict=True):
            held[list(placement)] += operator.parameter_bytes
        return held


def owners(placement: Placement, servers: int) -> npt.NDArray[np.int64]:
    """The replica that computes each block: int64, (n,).

    A block stays with its own server where that has a replica and all shares are equal.
    """
    replicas = np.asarray(placement, dtype=np.int64)
    return replicas[np.arange(servers) * len(replicas) // servers]


def data_parallel(workload: Workload) -> Strategy:
    """Every operator on every server."""
    everyone = tuple(range(workload.servers))
    return Strategy(tuple(everyone for _ in workload.operators))


def embeddings_apart(workload: Workload) -> Strategy:
    """Whole embedding tables on one server each, round-robin; everything else data-parallel."""
    strategy = data_parallel(workload)
    tables = [index for index, each in enumerate(workload.operators) if each.is_table]
    for position, index in enumerate(tables):
        # Spread evenly, when there are fewer tables than servers too.
        server = position * workload.servers // max(len(tables), workload.servers)
        server = position % workload.servers if len(tables) >= workload.servers else server
        strategy = strategy.with_placement([index], (server,))
    return strategy


def operators_apart(workload: Workload) -> Strategy:
    """Every operator on one server: runs of equal work, in the order of the forward pass."""
    work = np.array([each.forward_ms + each.backward_ms for each in workload.operators])
    middle = np.cumsum(work) - work / 2
    server = np.minimum(workload.servers * middle / work.sum(), workload.servers - 1)
    return Strategy(tuple((int(each),) for each in server))


STARTS: Mapping[str, Callable[[Workload], Strategy]] = {
    "data-parallel": data_parallel,
    "embeddings": embeddings_apart,
    "operators": operators_apart,
}
"""Strategies by name, to start a search from or to keep."""


def start(name: str, workload: Workload) -> Strategy:
    """The strategy of a name; raises PlanError for one that is not known."""
    if name not in STARTS:
        raise PlanError(f"unknown strategy {name!r}; known are {', '.join(STARTS)}")
    return STARTS[name](workload)


def as_fields(strategy: Strategy, workload: Workload) -> dict[str, Any]:
    """The strategy for a JSON file: servers by operator; "all" for all of them."""
    everyone = tuple(range(workload.servers))
    return {
        operator.name: "all" if placement == everyone else list(placement)
        for operator, placement in zip(workload.operators, strategy.placements, strict=True)
    }


def from_fields(node: JsonNode, workload: Workload) -> Strategy:
    """Check a strategy from a JSON file; raises PlanError naming what is wrong."""
    everyone = tuple(range(workload.servers))
    placements = []
    for operator in workload.operators:
        each = node.get(operator.name)
        servers = everyone if each.is_text() and each.text() == "all" else None
        placements.append(servers or tuple(one.integer() for one in each.elements()))
    strategy = Strategy(tuple(placements))
    strategy.check(workload)
    return strategy
