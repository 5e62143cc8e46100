"""Where the bytes of a demand go: rings share an AllReduce evenly, paths share a transfer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from planner.topology.finder import AllReduceDemand, Demand
from planner.topology.permutations import ring
from planner.topology.topology import RingGroup


def ring_bytes(size_bytes: float, members: int, rings: int = 1) -> float:
    """Bytes that each member sends on each of P rings: 2 (g − 1) · S / (g · P); 0 for g = 1."""
    return 2.0 * (members - 1) * size_bytes / (members * rings)


def ring_time_s(size_bytes: float, members: int, rate_bps: float, rings: int = 1) -> float:
    """Seconds of an AllReduce whose P rings have links of their own at this rate."""
    return 8.0 * ring_bytes(size_bytes, members, rings) / rate_bps


def allreduce_matrix(
    servers: int, demand: AllReduceDemand, steps: Sequence[int]
) -> npt.NDArray[np.float64]:
    """Bytes from each server to each when rings of these steps share an AllReduce: (n, n)."""
    matrix = np.zeros((servers, servers))
    group = len(demand.members)
    if group < 2:
        return matrix
    each = ring_bytes(demand.size_bytes, group, len(steps))
    for step in steps:
        order = ring(demand.members, step)
        np.add.at(matrix, (order, np.roll(order, -1)), each)
    return matrix


def traffic_matrix(demand: Demand, rings: Sequence[RingGroup] = ()) -> npt.NDArray[np.float64]:
    """All bytes of an iteration from each server to each, float64, (n, n).

    Groups that are not among `rings` use one ring in the order of their members: given none, this
    is the matrix before permutation.
    """
    steps = {tuple(sorted(group.members)): group.steps for group in rings}
    matrix = demand.transfers.copy()
    for each in demand.allreduces:
        taken = steps.get(tuple(sorted(each.members)), (1,))
        matrix += allreduce_matrix(demand.servers, each, taken)
    return matrix
