"""Prices of the parts of networks, from a list that says where each is from.

Prices of parts that come in rates are interpolated between rates, so that a network of equal cost
can be found; below the slowest rate they do not fall, and above the fastest a part is several of
the fastest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

import numpy as np

from host_stack.jsonfile import read_json_object
from mininet_topos.json_node import JsonNode
from planner.errors import PlanError

PARTS = ("nic", "transceiver", "switch_port")
"""Parts that come in rates: `nic_25G` and so on."""
PLAIN = ("patch_panel_port", "ocs_port", "optical_switch_1x2")
KNOWN = (*(f"{part}_<rate>G" for part in PARTS), *PLAIN)
_RATED = re.compile(rf"({'|'.join(PARTS)})_([1-9][0-9]{{0,5}})G")


@dataclass(frozen=True)
class Price:
    """What an item costs, and where the figure is from."""

    usd: float
    source: str


@dataclass(frozen=True)
class Prices:
    """Prices by item; `nic_25G` and so on for parts that come in rates.

    Raises PlanError when an item that costs are made of is missing, for one that is not known,
    and where nothing costs anything.
    """

    items: Mapping[str, Price]

    def __post_init__(self) -> None:
        unknown = [name for name in self.items if name not in PLAIN and not _RATED.fullmatch(name)]
        if unknown:
            raise PlanError(f"prices.{unknown[0]} is unknown; known are {', '.join(KNOWN)}")
        missing = [name for name in PLAIN if name not in self.items]
        missing += [f"{part}_<rate>G" for part in PARTS if part not in self.curves]
        if missing:
            raise PlanError(f"prices: {', '.join(missing)} missing; see planner/prices.json")
        if not any(price.usd for price in self.items.values()):
            raise PlanError("prices: need a price above 0, at least one")

    @classmethod
    def load(cls, path: Path | None = None) -> Prices:
        """Read a list of prices; without a path, the one that comes with the planner.

        Raises PlanError naming what is wrong with it, BadInput if it holds no JSON object.
        """
        with resources.as_file(resources.files(__package__) / "prices.json") as default:
            document = read_json_object(path or default, "list of prices")
        return cls.from_fields(JsonNode("prices", document, PlanError))

    @classmethod
    def from_fields(cls, node: JsonNode) -> Prices:
        """Check a decoded list of prices; raises PlanError naming what is wrong with it."""
        items = {}
        for item, each in node.fields().items():
            each.only("usd source")
            items[item] = Price(each.get("usd").number(), each.get("source").label())
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
