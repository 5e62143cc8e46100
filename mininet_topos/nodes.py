"""Mininet's hosts and switches as an emulation needs them.

Switches live in the emulation's root namespace and serve P4Runtime on its loopback; each host
has a network namespace of its own. Set-up commands are argument lists; Mininet's own shells
only ever see names and addresses that the topology made.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mininet_topos import compat
from mininet_topos.processes import ProcessGroup, SupervisedProcess, tcp_probe
from mininet_topos.shaping import MTU_BYTES
from mininet_topos.tools import require_tools, run_tool
from softswitch.faults import LinkFaults
from softswitch.p4runtime.tls import TlsFiles

SWITCH_READY_S = 180.0
_THRIFT_PORT = 9089  # plus the device id: switches of one emulation share a namespace
# Segments that the kernel would merge, split or checksum later look wrong to a switch that
# reads them from a packet socket.
_OFFLOADS_OFF = tuple(
    word for name in ("rx", "tx", "tso", "gso", "gro", "rxvlan", "txvlan") for word in (name, "off")
)


class Host(compat.Host):  # type: ignore[misc]
    """A host with a plain network stack: no offloads, no IPv6, no ARP, multicast on its link."""

    def __init__(self, name: str, **params: Any) -> None:
        super().__init__(name, **params)
        # Before there is an interface, so that not even a router solicitation leaves.
        off = [f"net.ipv6.conf.{scope}.disable_ipv6=1" for scope in ("all", "default")]
        self.run("sysctl", "-q", "-e", "-w", *off)

    def run(self, *argv: str, stdin: str = "") -> str:
        """Run a command in the host to its end; returns its output or raises CommandFailed."""
        return run_tool(["mnexec", "-a", str(self.pid), *argv], stdin)

    def config(self, **params: Any) -> dict[str, Any]:
        """Configure the host's interfaces; called by Mininet once the links are made."""
        result: dict[str, Any] = super().config(**params)
        for interface in self.intfNames():
            self.run("ethtool", "-K", interface, *_OFFLOADS_OFF)
            self.run("ip", "link", "set", "dev", interface, "mtu", str(MTU_BYTES), "up")
        self.run("ip", "route", "replace", "224.0.0.0/4", "dev", str(self.defaultIntf()))
        return result

    def set_neighbours(self, macs: Mapping[str, str]) -> None:
        """Set the link address of each peer (IPv4 → MAC), so that no ARP is ever needed."""
        device = self.defaultIntf()
        lines = [
            f"neigh replace {ip} lladdr {mac} nud permanent dev {device}\n"
            for ip, mac in macs.items()
        ]
        self.run("ip", "-batch", "-", stdin="".join(lines))


class ProcessSwitch(compat.Switch):  # type: ignore[misc]
    """A switch that is one supervised process over packet sockets, with P4Runtime over gRPC.

    Attributes:
        grpc_address: where it serves P4Runtime, `host:port` in the emulation's root namespace.
        device_id: its P4Runtime device.
        process: the running process, None before `start`.

    """

    def __init__(
        self, name: str, *, processes: ProcessGroup, grpc_port: int, device_id: int, **params: Any
    ) -> None:
        super().__init__(name, **params)
        self.grpc_port = grpc_port
        self.grpc_address = f"127.0.0.1:{grpc_port}"
        self.device_id = device_id
        self.process: SupervisedProcess | None = None
        self._processes = processes
        self._is_launched = False

    def argv(self) -> list[str]:
        """Return the command line of the switch."""
        raise NotImplementedError

    def wait_ready(self, process: SupervisedProcess, timeout_s: float) -> None:
        """Wait until the process serves P4Runtime."""
        raise NotImplementedError

    def launch(self) -> SupervisedProcess:
        """Start the process and leave it to `start` to wait for it: several come up at once."""
        prepare_ports(port_interfaces(self).values())
        self.process = self._processes.start(self.name, self.argv())
        self._is_launched = True
        return self.process

    def start(self, controllers: Sequence[Any] = ()) -> None:
        """Start the process, if it is not launched, and wait until it serves P4Runtime.

        Raises ProcessDied or NotReady with the end of its log when it does not.
        """
        del controllers  # Mininet's OpenFlow controllers
        process = self.process
        if process is None or not self._is_launched:
            process = self.launch()
        self._is_launched = False
        self.wait_ready(process, SWITCH_READY_S)

    def kill(self) -> None:
        """Crash the switch: its state is lost, its links stay. `start` brings an empty one."""
        if self.process is not None:
            self.process.kill()

    def stop(self, deleteIntfs: bool = True) -> None:
        """Stop the process; called by Mininet."""
        if self.process is not None:
            self.process.stop()
        super().stop(deleteIntfs)


