"""The direct-connect network: hosts linked to each other, whose kernels forward.

Every cable is a virtual Ethernet pair between the namespaces of two hosts. Hosts own one address
for each route that ends at them, and every host on a route's way has its next hop; neighbours
are known from the start, so that no ARP is ever needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mininet_topos import compat
from mininet_topos.direct_routes import Routing
from mininet_topos.network import Network
from mininet_topos.nodes import Host
from mininet_topos.processes import SupervisedProcess
from mininet_topos.shaping import LinkShape, tc_batch

_FORWARDING = (
    "net.ipv4.ip_forward=1",
    "net.ipv4.conf.all.send_redirects=0",
    "net.ipv4.conf.default.send_redirects=0",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    "net.ipv4.tcp_slow_start_after_idle=0",  # between two steps of a ring
)
"""Answers may come along other links than questions went, so the reverse path is not checked."""


def own_address(server: int) -> str:
    """The address of a host that names it as a next hop."""
    return f"10.0.{server}.1"


class DirectNetwork(Network):
    """A running direct-connect network; use it as a context, as `StarNetwork`.

    Attributes:
        routing: what was built.
        processes: the supervised processes of the emulation.

    """

    def __init__(self, routing: Routing, shape: LinkShape, servers: int, run_dir: Path) -> None:
        super().__init__(run_dir)
        self.routing = routing
        self._shape = shape
        self._servers = servers
        self._nodes: list[Host] = []
        self._ends: list[dict[int, tuple[str, str]]] = []
        """Of each cable: its interface at each end, and the MAC address of the other end."""

    def start(self, server: int, argv: Sequence[str]) -> SupervisedProcess:
        """Start a supervised process in a host."""
        return self.processes.start(f"h{server}", argv, node=self._nodes[server])

    def run(self, server: int, *argv: str) -> str:
        """Run a command in a host to its end; returns its output."""
        return self._nodes[server].run(*argv)

    def _build(self) -> None:
        compat.set_mininet_log(False)
        net = compat.Mininet(controller=None, build=False, ipBase="10.0.0.0/8")
        self._stack.callback(_stop_nodes, net)
        self._stack.callback(self.processes.stop)
        for server in range(self._servers):
            node = net.addHost(f"h{server}", cls=Host, ip=f"{own_address(server)}/32")
            self._nodes.append(node)
        for number, (a, b) in enumerate(self.routing.cables):
            macs = {end: _mac(number, side) for side, end in enumerate((a, b))}
            link = net.addLink(self._nodes[a], self._nodes[b], addr1=macs[a], addr2=macs[b])
            self._ends.append({a: (link.intf1.name, macs[b]), b: (link.intf2.name, macs[a])})
        net.build()
        self._configure()

    def _configure(self) -> None:
        """Addresses, neighbours, routes and rates of every host."""
        addresses: defaultdict[int, list[str]] = defaultdict(list)
        hops: defaultdict[int, list[str]] = defaultdict(list)
        for route in self.routing.routes.values():
            addresses[route.servers[-1]].append(f"addr replace {route.address}/32 dev lo")
            for at, to, cable in zip(route.servers, route.servers[1:], route.cables, strict=False):
                device = self._ends[cable][at][0]
                hops[at].append(
                    f"route replace {route.address}/32 via {own_address(to)} dev {device} onlink"
                )
        neighbours: defaultdict[int, list[str]] = defaultdict(list)
        for (a, b), ends in zip(self.routing.cables, self._ends, strict=True):
            for at, to in ((a, b), (b, a)):
                device, mac = ends[at]
                neighbours[at].append(
                    f"neigh replace {own_address(to)} lladdr {mac} nud permanent dev {device}"
                )
        for server, node in enumerate(self._nodes):
            node.run("sysctl", "-q", "-w", *_FORWARDING)
            lines = [*addresses[server], *neighbours[server], *hops[server]]
            node.run("ip", "-batch", "-", stdin="".join(f"{line}\n" for line in lines))
            devices = [ends[server][0] for ends in self._ends if server in ends]
            node.run("tc", "-batch", "-", stdin=tc_batch(dict.fromkeys(devices, self._shape)))


def _stop_nodes(net: Any) -> None:
    for node in net.hosts:
        node.terminate()


def _mac(cable: int, side: int) -> str:
    return f"02:01:00:{side:02x}:{cable >> 8:02x}:{cable & 255:02x}"
