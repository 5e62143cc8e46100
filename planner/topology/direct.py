"""Servers linked to each other, forwarding for each other: what messages use of a topology."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise, product

import networkx as nx
import numpy as np
from scipy import sparse

from planner.errors import PlanError
from planner.topology.fabrics import BITS_PER_BYTE_MS, Flow, Way, needs_no_network
from planner.topology.finder import AllReduceDemand
from planner.topology.loads import ring_bytes
from planner.topology.maxmin import Floats
from planner.topology.permutations import ring
from planner.topology.routing import Route, ShortestPaths, coin_change
from planner.topology.taskgraph import Message, Transfer
from planner.topology.topology import RingGroup, Topology

PATHS = 2
"""Paths that share a transfer of model-parallel traffic."""
PATHS_MAX = 64


class Wiring:
    """The links of a topology and the ways over them, whatever their rate; all found once.

    Args:
        topology: servers and links.
        paths: shortest ones that share a transfer.

    """

    def __init__(self, topology: Topology, paths: int) -> None:
        self.topology = topology
        self.parallel: Floats = np.fromiter(
            topology.links.values(), np.float64, len(topology.links)
        )
        self._paths = paths
        self._index = {link: i for i, link in enumerate(topology.links)}
        self._shortest = ShortestPaths(topology.graph)
        self._transfers: dict[tuple[int, int], list[Way]] = {}
        self._rings: dict[tuple[int, ...], list[Way]] = {}
        self._groups = {tuple(sorted(group.members)): group for group in topology.groups}
        everyone = self._groups.get(tuple(range(topology.servers)))
        self._sums = everyone and (everyone, coin_change(len(everyone.members), everyone.steps))

    def transfer_ways(self, source: int, to: int) -> list[Way]:
        """The ways that share a transfer."""
        if (source, to) not in self._transfers:
            paths = self.transfer_paths(source, to)
            self._transfers[source, to] = [Way.over(self._links(path)) for path in paths]
        return self._transfers[source, to]

    def ring_ways(self, members: tuple[int, ...]) -> list[Way]:
        """The ways, once around, that share an AllReduce."""
        group = tuple(sorted(members))
        if group not in self._rings:
            self._rings[group] = [Way.over(self._ring_links(order)) for order in self.rings(group)]
        return self._rings[group]

    @cached_property
    def pair_links(self) -> sparse.csr_array:
        """How often each link is used for a byte of each pair of servers: (n · n, l)."""
        servers = self.topology.servers
        row, column, share = [], [], []
        for source, to in product(range(servers), repeat=2):
            ways = self.transfer_ways(source, to) if source != to else []
            for way in ways:
                row.append(np.full(len(way.links), source * servers + to))
                column.append(way.links)
                share.append(way.shares / len(ways))
        uses = (np.concatenate(row), np.concatenate(column))
        shape = (servers**2, len(self.parallel))
        return sparse.csr_array((np.concatenate(share), uses), shape=shape)

    def transfer_paths(self, source: int, to: int) -> list[Route]:
        """The paths that share a transfer."""
        return self._shortest.paths(source, to, self._paths)

    def rings(self, members: tuple[int, ...]) -> list[Sequence[int]]:
        """The orders in which the rings of a group, ascending, visit its members."""
        group = self._groups.get(members)
        if group is None:
            return [members]
        return [ring(group.members, step).tolist() for step in group.steps]

    def ring_path(self, source: int, to: int) -> Route:
        """The path from a member to the next."""
        if (source, to) in self._index:
            return (source, to)
        if not self._sums:
            return self._shortest.paths(source, to, 1)[0]
        everyone, sums = self._sums
        return walk(everyone, sums, source, to)

    def _ring_links(self, order: Sequence[int]) -> list[int]:
        hops = zip(order, [*order[1:], order[0]], strict=True)
        return [link for a, b in hops for link in self._links(self.ring_path(a, b))]

    def _links(self, path: Route) -> list[int]:
        return [self._index[hop] for hop in pairwise(path)]


_wiring = lru_cache(maxsize=8)(Wiring)
"""The wiring of a topology, kept for links of other rates."""


class Direct:
    """A topology with links of one rate.

    Transfers share the k shortest paths. The AllReduce of a group with rings of its own shares
    them; that of another group takes a ring in the order of its members, along coin-change paths
    over the rings of all where the topology has them, else along shortest paths.
    """

    def __init__(
        self, topology: Topology, rate_bps: float, *, name: str = "topoopt", paths: int = PATHS
    ) -> None:
        self.name = name
        self.servers = topology.servers
        self.topology = topology
        self._wiring = _wiring(topology, paths)
        self.capacity: Floats = self._wiring.parallel * (rate_bps / BITS_PER_BYTE_MS)

    def flows(self, message: Message) -> list[Flow]:
        """A flow for each ring of an AllReduce, for each path of a transfer."""
        if needs_no_network(message):
            return []
        if isinstance(message, Transfer):
            ways = self._wiring.transfer_ways(message.source, message.to)
            size = message.size_bytes / len(ways)
        else:
            ways = self._wiring.ring_ways(message.members)
            size = ring_bytes(message.size_bytes, len(message.members), len(ways))
        return [Flow(size, way) for way in ways]

    def transfer_loads(self, matrix: Floats) -> Floats:
        """Bytes on the links of the paths."""
        apart = matrix - np.diag(np.diag(matrix))
        if not apart.any():
            return np.zeros(len(self.capacity))
        loads: Floats = apart.ravel() @ self._wiring.pair_links
        return loads

    def transfer_paths(self, source: int, to: int) -> list[Route]:
        """The paths that share a transfer."""
        return self._wiring.transfer_paths(source, to)

    def rings(self, message: AllReduceDemand) -> list[Sequence[int]]:
        """The orders in which the members' rings visit them."""
        return self._wiring.rings(tuple(sorted(message.members)))

    def ring_path(self, source: int, to: int) -> Route:
        """The path from a member to the next."""
        return self._wiring.ring_path(source, to)


def walk(group: RingGroup, sums: list[tuple[int, ...]], source: int, to: int) -> Route:
    """The coin-change path between two members, given the sums of steps of every difference."""
    members = group.members
    position = members.index(source)
    path = [source]
    for step in sums[(members.index(to) - position) % len(members)]:
        position = (position + step) % len(members)
        path.append(members[position])
    return tuple(path)


def expander(
    servers: int, degree: int, rate_bps: float, *, seed: int = 1, paths: int = PATHS
) -> Direct:
    """A random d-regular graph of servers, with links both ways.

    Raises PlanError when there is none: d too large, or d and n both odd.
    """
    if not 2 <= degree < servers or degree * servers % 2:
        raise PlanError(
            f"an expander of {servers} servers with degree {degree}: allowed are degrees from 2, "
            "below the number of servers, and one of both even"
        )
    for attempt in range(100):
        graph = nx.random_regular_graph(degree, servers, seed=seed + attempt)
        if nx.is_connected(graph):
            pairs = tuple(sorted((min(edge), max(edge)) for edge in graph.edges()))
            topology = Topology(servers, degree, pairs=pairs)
            return Direct(topology, rate_bps, name="expander", paths=paths)
    raise PlanError(f"no connected graph of {servers} servers with degree {degree} was found")
