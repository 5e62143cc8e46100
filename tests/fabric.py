"""Several embedded switches in memory, linked as an inventory says, seen as one data plane."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from controller.inventory import HostSpec, Inventory, LinkSpec, SwitchSpec
from controller.tls import ClientTls
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.tls import TlsFiles
from tests.certificates import Authority
from tests.controller_process import embedded_switch, host_mac, restarted

UPLINK = 100
"""Port of a leaf towards spine 0; the next spine is one further."""


def leaf_spine(leaves: dict[str, list[str]], spines: int = 1) -> Inventory:
    """Leaves with their hosts (IPv4), each linked to every spine; addresses of switches are empty.

    Hosts hang at ports 1, 2, … of their leaf.
    """
    tops = [f"spine{number}" for number in range(spines)]
    switches = tuple(
        SwitchSpec(name, f"127.0.0.1:{9000 + at}", f"127.0.9.{at + 1}", host_mac(200 + at))
        for at, name in enumerate([*leaves, *tops])
    )
    hosts = [
        HostSpec(f"h-{ip}", ip, host_mac(number), leaf, port)
        for number, (leaf, port, ip) in enumerate(
            (leaf, port, ip)
            for leaf, addresses in leaves.items()
            for port, ip in enumerate(addresses, 1)
        )
    ]
    links = [
        LinkSpec((f"{leaf}:{UPLINK + up}", f"{top}:{1 + down}"))
        for down, leaf in enumerate(leaves)
        for up, top in enumerate(tops)
    ]
    return Inventory(switches, tuple(hosts), tuple(links))


class Fabric:
    """The switches of an inventory as one data plane, whose ports count the hosts from 1.

    Attributes:
        inventory: with the addresses at which the switches serve P4Runtime.
        ports: host's IPv4 → port.
        link_bytes: by (switch, port), what left there.
    """

    def __init__(
        self, inventory: Inventory, servers: dict[str, P4RuntimeServer], stack: ExitStack
    ) -> None:
        self.inventory = inventory
        self.ports = {host.ip: number for number, host in enumerate(inventory.hosts, 1)}
        self.servers = servers
        self._stack = stack
        self.link_bytes: dict[tuple[str, int], int] = {}
        self._places = {
            number: (host.switch, host.port) for number, host in enumerate(inventory.hosts, 1)
        }
        self._numbers = {place: number for number, place in self._places.items()}
        self._links = {}
        for link in inventory.links:
            one, other = link.parsed
            self._links[one], self._links[other] = other, one

    def inject(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """What comes out at hosts when one of them sends a frame."""
        out = []
        waiting = deque([(self._places[port], frame)])
        while waiting:
            (switch, at), raw = waiting.popleft()
            if (dataplane := self.servers[switch].dataplane) is None:
                continue
            for leaving, sent in dataplane.inject(at, raw):
                end = (switch, leaving)
                self.link_bytes[end] = self.link_bytes.get(end, 0) + len(sent)
                if end in self._links:
                    waiting.append((self._links[end], sent))
                elif end in self._numbers:
                    out.append((self._numbers[end], sent))
        return out

    def restart(self, switch: str) -> None:
        """Let a switch die and come back empty."""
        self.servers[switch] = self._stack.enter_context(restarted(self.servers[switch]))


@contextmanager
def fabric(inventory: Inventory, authority: Authority | None = None) -> Iterator[Fabric]:
    """An embedded switch for each of an inventory; with an authority, under mutual TLS."""
    tls, files = None, None
    if authority is not None:
        switch_pair, pair = authority.issue("switch"), authority.issue("fabric-controller")
        tls = TlsFiles(switch_pair.cert, switch_pair.key, authority.cert)
        files = ClientTls(authority.cert, pair.cert, pair.key)
    with ExitStack() as stack:
        servers = {
            switch.name: stack.enter_context(embedded_switch(tls=tls))
            for switch in inventory.switches
        }
        switches = tuple(
            replace(switch, address=servers[switch.name].address, tls=files)
            for switch in inventory.switches
        )
        yield Fabric(replace(inventory, switches=switches), servers, stack)
