"""Networks that a training iteration can run on: their links, and what a message uses of them.

All rates are of one direction of a link; capacities are in bytes a millisecond. The fabric's
inner links are as a fluid sees them: those of a non-blocking network are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise, product
from typing import Protocol

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy import sparse

from planner.errors import PlanError
from planner.topology.finder import AllReduceDemand
from planner.topology.loads import ring_bytes
from planner.topology.maxmin import Floats, Ints
from planner.topology.permutations import ring
from planner.topology.routing import Route, ShortestPaths, coin_change
from planner.topology.taskgraph import Message, Transfer
from planner.topology.topology import RingGroup, Topology

PATHS = 2
"""Paths that share a transfer of model-parallel traffic."""
BITS_PER_BYTE_MS = 8000.0


@dataclass(frozen=True)
class Flow:
    """Bytes that move at one rate over links: int64 and float64, (u,), with coefficients."""

    size_bytes: float
    links: Ints
    shares: Floats

    @classmethod
    def over(cls, size_bytes: float, links: Iterable[int]) -> Flow:
        """A flow over links, which count as often as they are named."""
        counts = Counter(links)
        return cls(
            size_bytes,
            np.fromiter(counts.keys(), np.int64, len(counts)),
            np.fromiter(counts.values(), np.float64, len(counts)),
        )


class Fabric(Protocol):
    """A network.

    Attributes:
        name: for people.
        servers: n.
        capacity: float64, (l,), of its links, bytes/ms.

    """

    name: str
    servers: int
    capacity: Floats

    def flows(self, message: Message) -> list[Flow]:
        """What a message becomes; none when it needs no network."""
        ...

    def transfer_loads(self, matrix: Floats) -> Floats:
        """Bytes on each link, float64, (l,), of transfers from each server to each, (n, n)."""
        ...


def needs_no_network(message: Message) -> bool:
    """Whether a message has no bytes, or stays in a server."""
    if isinstance(message, Transfer):
        return message.source == message.to or not message.size_bytes
    return len(message.members) < 2 or not message.size_bytes


class Switched:
    """Servers at one non-blocking switch: the ideal, and what a fat-tree comes to.

    The link of server i into the network is i, that out of it n + i.
    """

    def __init__(self, servers: int, rate_bps: float, name: str = "ideal") -> None:
        self.name = name
        self.servers = servers
        self.capacity: Floats = np.full(2 * servers, rate_bps / BITS_PER_BYTE_MS)

    def flows(self, message: Message) -> list[Flow]:
        """One flow; an AllReduce loads all of its members alike, whatever its ring."""
        if needs_no_network(message):
            return []
        if isinstance(message, Transfer):
            links = (message.source, self.servers + message.to)
            return [Flow.over(message.size_bytes, links)]
        size = ring_bytes(message.size_bytes, len(message.members))
        both = (*message.members, *(self.servers + member for member in message.members))
        return [Flow.over(size, both)]

    def transfer_loads(self, matrix: Floats) -> Floats:
        """Bytes into and out of each server, but for those that stay in it."""
        apart = matrix - np.diag(np.diag(matrix))
        return np.concatenate([apart.sum(axis=1), apart.sum(axis=0)])


class Oversubscribed:
    """Racks of servers whose links to the rest are narrower than their servers' together.

    Links: those of `Switched`, then up and down of each rack.
    """

    def __init__(
        self, servers: int, rate_bps: float, *, rack: int = 16, ratio: float = 2.0
    ) -> None:
        if rack < 1 or ratio < 1:
            raise PlanError(f"racks of {rack} at {ratio}:1: allowed are both from 1")
        self.name = f"{ratio:g}:1 oversubscribed"
        self.servers = servers
        self._rack = np.arange(servers) // rack
        self._racks = int(self._rack[-1]) + 1
        of_server = np.full(2 * servers, rate_bps / BITS_PER_BYTE_MS)
        up = np.bincount(self._rack) * rate_bps / ratio / BITS_PER_BYTE_MS
        self.capacity: Floats = np.concatenate([of_server, up, up])

    def flows(self, message: Message) -> list[Flow]:
        """One flow; rings visit rack after rack."""
        if needs_no_network(message):
            return []
        if isinstance(message, Transfer):
            return [Flow.over(message.size_bytes, self._links(message.source, message.to))]
        members = sorted(message.members)
        hops = zip(members, [*members[1:], members[0]], strict=True)
        size = ring_bytes(message.size_bytes, len(members))
        return [Flow.over(size, [link for a, b in hops for link in self._links(a, b)])]

    def transfer_loads(self, matrix: Floats) -> Floats:
        """Bytes on the links of servers and of racks."""
        apart = matrix - np.diag(np.diag(matrix))
        between = apart * (self._rack[:, None] != self._rack)
        ends = [apart.sum(axis=1), apart.sum(axis=0)]
        racks = [between.sum(axis=1), between.sum(axis=0)]
        return np.concatenate([*ends, *(np.bincount(self._rack, each) for each in racks)])

    def _links(self, source: int, to: int) -> list[int]:
        links = [source, self.servers + to]
        if self._rack[source] != self._rack[to]:
            up = 2 * self.servers + int(self._rack[source])
            links += [up, 2 * self.servers + self._racks + int(self._rack[to])]
        return links


class Direct:
    """Servers linked to each other, forwarding for each other.

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
        self._paths = paths
        self._index = {link: i for i, link in enumerate(topology.links)}
        parallel = np.fromiter(topology.links.values(), np.float64, len(topology.links))
        self.capacity: Floats = parallel * (rate_bps / BITS_PER_BYTE_MS)
        self._shortest = _shortest_paths(topology)
        self._used: dict[tuple[int, int], list[Ints]] = {}
        self._groups = {tuple(sorted(group.members)): group for group in topology.groups}
        everyone = self._groups.get(tuple(range(topology.servers)))
        self._sums = everyone and (everyone, coin_change(len(everyone.members), everyone.steps))

    def flows(self, message: Message) -> list[Flow]:
        """A flow for each ring of an AllReduce, for each path of a transfer."""
        if needs_no_network(message):
            return []
        if isinstance(message, Transfer):
            used = self._transfer_links(message.source, message.to)
            share = message.size_bytes / len(used)
            return [Flow(share, links, np.ones(len(links))) for links in used]
        rings = self.rings(message)
        size = ring_bytes(message.size_bytes, len(message.members), len(rings))
        return [Flow.over(size, self._ring_links(order)) for order in rings]

    def transfer_loads(self, matrix: Floats) -> Floats:
        """Bytes on the links of the paths."""
        apart = matrix - np.diag(np.diag(matrix))
        if not apart.any():
            return np.zeros(len(self.capacity))
        loads: Floats = apart.ravel() @ self._pair_links
        return loads

    @cached_property
    def _pair_links(self) -> sparse.csr_array:
        """How often each link is used for a byte of each pair of servers: (n · n, l)."""
        row, column, share = [], [], []
        for source, to in product(range(self.servers), repeat=2):
            paths = self._transfer_links(source, to) if source != to else []
            for links in paths:
                row.append(np.full(len(links), source * self.servers + to))
                column.append(links)
                share.append(np.full(len(links), 1 / len(paths)))
        uses = (np.concatenate(row), np.concatenate(column))
        shape = (self.servers**2, len(self.capacity))
        return sparse.csr_array((np.concatenate(share), uses), shape=shape)

    def _transfer_links(self, source: int, to: int) -> list[Ints]:
        """The links of each path of a transfer."""
        if (source, to) not in self._used:
            paths = self.transfer_paths(source, to)
            self._used[source, to] = [np.array(self._links(path), np.int64) for path in paths]
        return self._used[source, to]

    def transfer_paths(self, source: int, to: int) -> list[Route]:
        """The paths that share a transfer."""
        return self._shortest.paths(source, to, self._paths)

    def rings(self, message: AllReduceDemand) -> list[Sequence[int]]:
        """The orders in which the members' rings visit them."""
        group = self._groups.get(tuple(sorted(message.members)))
        if group is None:
            return [sorted(message.members)]
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


@lru_cache(maxsize=8)
def _shortest_paths(topology: Topology) -> ShortestPaths:
    """Paths of a topology; they are found once for links of all rates."""
    return ShortestPaths(topology.graph)


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


def link_loads(fabric: Fabric, messages: Iterable[Message]) -> npt.NDArray[np.float64]:
    """Bytes that messages put on each link of a fabric: float64, (l,)."""
    loads = np.zeros(len(fabric.capacity))
    for message in messages:
        for flow in fabric.flows(message):
            loads[flow.links] += flow.size_bytes * flow.shares
    return loads
