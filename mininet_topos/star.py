"""The star: servers and workers around one switch, in one IPv4 subnet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mininet_topos.backup import BackupPath
from mininet_topos.errors import BadTopology
from mininet_topos.fabric import FabricNetwork
from mininet_topos.nodes import Host
from mininet_topos.topology import (
    SUBNET,
    HostSpec,
    Role,
    SwitchSite,
    Topology,
    Trunk,
    switch_site,
)

SWITCH = "s1"


@dataclass(frozen=True)
class StarTopology(Topology):
    """One switch `s1`; servers at the ports 1…, workers at the ports behind them.

    Attributes:
        target: also 'bridge', a plain Ethernet switch.
        backup_path: hosts have a second link each, to a plain switch `s2`.
    """

    backup_path: bool = False

    @property
    def switches(self) -> tuple[SwitchSite, ...]:
        """The one."""
        return (switch_site(SWITCH, 0),)

    @property
    def trunks(self) -> tuple[Trunk, ...]:
        """None."""
        return ()

    def place_of(self, role: Role, rank: int) -> tuple[str, int]:
        """Ports count from 1."""
        return SWITCH, 1 + rank + (self.servers if role == "worker" else 0)


class StarNetwork(FabricNetwork[StarTopology]):
    """A running star, with a backup path if its topology has one."""

    _backup: BackupPath | None = None

    def turn(self, *, detour: bool) -> None:
        """Lead all packets over the backup path, or back through the switch."""
        if self._backup is None:
            raise BadTopology("this star has no backup path")
        self._backup.turn(detour=detour)

    def _build(self) -> None:
        super()._build()
        if self._backup is not None:
            self._backup.set_neighbours()

    def _add_beside(self, net: Any) -> None:
        if self.topology.backup_path:
            addresses = {spec.name: spec.ip for spec in self.topology.hosts}
            self._backup = BackupPath(net, SUBNET, addresses)

    def _beside(self) -> Sequence[str]:
        return () if self._backup is None else self._backup.interfaces()

    def _add_host(self, net: Any, spec: HostSpec) -> None:
        super()._add_host(net, spec)
        if self._backup is not None:
            node: Host = self.host(spec.name)
            self._backup.add(node, spec.port)


def network_of(topology: Topology, run_dir: Path) -> FabricNetwork[Any]:
    """What runs a topology."""
    if isinstance(topology, StarTopology):
        return StarNetwork(topology, run_dir)
    return FabricNetwork(topology, run_dir)
