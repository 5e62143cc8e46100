"""What networks cost, from a list of prices that says where each is from.

Prices of parts that come in rates are interpolated between rates, so that a network of equal cost
can be found; below the slowest rate they do not fall, and above the fastest a part is several of
the fastest. Fibres, racks and power are left out, as in the study.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

import numpy as np

from host_stack.jsonfile import read_json_object
from mininet_topos.json_node import JsonNode
from planner.description import Price
from planner.errors import PlanError

_RATED = re.compile(r"(nic|transceiver|switch_port)_([0-9]+)G")
_PARTS = ("nic", "transceiver", "switch_port")
_PLAIN = ("patch_panel_port", "ocs_port", "optical_switch_1x2")
_TIERS_PORTS, _TIERS_TRANSCEIVERS = 5, 6
"""Of a server in a fat-tree of three tiers: five ports, and both ends of three links."""


@dataclass(frozen=True)
class Prices:
    """Prices by item; `nic_25G` and so on for parts that come in rates.

    Raises PlanError when an item that costs are made of is missing.
    """

    items: Mapping[str, Price]

    def __post_init__(self) -> None:
        missing = [name for name in _PLAIN if name not in self.items]
        missing += [f"{part}_<rate>G" for part in _PARTS if len(self.curves.get(part, ())) == 0]
        if missing:
            raise PlanError(
                f"prices: {', '.join(missing)} missing; see planner/topology/prices.json"
            )

    @classmethod
    def load(cls, path: Path | None = None) -> Prices:
        """Read a list of prices; without a path, the one that comes with the planner.

        Raises PlanError naming what is wrong with it.
        """
        with resources.as_file(resources.files(__package__) / "prices.json") as default:
            node = JsonNode(
                "prices", read_json_object(path or default, "list of prices"), PlanError
            )
        items = {
            item: Price(each.get("usd").number(), each.get("source").text())
            for item, each in node.fields().items()
        }
        if not any(price.usd for price in items.values()):
            raise node.mismatch("a price above 0, at least one")
        return cls(items)

    @cached_property
    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """Prices of parts that come in rates: (bit/s, US$), by rate."""
        curves: dict[str, list[tuple[float, float]]] = {}
        for item, price in self.items.items():
            if match := _RATED.fullmatch(item):
                curves.setdefault(match[1], []).append((1e9 * int(match[2]), price.usd))
        return {part: sorted(curve) for part, curve in curves.items()}

    def rated(self, part: str, rate_bps: float) -> float:
        """The price of a part of a rate, US$."""
        rates, usd = np.array(self.curves[part]).T
        fastest = float(rates[-1])
        if rate_bps > fastest:
            return float(usd[-1]) * rate_bps / fastest
        return float(np.interp(rate_bps, rates, usd))

    def plain(self, item: str) -> float:
        """The price of a part that has no rate, US$."""
        return self.items[item].usd


def _end(prices: Prices, rate_bps: float) -> float:
    """An interface of a server: its NIC and a transceiver."""
    return prices.rated("nic", rate_bps) + prices.rated("transceiver", rate_bps)


def fat_tree_usd(prices: Prices, rate_bps: float) -> float:
    """Of a server with one interface of this rate in a fat-tree of full bisection."""
    ports = _TIERS_PORTS * prices.rated("switch_port", rate_bps)
    return (
        ports
        + prices.rated("nic", rate_bps)
        + (_TIERS_TRANSCEIVERS * prices.rated("transceiver", rate_bps))
    )


def _ideal(prices: Prices, degree: int, rate_bps: float) -> float:
    return degree * fat_tree_usd(prices, rate_bps)


def _oversubscribed(prices: Prices, degree: int, rate_bps: float) -> float:
    """The server's own link as in a fat-tree, half of what is above it."""
    link = prices.rated("nic", rate_bps) + 2 * prices.rated("transceiver", rate_bps)
    above = fat_tree_usd(prices, rate_bps) - link - prices.rated("switch_port", rate_bps)
    return degree * (link + prices.rated("switch_port", rate_bps) + above / 2)


def _patched(prices: Prices, degree: int, rate_bps: float) -> float:
    return degree * (_end(prices, rate_bps) + prices.plain("patch_panel_port"))


def _circuits(prices: Prices, degree: int, rate_bps: float) -> float:
    return degree * (_end(prices, rate_bps) + prices.plain("ocs_port"))


def shared_topoopt_usd(prices: Prices, degree: int, rate_bps: float) -> float:
    """Of a server in a shared cluster: a second panel is patched for the next job beforehand."""
    more = prices.plain("patch_panel_port") + prices.plain("optical_switch_1x2")
    return _patched(prices, degree, rate_bps) + degree * more


COSTS: Mapping[str, Callable[[Prices, int, float], float]] = {
    "topoopt": _patched,
    "expander": _patched,
    "ocs": _circuits,
    "sip-ml": _circuits,
    "ideal": _ideal,
    "oversubscribed": _oversubscribed,
}
"""US$ of a server by fabric, for d interfaces of rate B."""


def equal_cost_bps(prices: Prices, usd: float) -> float:
    """The rate of the fat-tree whose server costs so much, bit/s.

    Raises PlanError when even the slowest costs more.
    """
    low = min(rate for rate, _ in prices.curves["switch_port"])
    if fat_tree_usd(prices, low) > usd:
        raise PlanError(
            f"no fat-tree costs as little as {usd:.0f} US$ a server: the slowest costs "
            f"{fat_tree_usd(prices, low):.0f}"
        )
    high = 2 * low
    while fat_tree_usd(prices, high) < usd:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fat_tree_usd(prices, middle) <= usd else (low, middle)
    return low


def assumptions(prices: Prices) -> list[str]:
    """What every ratio of costs rests on, in words."""
    sources: dict[str, list[str]] = {}
    for item, price in prices.items.items():
        sources.setdefault(price.source, []).append(f"{item} {price.usd:g}")
    lines = [f"prices in US$, {source}: {', '.join(each)}" for source, each in sources.items()]
    return [
        *lines,
        "a fat-tree has three tiers and full bisection: a server pays its NIC, "
        f"{_TIERS_PORTS} switch ports and {_TIERS_TRANSCEIVERS} transceivers",
        "direct links: NIC, transceiver and patch panel port for each interface; circuits: a port "
        "of an optical switch instead",
    ]
