"""The leaf-spine network: racks of hosts below leaf switches, and spines that link these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mininet_topos.errors import BadTopology
from mininet_topos.topology import (
    HOSTS_MAX,
    Role,
    SwitchSite,
    Topology,
    Trunk,
    switch_site,
)

UPLINK = 301
"""Port of a leaf towards the first spine; hosts are at the ports below."""

LEAVES_MAX = 16
SPINES_MAX = 8


@dataclass(frozen=True)
class LeafSpineTopology(Topology):
    """Leaves `leaf1`, …, each linked to every spine `spine1`, …; hosts are dealt to the leaves.

    Server and worker number r hang at leaf r mod `leaves`. Links between switches have the rate of
    the others; with faults they have them at both ends, so twice.

    Attributes:
        leaves, spines: how many switches of either kind.
    """

    leaves: int = 2
    spines: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (1 <= self.leaves <= LEAVES_MAX and 1 <= self.spines <= SPINES_MAX):
            raise BadTopology(
                f"{self.leaves} leaves and {self.spines} spines: allowed are 1 to {LEAVES_MAX} and "
                f"1 to {SPINES_MAX}"
            )
        room = HOSTS_MAX + 4 - self.leaves - self.spines
        if self.workers + self.servers > room:
            raise BadTopology(
                f"{self.workers + self.servers} hosts: with so many switches {room} have addresses"
            )
        if self.target == "bridge":
            raise BadTopology("target 'bridge' has no routes between racks; 'soft' and 'bmv2' have")

    @cached_property
    def switches(self) -> tuple[SwitchSite, ...]:
        """The leaves, then the spines."""
        names = [f"leaf{n}" for n in range(1, self.leaves + 1)]
        names += [f"spine{n}" for n in range(1, self.spines + 1)]
        return tuple(switch_site(name, index) for index, name in enumerate(names))

    @cached_property
    def trunks(self) -> tuple[Trunk, ...]:
        """From every leaf to every spine."""
        leaves, spines = self.switches[: self.leaves], self.switches[self.leaves :]
        return tuple(
            Trunk(((leaf.name, UPLINK + up), (spine.name, 1 + down)))
            for down, leaf in enumerate(leaves)
            for up, spine in enumerate(spines)
        )

    def place_of(self, role: Role, rank: int) -> tuple[str, int]:
        """Servers at the first ports of their leaf, workers behind them."""
        leaf, nth = rank % self.leaves, rank // self.leaves
        servers_there = len(range(leaf, self.servers, self.leaves))
        port = 1 + nth + (servers_there if role == "worker" else 0)
        return self.switches[leaf].name, port
