"""The star: servers and workers around one switch, in one IPv4 subnet."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Literal

from mininet_topos import compat, links
from mininet_topos.backup import BackupPath
from mininet_topos.errors import BadTopology
from mininet_topos.network import Network
from mininet_topos.nodes import SWITCHES, Host
from mininet_topos.processes import OnEvent, SupervisedProcess
from mininet_topos.shaping import LinkShape, tc_batch
from mininet_topos.tools import run_tool
from softswitch.faults import LinkFaults

SUBNET = IPv4Network("10.0.0.0/24")
HOSTS_MAX = 250
_SWITCH_HOST_NUMBER = 254
_GRPC_PORT = 9559  # IANA's port of P4Runtime

Role = Literal["server", "worker"]


def mac_of(ip: IPv4Address | str) -> str:
    """Return the MAC address of an IPv4 address of the emulation: 02:00, then its four bytes."""
    return ":".join(f"{byte:02x}" for byte in b"\x02\x00" + IPv4Address(ip).packed)


@dataclass(frozen=True)
class HostSpec:
    """A host of a topology: its place, addresses and the switch port at which it hangs.

    `rank` counts hosts of the same role from 0; names are `ps<rank>` and `w<rank>`.
    """

    name: str
    role: Role
    rank: int
    port: int
    ip: str
    mac: str


@dataclass(frozen=True)
class StarTopology:
    """One switch `s1`; servers at the ports 1…, workers at the ports behind them.

    Attributes:
        workers, servers: how many, together at most `HOSTS_MAX`.
        target: what the switch is: 'soft', 'bmv2', or 'bridge' (a plain Ethernet switch).
        rate_mbps: of every link, in each direction; None leaves them unshaped.
        queue_ms: what a full queue of a link takes to drain.
        faults: of every link in each direction, made by the embedded switch.
        backup_path: hosts have a second link each, to a plain switch `s2`.

    Raises:
        BadTopology: a value is out of range.

    """

    workers: int = 4
    servers: int = 1
    target: str = "soft"
    rate_mbps: float | None = None
    queue_ms: float = 100.0
    faults: LinkFaults | None = None
    backup_path: bool = False

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

    @property
    def shape(self) -> LinkShape | None:
        """Rate and queue of every link; None when they are unshaped."""
        return None if self.rate_mbps is None else LinkShape(self.rate_mbps, self.queue_ms)

    @cached_property
    def hosts(self) -> tuple[HostSpec, ...]:
        """All hosts by port."""
        servers = (_host("server", rank, 1 + rank) for rank in range(self.servers))
        workers = (_host("worker", rank, 1 + self.servers + rank) for rank in range(self.workers))
        return (*servers, *workers)

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
        """The switch's own address in the subnet."""
        return str(SUBNET[_SWITCH_HOST_NUMBER])

    @property
    def switch_mac(self) -> str:
        """The switch's own MAC address."""
        return mac_of(self.switch_ip)

    def neighbours(self, host: HostSpec) -> dict[str, str]:
        """Return IPv4 → MAC of every peer of a host and of the switch."""
        peers = {peer.ip: peer.mac for peer in self.hosts if peer != host}
        return peers | {self.switch_ip: self.switch_mac}


def _host(role: Role, rank: int, port: int) -> HostSpec:
    ip = str(SUBNET[port])
    prefix = "ps" if role == "server" else "w"
    return HostSpec(f"{prefix}{rank}", role, rank, port, ip, mac_of(ip))


