"""TopologyFinder: divide the interfaces, choose rings, match the rest (TopoOpt, algorithm 1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

from planner.errors import PlanError
from planner.topology.matching import check_demand, match_rounds
from planner.topology.permutations import (
    check_degree,
    check_servers,
    select_permutations,
    totient_perms,
)
from planner.topology.topology import RingGroup, Topology

PRIME_ONLY_FROM = 512
"""Members from which on only primes are candidates: there are more than enough of them."""


@dataclass(frozen=True)
class AllReduceDemand:
    """An AllReduce: the servers that take part, and the bytes that each of them reduces."""

    members: tuple[int, ...]
    size_bytes: float

    def __post_init__(self) -> None:
        if len(set(self.members)) < len(self.members) or not self.members:
            raise PlanError(f"an AllReduce among {list(self.members)}: it needs members, each once")
        if not 0 <= self.size_bytes < float("inf"):
            raise PlanError(f"an AllReduce of {self.size_bytes} bytes: it needs a size from 0")

    @property
    def traffic_bytes(self) -> float:
        """Bytes on all links: 2 (g − 1) · S, whatever the rings."""
        return 2.0 * (len(self.members) - 1) * self.size_bytes


@dataclass(frozen=True)
class Demand:
    """What a training iteration sends.

    Attributes:
        servers: n.
        allreduces: among groups of servers.
        transfers: float64, (n, n): model-parallel bytes from each server to each.

    """

    servers: int
    allreduces: tuple[AllReduceDemand, ...]
    transfers: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        check_servers(self.servers)
        check_demand(self.transfers)
        if self.transfers.shape != (self.servers, self.servers):
            raise PlanError(
                f"a traffic matrix of shape {self.transfers.shape} for {self.servers} servers"
            )
        for each in self.allreduces:
            if min(each.members) < 0 or max(each.members) >= self.servers:
                raise PlanError(
                    f"an AllReduce names server {max(each.members)}: servers are 0 to "
                    f"{self.servers - 1}"
                )

    @classmethod
    def allreduce_only(cls, servers: int) -> Demand:
        """Of data parallelism: one AllReduce of all."""
        check_servers(servers)
        everyone = AllReduceDemand(tuple(range(servers)), 1.0)
        return cls(servers, (everyone,), np.zeros((servers, servers)))

    def groups(self) -> dict[tuple[int, ...], float]:
        """AllReduce traffic by group of two or more, in bytes on all links; largest first."""
        traffic: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for each in self.allreduces:
            if len(each.members) > 1 and each.size_bytes:
                traffic[tuple(sorted(each.members))] += each.traffic_bytes
        return dict(sorted(traffic.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True)
class FinderOptions:
    """How a topology is made.

    Attributes:
        degree: d, interfaces of a server.
        both_ways: rings come with their mirrors, over links both ways.
        mode: 'paper' or 'artifact': how demand counts after a link was given to it.
        prime_only: candidates for steps; None for `PRIME_ONLY_FROM`.

    """

    degree: int
    both_ways: bool = True
    mode: str = "artifact"
    prime_only: bool | None = None

    def __post_init__(self) -> None:
        check_degree(self.degree)


def find_topology(demand: Demand, options: FinderOptions) -> Topology:
    """Make the topology for a demand.

    The AllReduce gets d_A = max(1, ⌈d · T_A / (T_A + T_M)⌉) interfaces, divided among groups in
    proportion to their traffic; the group of all servers always has a ring, so that everyone is
    reached. Rounds of matching give the others to model-parallel demand. Interfaces that every
    server still has then go to the rings of all.

    Raises PlanError when a demand cannot be served with this degree.
    """
    if demand.servers == 1:
        return Topology(1, options.degree)
    rings = _rings(demand, options)
    topology = Topology(demand.servers, options.degree, tuple(rings))
    pairs = match_rounds(demand.transfers, topology.free_interfaces, options.mode)
    spare = int(replace(topology, pairs=tuple(pairs)).free_interfaces.min())
    if spare:
        everyone = rings[0]
        rings[0] = ring_group(everyone.members, everyone.interfaces + spare, options)
    return Topology(demand.servers, options.degree, tuple(rings), tuple(pairs))


def allreduce_interfaces(demand: Demand, degree: int) -> int:
    """d_A: how many interfaces of every server the AllReduce gets."""
    allreduce = sum(demand.groups().values())
    transfers = float(demand.transfers.sum() - np.trace(demand.transfers))
    if not transfers:
        return degree
    share = Fraction(allreduce) / (Fraction(allreduce) + Fraction(transfers))
    return max(1, ceil(degree * share))


def _rings(demand: Demand, options: FinderOptions) -> list[RingGroup]:
    """Rings of all servers, then of each other group whose members have interfaces left."""
    interfaces = allreduce_interfaces(demand, options.degree)
    everyone = tuple(range(demand.servers))
    groups = demand.groups()
    groups = {everyone: groups.get(everyone, 0.0)} | groups
    free = np.full(demand.servers, interfaces)
    total = sum(groups.values()) or 1.0
    rings = []
    for members, traffic in groups.items():
        wanted = max(1, ceil(interfaces * Fraction(traffic) / Fraction(total)))
        degree = min(wanted, int(free[list(members)].min()))
        if degree > 0:
            rings.append(ring_group(members, degree, options))
            free[list(members)] -= degree
    return rings


def ring_group(members: Sequence[int], degree: int, options: FinderOptions) -> RingGroup:
    """The rings of one group over so many interfaces."""
    count = len(members)
    prime_only = options.prime_only
    if prime_only is None:
        prime_only = count >= PRIME_ONLY_FROM
    candidates = totient_perms(count, prime_only=prime_only)
    strides = select_permutations(count, degree, candidates, both_ways=options.both_ways)
    return RingGroup(tuple(members), strides)
