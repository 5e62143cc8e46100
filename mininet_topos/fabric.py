"""A network of P4 switches, running: built of a topology, torn down as a whole."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from mininet_topos import compat, links
from mininet_topos.errors import BadTopology
from mininet_topos.network import Network
from mininet_topos.nodes import SWITCHES, Host, ProcessSwitch
from mininet_topos.processes import OnEvent, SupervisedProcess
from mininet_topos.shaping import LinkShape, tc_batch
from mininet_topos.tools import run_tool
from mininet_topos.topology import SUBNET, HostSpec, SwitchSite, Topology, Trunk
from softswitch.p4runtime.tls import TlsFiles

T_co = TypeVar("T_co", bound=Topology, covariant=True)


class FabricNetwork(Network, Generic[T_co]):
    """A running network of switches; use it as a context.

    `with` builds it and starts the switches; leaving the block, by whatever error or signal,
    stops every process and removes every interface. Processes log to `<run_dir>/logs`.

    Attributes:
        topology: what was built.
        processes: the supervised processes of the emulation, those of the switches among them.

    """

    def __init__(
        self,
        topology: T_co,
        run_dir: Path,
        *,
        verbose: bool = False,
        tls: TlsFiles | None = None,
    ) -> None:
        """Not built yet; with `tls` embedded switches serve P4Runtime over TLS alone."""
        super().__init__(run_dir)
        self._tls = tls
        self.topology = topology
        self._verbose = verbose
        self._nodes: dict[str, Host] = {}
        self._switches: dict[str, Any] = {}
        self._links: list[links.Link] = []
        self._trunks: list[links.TrunkLink] = []

    @property
    def switch(self) -> Any:
        """The first switch's node, of the class that `SWITCHES` gives for the target."""
        return self.switch_named(self.topology.switches[0].name)

    def switch_named(self, name: str) -> Any:
        """Return the node of a switch; BadTopology when there is none of the name."""
        if name not in self._switches:
            raise BadTopology(f"switch '{name}': there are {', '.join(self._switches)}")
        return self._switches[name]

    def host(self, name: str) -> Host:
        """Return the node of a host.

        Raises BadTopology when there is none of the name.
        """
        if name not in self._nodes:
            raise BadTopology(f"host '{name}': there are {', '.join(self._nodes)}")
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

    def snapshot(self) -> links.Snapshot:
        """Read the counters of the hosts' links; keys are host names, see `links.difference`."""
        return links.take_snapshot(self._links)

    def is_quiet(self, for_s: float) -> bool:
        """Watch the hosts' links for some seconds: whether next to nothing passes."""
        before = links.bytes_so_far(self._links)
        time.sleep(for_s)
        return links.are_quiet(before, links.bytes_so_far(self._links))

    def trunk_bytes(self) -> dict[str, int]:
        """Bytes that left each switch so far: `leaf1-spine1` and the reverse."""
        return links.trunk_bytes(self._trunks)

    def _build(self) -> None:
        compat.set_mininet_log(self._verbose)
        net = compat.Mininet(controller=None, build=False, ipBase=str(SUBNET))
        # Not by Mininet's own stop: it talks to shells that an interrupt may have left in mid-word.
        self._stack.callback(_stop_nodes, net)
        self._stack.callback(self._delete_links)
        self._stack.callback(self.processes.stop)
        for site in self.topology.switches:
            self._add_switch(net, site)
        self._add_beside(net)
        for trunk in self.topology.trunks:
            self._add_trunk(net, trunk)
        for spec in self.topology.hosts:
            self._add_host(net, spec)
        net.build()
        for spec in self.topology.hosts:
            self._nodes[spec.name].set_neighbours(self.topology.neighbours(spec))
        if self.topology.shape is not None:
            self._shape(self.topology.shape)
        for switch in self._switches.values():
            if isinstance(switch, ProcessSwitch):
                switch.launch()
        net.start()

    def _add_beside(self, net: Any) -> None:
        """Add what the topology has besides its switches, hosts and links."""

    def _beside(self) -> Sequence[str]:
        """Interfaces of that, in the root namespace."""
        return ()

    def _add_switch(self, net: Any, site: SwitchSite) -> None:
        # Every class takes what it needs of these; Mininet keeps the others as parameters.
        self._switches[site.name] = net.addSwitch(
            site.name,
            cls=SWITCHES[self.topology.target],
            processes=self.processes,
            grpc_port=site.grpc_port,
            device_id=site.device_id,
            port_macs={
                spec.port: spec.mac for spec in self.topology.hosts if spec.switch == site.name
            },
            faults=self.topology.faults,
            tls=self._tls,
        )

    def _add_trunk(self, net: Any, trunk: Trunk) -> None:
        (one, port), (other, other_port) = trunk.ends
        link = net.addLink(self._switches[one], self._switches[other], port1=port, port2=other_port)
        self._trunks.append(links.TrunkLink(one, other, link.intf1.name, link.intf2.name))

    def _add_host(self, net: Any, spec: HostSpec) -> None:
        node = net.addHost(spec.name, cls=Host, ip=f"{spec.ip}/{SUBNET.prefixlen}")
        self._nodes[spec.name] = node
        link = net.addLink(
            node,
            self._switches[spec.switch],
            port1=0,
            port2=spec.port,
            addr1=spec.mac,
            addr2=_port_mac(spec.port),
        )
        self._links.append(links.Link(spec.name, node.pid, link.intf1.name, link.intf2.name))

    def _shape(self, shape: LinkShape) -> None:
        at_switches = dict.fromkeys(self._at_switches(), shape)
        for link in self._links:
            own = replace(shape, rate_mbps=self.topology.rates_mbps.get(link.host, shape.rate_mbps))
            at_switches[link.switch_interface] = own
            at_host = dict.fromkeys(self._interfaces_of(link), shape) | {link.host_interface: own}
            self._nodes[link.host].run("tc", "-batch", "-", stdin=tc_batch(at_host))
        run_tool(["tc", "-batch", "-"], tc_batch(at_switches))

    def _interfaces_of(self, link: links.Link) -> list[str]:
        """The interfaces of the host at a link's end."""
        return [str(name) for name in self._nodes[link.host].intfNames()]

    def _at_switches(self) -> list[str]:
        trunks = [each for trunk in self._trunks for each in (trunk.interface, trunk.peer)]
        return [*(link.switch_interface for link in self._links), *trunks, *self._beside()]

    def _delete_links(self) -> None:
        for interface in self._at_switches():
            if Path("/sys/class/net", interface).exists():
                run_tool(["ip", "link", "delete", "dev", interface])


def _stop_nodes(net: Any) -> None:
    for switch in net.switches:
        switch.stop(deleteIntfs=False)
    for node in (*net.switches, *net.hosts):
        node.terminate()


def _port_mac(port: int) -> str:
    return f"02:00:00:00:{port >> 8:02x}:{port & 255:02x}"