class StarNetwork(Network):
    """A running star; use it as a context.

    `with` builds it and starts the switch; leaving the block, by whatever error or signal,
    stops every process and removes every interface. Processes log to `<run_dir>/logs`.

    Attributes:
        topology: what was built.
        processes: the supervised processes of the emulation, the switch's among them.

    """

    def __init__(self, topology: StarTopology, run_dir: Path, *, verbose: bool = False) -> None:
        super().__init__(run_dir)
        self.topology = topology
        self._verbose = verbose
        self._nodes: dict[str, Host] = {}
        self._links: list[links.Link] = []
        self._switch: Any = None
        self._backup: BackupPath | None = None

    @property
    def switch(self) -> Any:
        """The switch's node, of the class that `SWITCHES` gives for the target."""
        return self._switch

    def host(self, name: str) -> Host:
        """Return the node of a host.

        Raises BadTopology when there is none of the name.
        """
        if name not in self._nodes:
            raise BadTopology(f"host '{name}': this star has {', '.join(self._nodes)}")
        return self._nodes[name]

    def start(
        self,
        host: str,
        argv: Sequence[str],
        *,
        name: str | None = None,
        env: dict[str, str] | None = None,
        on_event: OnEvent | None = None,
    ) -> SupervisedProcess:
        """Start a supervised process in a host; it is named like the host when not told else."""
        return self.processes.start(
            name or host, argv, node=self.host(host), env=env, on_event=on_event
        )

    def set_link(self, host: str, *, up: bool) -> None:
        """Cut the link of a host, at the switch's end, or mend it."""
        self.host(host)  # refuses one that is not there
        interface = next(link.switch_interface for link in self._links if link.host == host)
        run_tool(["ip", "link", "set", "dev", interface, "up" if up else "down"])

    def turn(self, *, detour: bool) -> None:
        """Lead all packets over the backup path, or back through the switch."""
        if self._backup is None:
            raise BadTopology("this star has no backup path")
        self._backup.turn(detour=detour)

    def snapshot(self) -> links.Snapshot:
        """Read the counters of all links; keys are host names, see `links.difference`."""
        return links.take_snapshot(self._links)

    def _build(self) -> None:
        compat.set_mininet_log(self._verbose)
        net = compat.Mininet(controller=None, build=False, ipBase=str(SUBNET))
        # Not by Mininet's own stop: it talks to shells that an interrupt may have left in mid-word.
        self._stack.callback(_stop_nodes, net)
        self._stack.callback(self._delete_links)
        self._stack.callback(self.processes.stop)
        # Every class takes what it needs of these; Mininet keeps the others as parameters.
        self._switch = net.addSwitch(
            "s1",
            cls=SWITCHES[self.topology.target],
            processes=self.processes,
            grpc_port=_GRPC_PORT,
            device_id=1,
            port_macs={spec.port: spec.mac for spec in self.topology.hosts},
            faults=self.topology.faults,
        )
        if self.topology.backup_path:
            addresses = {spec.name: spec.ip for spec in self.topology.hosts}
            self._backup = BackupPath(net, SUBNET, addresses)
        for spec in self.topology.hosts:
            self._add_host(net, spec)
        net.build()
        for spec in self.topology.hosts:
            self._nodes[spec.name].set_neighbours(self.topology.neighbours(spec))
        if self._backup is not None:
            self._backup.set_neighbours()
        if self.topology.shape is not None:
            self._shape(self.topology.shape)
        net.start()

    def _add_host(self, net: Any, spec: HostSpec) -> None:
        node = net.addHost(spec.name, cls=Host, ip=f"{spec.ip}/{SUBNET.prefixlen}")
        self._nodes[spec.name] = node
        link = net.addLink(
            node,
            self._switch,
            port1=0,
            port2=spec.port,
            addr1=spec.mac,
            addr2=_port_mac(spec.port),
        )
        self._links.append(links.Link(spec.name, node.pid, link.intf1.name, link.intf2.name))
        if self._backup is not None:
            self._backup.add(node, spec.port)

    def _shape(self, shape: LinkShape) -> None:
        backup = () if self._backup is None else self._backup.interfaces()
        at_switch = [*(link.switch_interface for link in self._links), *backup]
        run_tool(["tc", "-batch", "-"], tc_batch(shape, at_switch))
        for link in self._links:
            at_host = tc_batch(shape, self._interfaces_of(link))
            self._nodes[link.host].run("tc", "-batch", "-", stdin=at_host)

    def _interfaces_of(self, link: links.Link) -> list[str]:
        """The interfaces of the host at a link's end."""
        return [str(name) for name in self._nodes[link.host].intfNames()]

    def _delete_links(self) -> None:
        backup = () if self._backup is None else self._backup.interfaces()
        for interface in (*(link.switch_interface for link in self._links), *backup):
            if Path("/sys/class/net", interface).exists():
                run_tool(["ip", "link", "delete", "dev", interface])


def _stop_nodes(net: Any) -> None:
    for switch in net.switches:
        switch.stop(deleteIntfs=False)
    for node in (*net.switches, *net.hosts):
        node.terminate()


def _port_mac(port: int) -> str:
    return f"02:00:00:00:{port >> 8:02x}:{port & 255:02x}"
