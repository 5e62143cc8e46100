"""A second path between the hosts, around the switch: a plain Ethernet switch of its own.

Each host has a second link to it. Addresses stay: the hosts' routes say which way packets take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any

from mininet_topos.nodes import BridgeSwitch, Host

PORT = 1
"""Of a host, towards the second switch; its port 0 is the first one's."""


class BackupPath:
    """The second switch `s2`, and the routes of the hosts."""

    def __init__(self, net: Any, subnet: IPv4Network, addresses: Mapping[str, str]) -> None:
        """Of hosts by name with their IPv4 `addresses`; nothing is built yet."""
        self._net = net
        self._subnet = subnet
        self._addresses = addresses
        self._macs = {name: _mac(index) for index, name in enumerate(addresses, 1)}
        self._nodes: dict[str, Host] = {}
        self._interfaces: list[str] = []
        ports = dict(enumerate(self._macs.values(), 1))
        self._switch = net.addSwitch("s2", cls=BridgeSwitch, port_macs=ports)

    def add(self, node: Host, index: int) -> None:
        """Link a host; `index` counts from 1 in the order of the addresses."""
        link = self._net.addLink(
            node, self._switch, port1=PORT, port2=index, addr1=self._macs[node.name]
        )
        self._nodes[node.name] = node
        self._interfaces.append(link.intf2.name)

    def set_neighbours(self) -> None:
        """Tell each host the link addresses of the others on this path."""
        for name, node in self._nodes.items():
            lines = [
                f"neigh replace {self._addresses[peer]} lladdr {mac} nud permanent "
                f"dev {name}-eth{PORT}\n"
                for peer, mac in self._macs.items()
                if peer != name
            ]
            node.run("ip", "-batch", "-", stdin="".join(lines))

    def turn(self, *, detour: bool) -> None:
        """Let all packets of the hosts take this path, or that through the first switch."""
        for name, node in self._nodes.items():
            device = f"{name}-eth{PORT if detour else 0}"
            lines = [
                f"route replace {self._subnet} dev {device} src {self._addresses[name]}\n",
                f"route replace 224.0.0.0/4 dev {device}\n",
            ]
            node.run("ip", "-batch", "-", stdin="".join(lines))

    def interfaces(self) -> Sequence[str]:
        """The second switch's ends of the links."""
        return self._interfaces


def _mac(index: int) -> str:
    return f"02:00:00:01:{index >> 8:02x}:{index & 255:02x}"
