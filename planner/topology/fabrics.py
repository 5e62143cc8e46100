"""Networks that a training iteration can run on: their links, and what a message uses of them.

All rates are of one direction of a link; capacities are in bytes a millisecond. The fabric's
inner links are as a fluid sees them: those of a non-blocking network are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from planner.errors import PlanError
from planner.topology.loads import ring_bytes
from planner.topology.maxmin import Floats, Ints
from planner.topology.taskgraph import Message, Transfer

BITS_PER_BYTE_MS = 8000.0


@dataclass(frozen=True, eq=False)
class Way:
    """Links with coefficients: int64 and float64, (u,).

    Ways are told apart as objects: a fabric makes each of its ways once. All flows of a way have
    the same fair rate.
    """

    links: Ints
    shares: Floats

    @classmethod
    def over(cls, links: Iterable[int]) -> Way:
        """A way over links, which count as often as they are named."""
        counts = Counter(links)
        return cls(
            np.fromiter(counts.keys(), np.int64, len(counts)),
            np.fromiter(counts.values(), np.float64, len(counts)),
        )


class Ways:
    """The ways of a fabric, each made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], Way] = {}

    def over(self, links: tuple[int, ...]) -> Way:
        """The way over these links."""
        if links not in self._made:
            self._made[links] = Way.over(links)
        return self._made[links]


@dataclass(frozen=True)
class Flow:
    """Bytes that move at one rate."""

    size_bytes: float
    way: Way


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
        self._ways = Ways()

    def flows(self, message: Message) -> list[Flow]:
        """One flow; an AllReduce loads all of its members alike, whatever its ring."""
        if needs_no_network(message):
            return []
        if isinstance(message, Transfer):
            way = self._ways.over((message.source, self.servers + message.to))
            return [Flow(message.size_bytes, way)]
        size = ring_bytes(message.size_bytes, len(message.members))
        both = (*message.members, *(self.servers + member for member in message.members))
        return [Flow(size, self._ways.over(both))]

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
        self._ways = Ways()

    def flows(self, message: Message) -> list[Flow]:
        """One flow; rings visit rack after rack."""
        if needs_no_network(message):
            return []
        if isinstance(message, Transfer):
            way = self._ways.over(self._links(message.source, message.to))
            return [Flow(message.size_bytes, way)]
        members = sorted(message.members)
        hops = zip(members, [*members[1:], members[0]], strict=True)
        size = ring_bytes(message.size_bytes, len(members))
        links = tuple(link for a, b in hops for link in self._links(a, b))
        return [Flow(size, self._ways.over(links))]

    def transfer_loads(self, matrix: Floats) -> Floats:
        """Bytes on the links of servers and of racks."""
        apart = matrix - np.diag(np.diag(matrix))
        between = apart * (self._rack[:, None] != self._rack)
        ends = [apart.sum(axis=1), apart.sum(axis=0)]
        racks = [between.sum(axis=1), between.sum(axis=0)]
        return np.concatenate([*ends, *(np.bincount(self._rack, each) for each in racks)])

    def _links(self, source: int, to: int) -> tuple[int, ...]:
        ends = (source, self.servers + to)
        up, down = int(self._rack[source]), self._racks + int(self._rack[to])
        if self._rack[source] == self._rack[to]:
            return ends
        return (*ends, 2 * self.servers + up, 2 * self.servers + down)


def link_loads(fabric: Fabric, messages: Iterable[Message]) -> npt.NDArray[np.float64]:
    """Bytes that messages put on each link of a fabric: float64, (l,)."""
    loads = np.zeros(len(fabric.capacity))
    for message in messages:
        for flow in fabric.flows(message):
            loads[flow.way.links] += flow.size_bytes * flow.way.shares
    return loads
