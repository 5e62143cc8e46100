"""What an emulated network with P4 switches is made of: switches, hosts, and links between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network
from typing import Literal

from mininet_topos.errors import BadTopology
from mininet_topos.nodes import SWITCHES
from mininet_topos.shaping import LinkShape
from softswitch.faults import LinkFaults

SUBNET = IPv4Network("10.0.0.0/24")
HOSTS_MAX = 250
_LAST_NUMBER = 254
_GRPC_PORT = 9559  # IANA's port of P4Runtime

Role = Literal["server", "worker"]


def mac_of(ip: IPv4Address | str) -> str:
    """Return the MAC address of an IPv4 address of the emulation: 02:00, then its four bytes."""
    return ":".join(f"{byte:02x}" for byte in b"\x02\x00" + IPv4Address(ip).packed)


@dataclass(frozen=True)
class HostSpec:
    """A host of a topology: its place, addresses, and the switch and port at which it hangs.

    `rank` counts hosts of the same role from 0; names are `ps<rank>` and `w<rank>`.
    """

    name: str
    role: Role
    rank: int
    port: int
    ip: str
    mac: str
    switch: str = "s1"


@dataclass(frozen=True)
class SwitchSite:
    """A switch of a topology: its addresses, and where it serves P4Runtime."""

    name: str
    ip: str
    mac: str
    grpc_port: int
    device_id: int

    @property
    def grpc_address(self) -> str:
        """In the emulation's root namespace."""
        return f"127.0.0.1:{self.grpc_port}"


@dataclass(frozen=True)
class Trunk:
    """A link between two switches, each end a switch and a port."""

    ends: tuple[tuple[str, int], tuple[str, int]]

    @property
    def name(self) -> str:
        """Both ends: `leaf1-spine1`."""
        return "-".join(switch for switch, _ in self.ends)


@dataclass(frozen=True)
class Topology(ABC):
    """A network of switches in one IPv4 subnet.

    Attributes:
        workers, servers: how many, together at most `HOSTS_MAX`.
        target: what a switch is: one of `nodes.SWITCHES`.
        rate_mbps: of every link, in each direction; None leaves them unshaped.
        rates_mbps: host → rate of its link, if it is another one.
        queue_ms: what a full queue of a link takes to drain.
        faults: of every link in each direction, made by the embedded switch.

    Raises:
        BadTopology: a value is out of range.

    """

    workers: int = 4
    servers: int = 1
    target: str = "soft"
    rate_mbps: float | None = None
    rates_mbps: Mapping[str, float] = field(default_factory=dict)
    queue_ms: float = 100.0
    faults: LinkFaults | None = None

    def __post_init__(self) -> None:
        if self.target not in SWITCHES:
            allowed = ", ".join(f"'{name}'" for name in SWITCHES)
            raise BadTopology(f"target '{self.target}': allowed are {allowed}")
        if self.workers < 1 or self.servers < 1 or self.workers + self.servers > HOSTS_MAX:
            raise BadTopology(
                f"{self.workers} workers and {self.servers} servers: allowed are at least one "
                f"of each and {HOSTS_MAX} hosts together"
            )
        if self.faults is not None and self.target != "soft":
            raise BadTopology(f"target '{self.target}' has no faults of links; 'soft' has")
        self.shape  # noqa: B018  a bad rate is refused here, not when the network is built
        unknown = self.rates_mbps.keys() - {host.name for host in self.hosts}
        if unknown or (self.rates_mbps and self.shape is None):
            raise BadTopology(
                f"rates of links of {', '.join(self.rates_mbps)}: they need hosts that are there, "
                "and a rate of all other links"
            )
        for rate in self.rates_mbps.values():
            LinkShape(rate, self.queue_ms)

    @property
    def shape(self) -> LinkShape | None:
        """Rate and queue of every link; None when they are unshaped."""
        return None if self.rate_mbps is None else LinkShape(self.rate_mbps, self.queue_ms)

    @property
    @abstractmethod
    def switches(self) -> tuple[SwitchSite, ...]:
        """All switches; the first server hangs at the first one."""

    @property
    @abstractmethod
    def trunks(self) -> tuple[Trunk, ...]:
        """The links between switches."""

    @abstractmethod
    def place_of(self, role: Role, rank: int) -> tuple[str, int]:
        """The switch and the port of a host."""

    @cached_property
    def hosts(self) -> tuple[HostSpec, ...]:
        """All hosts, the servers first; the last bytes of their addresses count from 1."""
        roles: list[tuple[Role, int]] = [("server", rank) for rank in range(self.servers)]
        roles += [("worker", rank) for rank in range(self.workers)]
        return tuple(self._host(role, rank, number) for number, (role, rank) in enumerate(roles, 1))

    @property
    def server_hosts(self) -> tuple[HostSpec, ...]:
        """The servers by rank."""
        return self.hosts[: self.servers]

    @property
    def worker_hosts(self) -> tuple[HostSpec, ...]:
        """The workers by rank."""
        return self.hosts[self.servers :]

    @property
    def switch_ip(self) -> str:
        """The first switch's own address in the subnet."""
        return self.switches[0].ip

    @property
    def switch_mac(self) -> str:
        """The first switch's own MAC address."""
        return self.switches[0].mac

    def switch_at(self, host: HostSpec) -> SwitchSite:
        """The switch at which a host hangs."""
        return next(site for site in self.switches if site.name == host.switch)

    def neighbours(self, host: HostSpec) -> dict[str, str]:
        """Return IPv4 → MAC of every peer of a host and of the switches."""
        peers = {peer.ip: peer.mac for peer in self.hosts if peer != host}
        return peers | {site.ip: site.mac for site in self.switches}

    def _host(self, role: Role, rank: int, number: int) -> HostSpec:
        ip = str(SUBNET[number])
        prefix = "ps" if role == "server" else "w"
        switch, port = self.place_of(role, rank)
        return HostSpec(f"{prefix}{rank}", role, rank, port, ip, mac_of(ip), switch)


def switch_site(name: str, index: int) -> SwitchSite:
    """The switch that is number `index`, from 0, of its network."""
    ip = str(SUBNET[_LAST_NUMBER - index])
    return SwitchSite(name, ip, mac_of(ip), _GRPC_PORT + index, index + 1)
