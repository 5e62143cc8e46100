"""What the servers of a direct-connect network send each other, and what a simulator says of it.

All AllReduces and transfers of the plan start together, without computation. Sizes are the
plan's, scaled alike, so that the simulated time is what was asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from mininet_topos.direct_routes import Route, Routing
from mininet_topos.errors import BadTopology
from mininet_topos.shaping import FRAME_BYTES, MTU_BYTES, QUEUE_MAX_MS, LinkShape
from planner.topology.direct import Direct
from planner.topology.finder import AllReduceDemand
from planner.topology.fluid import simulate
from planner.topology.plan_file import PlanFile
from planner.topology.taskgraph import Message, Task, TaskGraph, Transfer

_HEADER_BYTES = 20 + 32
"""IPv4, and TCP with timestamps."""
_ACK_BYTES = FRAME_BYTES - MTU_BYTES + _HEADER_BYTES
PAYLOAD_SHARE = (MTU_BYTES - _HEADER_BYTES) / (FRAME_BYTES + _ACK_BYTES / 2)
"""Of what a link carries: the rest are headers, and an acknowledgement for every other segment
of what goes the other way (RFC 1122, 4.2.3.2)."""
RING_BYTES_MAX = 1 << 28
"""Of one ring's vector: every host of the emulation holds some."""
WINDOW_S = 0.05
"""A connection may have what its link carries in this time under way, so that the link stays
busy while processes wait for a processor."""
WINDOW_MIN_BYTES = 8 * (MTU_BYTES - _HEADER_BYTES)
_QUEUE_ROOM = 1.25
"""For headers, and for acknowledgements of what goes the other way."""
_VALUE_BYTES = 4


@dataclass(frozen=True)
class Traffic:
    """Scaled traffic.

    Attributes:
        allreduces: bytes of each group, by the routing's index.
        transfers: bytes by (from, to).
        scale: of the plan's sizes.

    """

    allreduces: list[AllReduceDemand]
    transfers: dict[tuple[int, int], float]
    scale: float

    def simulated_s(self, plan: PlanFile, rate_bps: float) -> tuple[list[float], float]:
        """When each AllReduce ends and when the last transfer does, in seconds.

        Frames have headers: the fluid has `PAYLOAD_SHARE` of the links' rate.
        """
        messages: list[Message] = [
            *self.allreduces,
            *(Transfer(a, b, size) for (a, b), size in self.transfers.items()),
        ]
        graph = TaskGraph.build(plan.topology.servers, [Task(0, None, each) for each in messages])
        fabric = Direct(plan.topology, rate_bps * PAYLOAD_SHARE, paths=plan.paths)
        ends = simulate(graph, fabric).end_ms / 1e3
        rings = len(self.allreduces)
        return [float(end) for end in ends[:rings]], float(ends[rings:].max(initial=0.0))


def scaled(plan: PlanFile, routing: Routing, rate_bps: float, seconds: float) -> Traffic:
    """Scale a plan's traffic to the time that it should take.

    Raises BadTopology when there is none, or vectors would be too large.
    """
    matrix = plan.demand.transfers
    transfers = {pair: float(matrix[pair]) for pair in routing.transfers}
    whole = Traffic(routing.allreduces, transfers, 1.0)
    rings, last = whole.simulated_s(plan, rate_bps)
    takes_s = max([*rings, last], default=0.0)
    if not takes_s:
        raise BadTopology(f"{plan.name}: the plan has no traffic to send")
    scale = seconds / takes_s
    made = Traffic(
        [replace(each, size_bytes=each.size_bytes * scale) for each in routing.allreduces],
        {pair: max(1.0, round(size * scale)) for pair, size in transfers.items()},
        scale,
    )
    largest = max((each.size_bytes for each in made.allreduces), default=0.0)
    if largest > RING_BYTES_MAX:
        raise BadTopology(
            f"an AllReduce of {largest / 1e6:.0f} MB: allowed are {RING_BYTES_MAX >> 20} MiB; "
            "ask for fewer seconds or slower links"
        )
    return made


def window_bytes(rate_bps: float) -> int:
    """What a connection may have under way."""
    return max(WINDOW_MIN_BYTES, round(rate_bps / 8 * WINDOW_S))


def shape_of(routing: Routing, rate_mbps: float) -> LinkShape:
    """Links whose queues hold the windows of all connections that share one: nothing is lost."""
    rate_bps = LinkShape(rate_mbps).rate_bps
    waiting = _QUEUE_ROOM * window_bytes(rate_bps) * max(_sharing(routing).values(), default=1)
    queue_ms = 8e3 * waiting / rate_bps
    return LinkShape(rate_mbps, min(max(queue_ms, LinkShape.queue_ms), QUEUE_MAX_MS))


def queueing_s(routing: Routing, rate_bps: float) -> float:
    """How long a byte of a transfer waits at most behind the windows of other connections."""
    sharing = _sharing(routing)
    ahead = [
        sum(sharing[hop] - 1 for hop in _hops(routing.routes[kind, *pair]))
        for pair, kinds in routing.transfers.items()
        for kind in kinds
    ]
    return 8 * window_bytes(rate_bps) * max(ahead, default=0) / rate_bps


def _sharing(routing: Routing) -> Counter[tuple[int, int]]:
    """How many connections share each direction of a cable."""
    return Counter(hop for each in _connections(routing) for hop in _hops(routing.routes[each]))


def _hops(route: Route) -> Iterator[tuple[int, int]]:
    """The cables of a route, each with the server that sends into it."""
    return zip(route.cables, route.servers, strict=False)


def _connections(routing: Routing) -> Iterator[tuple[int, int, int]]:
    """Kind, first and last server of the route of every connection."""
    for ring in routing.rings:
        for source, to in pairwise([*ring.order, ring.order[0]]):
            yield ring.kind, source, to
    for (source, to), kinds in routing.transfers.items():
        yield from ((kind, source, to) for kind in kinds)


def told(
    routing: Routing, traffic: Traffic, servers: int, seed: int, rate_bps: float
) -> list[dict[str, Any]]:
    """What each server's process is told: its rings, and what it sends and receives."""
    window = window_bytes(rate_bps)
    told: list[dict[str, Any]] = [
        {"rings": [], "sends": [], "receives": [], "window_bytes": window} for _ in range(servers)
    ]
    of_group = Counter(ring.group for ring in routing.rings)
    for number, ring in enumerate(routing.rings):
        size = traffic.allreduces[ring.group].size_bytes / of_group[ring.group]
        values = max(len(ring.order), round(size / _VALUE_BYTES))
        for position, (server, after) in enumerate(pairwise([*ring.order, ring.order[0]])):
            to, source = routing.there_and_back(ring.kind, server, after)
            told[server]["rings"].append(
                {
                    "label": f"ring{number}",
                    "server": server,
                    "members": list(ring.order),
                    "position": position,
                    "values": values,
                    "seed": seed,
                    "to": to,
                    "source": source,
                }
            )
    for (a, b), kinds in routing.transfers.items():
        for kind in kinds:
            size = -(-int(traffic.transfers[a, b]) // len(kinds))
            to, source = routing.there_and_back(kind, a, b)
            each = {"label": f"{a}>{b}/{kind}", "size_bytes": size}
            told[a]["sends"].append({**each, "to": to, "source": source})
            told[b]["receives"].append(each)
    return told
