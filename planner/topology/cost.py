"""What networks cost a server; fibres, racks and power are left out, as in the study."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.errors import PlanError
from planner.prices import Prices

_TIERS_PORTS, _TIERS_TRANSCEIVERS = 5, 6
"""Of a server in a fat-tree of three tiers: five ports, and both ends of three links."""


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
