"""A direct-connect topology: servers, each with d interfaces, and the links between them.

Every interface sends and receives at the link's rate. A link both ways uses one interface at
each end; a one-way ring uses the sending half of an interface towards its next member and the
receiving half from the one before, as patch panels and optical switches allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np
import numpy.typing as npt

from planner.errors import PlanError
from planner.topology.permutations import Strides, check_degree, check_servers, ring


@dataclass(frozen=True)
class RingGroup:
    """The rings that carry the AllReduce of a group of servers.

    Attributes:
        members: servers, in the order in which steps count.
        strides: the steps of the rings.

    """

    members: tuple[int, ...]
    strides: Strides

    @property
    def steps(self) -> tuple[int, ...]:
        """The step of each directed ring."""
        return self.strides.directed(len(self.members))

    def check(self) -> None:
        """Raise PlanError unless every step visits all members."""
        for step in self.strides.chosen:
            ring(self.members, step)

    @property
    def interfaces(self) -> int:
        """Interfaces of each member that the rings use."""
        return len(self.steps)

    def one_way_links(self) -> Counter[tuple[int, int]]:
        """Links from server to server that the rings run over, with how many there are."""
        group = len(self.members)
        return Counter(
            (self.members[i], self.members[(i + step) % group])
            for step in self.steps
            for i in range(group)
        )


@dataclass(frozen=True)
class Distances:
    """How far servers are from each other: hops on shortest paths."""

    diameter: int
    mean_hops: float


@dataclass(frozen=True)
class Topology:
    """Which server is linked to which.

    Attributes:
        servers: n, numbered from 0.
        degree: d, interfaces of a server.
        groups: rings of AllReduce groups.
        pairs: further links both ways, (a, b); a pair comes again for a parallel link.

    Raises:
        PlanError: a server out of range, or one with more links than interfaces.

    """

    servers: int
    degree: int
    groups: tuple[RingGroup, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        check_servers(self.servers)
        check_degree(self.degree)
        named = {server for group in self.groups for server in group.members}
        named |= {server for pair in self.pairs for server in pair}
        if named and not 0 <= min(named) <= max(named) < self.servers:
            raise PlanError(f"a link of server {max(named)}: servers are 0 to {self.servers - 1}")
        if self.free_interfaces.min() < 0:
            server = int(self.free_interfaces.argmin())
            raise PlanError(
                f"server {server} would have {self.degree - self.free_interfaces[server]} links "
                f"and has {self.degree} interfaces"
            )

    @cached_property
    def free_interfaces(self) -> npt.NDArray[np.int64]:
        """Interfaces of each server without a link: int64, (n,)."""
        free = np.full(self.servers, self.degree, dtype=np.int64)
        for group in self.groups:
            free[list(group.members)] -= group.interfaces
        np.subtract.at(free, np.asarray(self.pairs, dtype=np.int64).ravel(), 1)
        return free

    @cached_property
    def links(self) -> Mapping[tuple[int, int], int]:
        """Links (from, to), each one way, with how many there are in parallel."""
        links: Counter[tuple[int, int]] = Counter()
        for group in self.groups:
            links += group.one_way_links()
        for a, b in self.pairs:
            links.update([(a, b), (b, a)])
        return links

    @cached_property
    def cables(self) -> list[tuple[int, int]]:
        """Links both ways as (a, b), a < b, one entry each; with them, half-used one-way links.

        A link that is used one way only is listed in its direction.
        """
        left = Counter(self.links)
        cables = []
        for a, b in sorted(self.links):
            both = min(left[a, b], left[b, a])
            if a < b:
                cables += [(a, b)] * both
                left[a, b] -= both
                left[b, a] -= both
        return sorted([*cables, *left.elements()])

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The servers as nodes; edges have `capacity`, the number of parallel links."""
        graph = nx.DiGraph()
        graph.add_nodes_from(range(self.servers))
        graph.add_edges_from((a, b, {"capacity": n}) for (a, b), n in sorted(self.links.items()))
        return graph

    def distances(self) -> Distances:
        """Measure shortest paths over all ordered pairs of different servers.

        Raises PlanError when a server cannot reach another.
        """
        if self.servers == 1:
            return Distances(0, 0.0)
        lengths = dict(nx.all_pairs_shortest_path_length(self.graph))
        hops = [hop for reached in lengths.values() for hop in reached.values()]
        if len(hops) < self.servers**2:
            raise PlanError(
                "some servers cannot reach each other: give the AllReduce of all a link more"
            )
        return Distances(max(hops), sum(hops) / (self.servers * (self.servers - 1)))