class EmbeddedSwitch(ProcessSwitch):
    """The embedded switch, `softswitch run`; target 'soft'. Its links can have faults."""

    def __init__(
        self,
        name: str,
        *,
        faults: LinkFaults | None = None,
        tls: TlsFiles | None = None,
        **params: Any,
    ) -> None:
        super().__init__(name, **params)
        self._faults = faults
        self._tls = tls

    def argv(self) -> list[str]:
        """Return the command line of `softswitch run`."""
        argv = softswitch_argv(self.grpc_address, self.device_id, port_interfaces(self))
        if self._faults is not None:
            argv += ["--fault", f"all:both:{self._faults}"]
        if self._tls is not None:
            argv += ["--tls-cert", str(self._tls.cert), "--tls-key", str(self._tls.key)]
            if self._tls.client_ca is not None:
                argv += ["--tls-client-ca", str(self._tls.client_ca)]
        return argv

    def wait_ready(self, process: SupervisedProcess, timeout_s: float) -> None:
        """Wait for the event that it writes when it serves."""
        process.wait_event("ready", timeout_s)


class Bmv2Switch(ProcessSwitch):
    """The reference switch, bmv2's `simple_switch_grpc`; target 'bmv2'."""

    def argv(self) -> list[str]:
        """Return the command line of `simple_switch_grpc`."""
        return bmv2_argv(self.grpc_address, self.device_id, port_interfaces(self))

    def wait_ready(self, process: SupervisedProcess, timeout_s: float) -> None:
        """Wait until its gRPC port accepts connections; it reports nothing by itself."""
        process.wait_until(
            tcp_probe("127.0.0.1", self.grpc_port), f"gRPC server on {self.grpc_address}", timeout_s
        )

    @classmethod
    def setup(cls) -> None:
        """Raise MissingTool when bmv2 is not installed; called by Mininet before the first."""
        require_tools("simple_switch_grpc")


class BridgeSwitch(compat.Switch):  # type: ignore[misc]
    """A plain Ethernet switch made by the kernel; target 'bridge': the network without Libra.

    It knows from the start which MAC address is behind which port, so that nothing but multicast
    is ever flooded.
    """

    def __init__(self, name: str, *, port_macs: Mapping[int, str], **params: Any) -> None:
        super().__init__(name, **params)
        self.bridge = f"{name}-br"
        self._port_macs = port_macs

    def start(self, controllers: Sequence[Any] = ()) -> None:
        """Make the bridge and put every port into it."""
        del controllers
        interfaces = port_interfaces(self)
        prepare_ports(interfaces.values())
        lines = [
            f"link add name {self.bridge} type bridge mcast_snooping 0 stp_state 0",
            *(f"link set dev {name} master {self.bridge}" for name in interfaces.values()),
            f"link set dev {self.bridge} up",
        ]
        run_tool(["ip", "-batch", "-"], "\n".join(lines))
        learnt = [
            f"fdb replace {mac} dev {interfaces[port]} master static"
            for port, mac in self._port_macs.items()
        ]
        run_tool(["bridge", "-batch", "-"], "\n".join(learnt))

    def stop(self, deleteIntfs: bool = True) -> None:
        """Remove the bridge; called by Mininet."""
        if Path("/sys/class/net", self.bridge).exists():
            run_tool(["ip", "link", "delete", "dev", self.bridge])
        super().stop(deleteIntfs)


SWITCHES: Mapping[str, type[compat.Switch]] = {
    "soft": EmbeddedSwitch,
    "bmv2": Bmv2Switch,
    "bridge": BridgeSwitch,
}


def softswitch_argv(grpc_address: str, device_id: int, ports: Mapping[int, str]) -> list[str]:
    """Return the command line of the embedded switch: the package's own, under this Python."""
    return [
        *(sys.executable, "-m", "softswitch.cli", "run"),
        *("--grpc", grpc_address, "--device-id", str(device_id)),
        *_port_options(ports),
    ]


def bmv2_argv(grpc_address: str, device_id: int, ports: Mapping[int, str]) -> list[str]:
    """Return the command line of bmv2: no program yet, no log, no CPU port (its default)."""
    return [
        *("simple_switch_grpc", "--no-p4", "--device-id", str(device_id)),
        *_port_options(ports),
        *("--thrift-port", str(_THRIFT_PORT + device_id)),
        *("--log-level", "off", "--", "--grpc-server-addr", grpc_address),
    ]


def _port_options(ports: Mapping[int, str]) -> list[str]:
    return [word for port in sorted(ports) for word in ("-i", f"{port}@{ports[port]}")]


def port_interfaces(switch: compat.Switch) -> dict[int, str]:
    """Return port → interface of a switch; its loopback is no port."""
    return {port: intf.name for port, intf in switch.intfs.items() if intf.name != "lo"}


def prepare_ports(interfaces: Iterable[str]) -> None:
    """Switch off the offloads of a switch's ports, as of the hosts at their other ends."""
    for interface in interfaces:
        run_tool(["ethtool", "-K", interface, *_OFFLOADS_OFF])
