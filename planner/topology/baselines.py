"""The networks that plans are compared with, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from planner.errors import PlanError
from planner.topology.fabrics import PATHS, Direct, Fabric, Oversubscribed, Switched, expander
from planner.topology.finder import Demand, FinderOptions, find_topology

RACK = 16
OVERSUBSCRIPTION = 2.0


@dataclass(frozen=True)
class Setting:
    """What a network is built from.

    Attributes:
        demand: that a topology of direct links is fitted to.
        degree: d, interfaces of a server.
        rate_bps: B, of each of them.
        seed: of random networks.
        paths: that share a transfer over direct links.
        finder: of `topoopt`; None for the usual one.

    """

    demand: Demand
    degree: int
    rate_bps: float
    seed: int = 1
    paths: int = PATHS
    finder: FinderOptions | None = None

    @property
    def servers(self) -> int:
        """How many there are."""
        return self.demand.servers

    @property
    def server_bps(self) -> float:
        """What a server's interfaces carry together."""
        return self.degree * self.rate_bps


def _ideal(setting: Setting) -> Fabric:
    return Switched(setting.servers, setting.server_bps)


def _oversubscribed(setting: Setting) -> Fabric:
    rack = min(RACK, max(1, setting.servers // 2))
    return Oversubscribed(setting.servers, setting.server_bps, rack=rack, ratio=OVERSUBSCRIPTION)


def _expander(setting: Setting) -> Fabric:
    return expander(
        setting.servers, setting.degree, setting.rate_bps, seed=setting.seed, paths=setting.paths
    )


def _topoopt(setting: Setting) -> Fabric:
    finder = setting.finder or FinderOptions(setting.degree)
    topology = find_topology(setting.demand, finder)
    return Direct(topology, setting.rate_bps, paths=setting.paths)


FABRICS: Mapping[str, Callable[[Setting], Fabric]] = {
    "ideal": _ideal,
    "oversubscribed": _oversubscribed,
    "expander": _expander,
    "topoopt": _topoopt,
}


def make_fabric(name: str, setting: Setting) -> Fabric:
    """Build a network; raises PlanError for a name that is not known."""
    if name not in FABRICS:
        raise PlanError(f"unknown fabric {name!r}; known are {', '.join(FABRICS)}")
    return FABRICS[name](setting)
