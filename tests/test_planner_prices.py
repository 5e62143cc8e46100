"""Lists of prices: what is read, what is refused, and prices between rates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.errors import PlanError
from planner.prices import Prices
from planner.topology.cost import assumptions

PRICES = Prices.load()


def fields() -> dict[str, Any]:
    """A list of one's own with every item."""
    return {name: {"usd": price.usd, "source": "mine"} for name, price in PRICES.items.items()}


def test_prices_between_rates() -> None:
    """In proportion between two, flat below the slowest, several of the fastest above."""
    assert PRICES.rated("nic", 70e9) == pytest.approx((354 + 678) / 2)
    assert PRICES.rated("nic", 1e9) == 185
    assert PRICES.rated("nic", 400e9) == 2 * 815


def test_a_list_of_ones_own(tmp_path: Path) -> None:
    """It is read, and its sources are told."""
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(fields()))
    assert "mine" in assumptions(Prices.load(path))[0]


@pytest.mark.parametrize(
    ("item", "value", "message"),
    [
        ("ocs_port", None, "prices: ocs_port missing"),
        ("ocs_port", {"usd": 1}, "ocs_port.source is missing"),
        ("ocs_port", {"usd": 1, "source": "a\nb"}, "ocs_port.source is .*printable"),
        ("ocs_port", {"usd": 1, "source": "x", "eur": 1}, "ocs_port.eur is unknown"),
        ("ocs_prot", {"usd": 1, "source": "x"}, "ocs_prot is unknown; known are nic_<rate>G"),
        ("nic_25", {"usd": 1, "source": "x"}, "nic_25 is unknown"),
        ("nic_0G", {"usd": 1, "source": "x"}, "nic_0G is unknown"),
    ],
)
def test_lists_that_are_none(tmp_path: Path, item: str, value: object, message: str) -> None:
    """What is missing, unknown or misspelt is named."""
    items = {**fields(), item: value}
    if value is None:
        del items[item]
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(items))
    with pytest.raises(PlanError, match=message):
        Prices.load(path)


def test_parts_that_cost_nothing(tmp_path: Path) -> None:
    """A list in which everything is free compares nothing."""
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({item: {**each, "usd": 0} for item, each in fields().items()}))
    with pytest.raises(PlanError, match="a price above 0"):
        Prices.load(path)
