"""The networks that plans are compared with, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from planner.errors import PlanError
from planner.prices import Prices
from planner.topology.cost import COSTS, equal_cost_bps
from planner.topology.direct import PATHS, Direct, expander
from planner.topology.fabrics import Fabric, Oversubscribed, Switched
from planner.topology.finder import Demand, FinderOptions, find_topology
from planner.topology.permutations import check_degree
from planner.topology.reconfigurable import Reconfigurable

RACK = 16
OVERSUBSCRIPTION = 2.0
SIP_ML_SWITCHING_MS = 0.025
SIP_ML_REFRESH_MS = 10.0


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
        prices: for the fat-tree of equal cost; None for those of the planner.

    """

    demand: Demand
    degree: int
    rate_bps: float
    seed: int = 1
    paths: int = PATHS
    finder: FinderOptions | None = None
    prices: Prices | None = None

    def __post_init__(self) -> None:
        check_degree(self.degree)

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


def _fat_tree(setting: Setting) -> Fabric:
    """One interface a server, as fast as a fat-tree of the topology's cost allows."""
    prices = setting.prices or Prices.load()
    usd = COSTS["topoopt"](prices, setting.degree, setting.rate_bps)
    return Switched(setting.servers, equal_cost_bps(prices, usd), "fat-tree")


def _ocs(setting: Setting) -> Fabric:
    return Reconfigurable(setting.servers, setting.degree, setting.rate_bps, forwarding=True)


def _sip_ml(setting: Setting) -> Fabric:
    """Fast switching, no forwarding."""
    return Reconfigurable(
        setting.servers,
        setting.degree,
        setting.rate_bps,
        refresh_ms=SIP_ML_REFRESH_MS,
        switching_ms=SIP_ML_SWITCHING_MS,
        name="sip-ml",
    )


FABRICS: Mapping[str, Callable[[Setting], Fabric]] = {
    "ideal": _ideal,
    "fat-tree": _fat_tree,
    "oversubscribed": _oversubscribed,
    "expander": _expander,
    "ocs": _ocs,
    "sip-ml": _sip_ml,
    "topoopt": _topoopt,
}


def make_fabric(name: str, setting: Setting) -> Fabric:
    """Build a network; raises PlanError for a name that is not known."""
    if name not in FABRICS:
        raise PlanError(f"unknown fabric {name!r}; known are {', '.join(FABRICS)}")
    return FABRICS[name](setting)
