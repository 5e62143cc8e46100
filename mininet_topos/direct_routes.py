"""Addresses and routes of a direct-connect topology whose servers forward for each other.

The kernel forwards by destination, so every route has a destination of its own: the address
10.<kind>.<from>.<to> belongs to server `to` and is led there from server `from` along one path.
Kinds are the coin-change paths between all servers, then the rings, then the shortest paths that
share a transfer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from mininet_topos.errors import BadTopology
from planner.topology.direct import Direct
from planner.topology.finder import AllReduceDemand
from planner.topology.plan_file import PlanFile
from planner.topology.routing import coin_change_path

SERVERS_MAX = 64
"""Of an emulation; each is a network namespace with a process."""
_KINDS_MAX = 256
COIN_CHANGE = 1
"""The kind of the coin-change paths; 10.0.<server>.1 is the server's own address."""


@dataclass(frozen=True)
class Route:
    """A path: `cables[i]` leads from `servers[i]` to `servers[i + 1]`."""

    kind: int
    servers: tuple[int, ...]
    cables: tuple[int, ...]

    @property
    def address(self) -> str:
        """The address that packets along this route are sent to."""
        return f"10.{self.kind}.{self.servers[0]}.{self.servers[-1]}"


@dataclass(frozen=True)
class Ring:
    """A ring of an AllReduce: the members in its order, and the kind of its hops' routes."""

    group: int
    order: tuple[int, ...]
    kind: int


@dataclass
class Routing:
    """Cables, routes and who uses them.

    Attributes:
        cables: pairs of servers, one entry for each link.
        routes: by kind, first and last server.
        allreduces: of each group of the demand, all bytes at once.
        rings: that share them.
        transfers: (from, to) → kinds of the routes that share the bytes.

    """

    cables: list[tuple[int, int]]
    routes: dict[tuple[int, int, int], Route] = field(default_factory=dict)
    allreduces: list[AllReduceDemand] = field(default_factory=list)
    rings: list[Ring] = field(default_factory=list)
    transfers: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def add(self, kind: int, servers: tuple[int, ...], parallel: int = 0) -> None:
        """Add a route along servers, over the parallel-th of parallel links."""
        if kind >= _KINDS_MAX:
            raise BadTopology(
                f"{kind} kinds of routes: addresses have room for {_KINDS_MAX - 1}; plan with "
                "fewer rings or paths"
            )
        cables = tuple(self._cable(a, b, parallel) for a, b in pairwise(servers))
        self.routes[kind, servers[0], servers[-1]] = Route(kind, servers, cables)

    def there_and_back(self, kind: int, source: int, to: int) -> tuple[str, str]:
        """The address to send to along a route, and that to send from, which answers reach."""
        back = self.routes.get((kind, to, source)) or self.routes[COIN_CHANGE, to, source]
        return self.routes[kind, source, to].address, back.address

    def _cable(self, a: int, b: int, parallel: int) -> int:
        found = [i for i, cable in enumerate(self.cables) if cable in {(a, b), (b, a)}]
        return found[parallel % len(found)]


def route(plan: PlanFile) -> Routing:
    """Lay out a plan's routes.

    Raises BadTopology for more servers than an emulation takes.
    """
    topology = plan.topology
    if topology.servers > SERVERS_MAX or topology.servers < 2:
        raise BadTopology(
            f"{topology.servers} servers: an emulation takes 2 to {SERVERS_MAX}; plan for fewer"
        )
    routing = Routing(topology.cables)
    everyone = topology.groups[0] if topology.groups else None
    fabric = Direct(topology, plan.rate_bps, paths=plan.paths)
    for source in range(topology.servers):
        for to in range(topology.servers):
            if source == to:
                continue
            if everyone is not None and len(everyone.members) == topology.servers:
                a, b = everyone.members.index(source), everyone.members.index(to)
                path = coin_change_path(everyone.members, everyone.steps, a, b)
            else:
                path = fabric.transfer_paths(source, to)[0]
            routing.add(COIN_CHANGE, path)
    _add_rings(routing, fabric, plan)
    _add_transfers(routing, fabric, plan, first_kind=COIN_CHANGE + 1 + len(routing.rings))
    return routing


def _add_rings(routing: Routing, fabric: Direct, plan: PlanFile) -> None:
    sizes: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for each in plan.demand.allreduces:
        if len(each.members) > 1 and each.size_bytes:
            sizes[tuple(sorted(each.members))] += each.size_bytes
    used: Counter[tuple[int, int]] = Counter()
    kind = COIN_CHANGE
    for group, (members, size) in enumerate(sizes.items()):
        demand = AllReduceDemand(members, size)
        routing.allreduces.append(demand)
        for order in fabric.rings(demand):
            kind += 1
            routing.rings.append(Ring(group, tuple(order), kind))
            for a, b in pairwise([*order, order[0]]):
                path = fabric.ring_path(a, b)
                routing.add(kind, path, used[a, b])
                if len(path) == 2 and (b, a) in fabric.topology.links:
                    routing.add(kind, (b, a), used[a, b])
                used[a, b] += 1


def _add_transfers(routing: Routing, fabric: Direct, plan: PlanFile, first_kind: int) -> None:
    matrix = plan.demand.transfers
    for source in range(len(matrix)):
        for to in range(len(matrix)):
            if source == to or not matrix[source, to] + matrix[to, source]:
                continue
            paths = fabric.transfer_paths(source, to)
            kinds = [first_kind + i for i in range(len(paths))]
            for kind, path in zip(kinds, paths, strict=True):
                routing.add(kind, path)
            if matrix[source, to]:
                routing.transfers[source, to] = kinds
