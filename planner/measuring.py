"""Measuring what a transport reaches: one TCP flow and many, over loopback or an emulated star."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from mininet_topos.namespace import enter_isolated
from mininet_topos.processes import ProcessGroup, SupervisedProcess
from mininet_topos.shaping import RATE_MAX_MBPS, RATE_MIN_MBPS
from mininet_topos.star import StarNetwork, StarTopology
from planner.errors import PlanError
from planner.flows import PATIENCE_S, WARM_UP
from planner.transport import Transport
from planner.units import rate_text

PLACES: Mapping[str, str] = MappingProxyType(
    {
        "loopback": "this machine's network stack, without a link",
        "star": "two hosts of an emulated star with links of the rates asked about (needs root)",
    }
)
FLOWS, MAX_FLOWS = 8, 256
MAX_RATES = 5
"""The most links that are measured; between them the curve is interpolated."""
SECONDS = 2.0
"""That each measurement counts."""

Start = Callable[[str, list[str]], SupervisedProcess]


@dataclass(frozen=True)
class Point:
    """Goodput on one link: `by_flows` maps a number of flows to bit/s; no rate on loopback."""

    rate_bps: float | None
    by_flows: Mapping[int, float]

    @property
    def best_bps(self) -> float:
        """Of one flow and many, whichever got more."""
        return max(self.by_flows.values())


@dataclass(frozen=True)
class Measurement:
    """What was measured at a place, and the transport that follows."""

    place: str
    points: Sequence[Point]

    @property
    def transport(self) -> Transport:
        """The better of one flow and many at each rate.

        Loopback has no rate: all links up to what it reaches are taken to be filled, faster ones
        no further.
        """
        source = f"measured on {self.place}, {SECONDS:g} s each"
        curve = {point.rate_bps or point.best_bps: point.best_bps for point in self.points}
        return Transport.measured(curve, source)

    def as_fields(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "place": self.place,
            "points": [
                {
                    "rate_bps": point.rate_bps,
                    "goodput_bps": {str(flows): got for flows, got in point.by_flows.items()},
                }
                for point in self.points
            ],
        }


def measure(
    place: str, rates_bps: Sequence[float], flows: int, say: Callable[[str], None]
) -> Measurement:
    """Measure one flow and `flows` flows at a place of `PLACES`, a few seconds for each link.

    On `star` the command continues inside an emulation of its own, see `enter_isolated`; rates
    that no emulated link can have are left out. Raises `PlanError` for an unknown place, too many
    flows and rates none of which can be emulated; `EmulationError` where nothing can be.
    """
    if place not in PLACES:
        raise PlanError(f"unknown place {place!r}; known are {', '.join(PLACES)}")
    if not 1 <= flows <= MAX_FLOWS:
        raise PlanError(f"--flows {flows}: allowed are 1 to {MAX_FLOWS}")
    counts = sorted({1, flows})
    if place == "loopback":
        points = [_on_loopback(counts)]
    else:
        rates = _emulated(rates_bps)
        enter_isolated()
        points = [_on_star(rate_bps, counts) for rate_bps in rates]
    for point in points:
        link = "loopback" if point.rate_bps is None else f"link of {rate_text(point.rate_bps)}"
        got = ", ".join(
            f"{count} flow{'s' if count > 1 else ''} {rate_text(goodput)}"
            for count, goodput in point.by_flows.items()
        )
        say(f"measured on a {link}: {got}")
    return Measurement(place, points)


def _emulated(rates_bps: Sequence[float]) -> list[float]:
    """The rates to measure: those asked about, as far as links can have them, spread evenly."""
    low, high = RATE_MIN_MBPS * 1e6, RATE_MAX_MBPS * 1e6
    possible = sorted({rate for rate in rates_bps if low <= rate <= high})
    if not possible:
        raise PlanError(
            f"no emulated link can have these rates: allowed are {rate_text(low)} to "
            f"{rate_text(high)}"
        )
    picked = np.linspace(0, len(possible) - 1, min(len(possible), MAX_RATES)).round().astype(int)
    return [possible[i] for i in np.unique(picked)]


def _on_loopback(counts: list[int]) -> Point:
    with (
        tempfile.TemporaryDirectory(prefix="libra-plan-") as logs,
        ProcessGroup(Path(logs)) as processes,
    ):

        def start(name: str, argv: list[str]) -> SupervisedProcess:
            return processes.start(name, argv)

        got = {n: _goodput_bps(start, start, "127.0.0.1", n) for n in counts}
    return Point(None, got)


def _on_star(rate_bps: float, counts: list[int]) -> Point:
    topology = StarTopology(workers=1, target="bridge", rate_mbps=rate_bps / 1e6)
    server, worker = topology.hosts
    with (
        tempfile.TemporaryDirectory(prefix="libra-plan-") as logs,
        StarNetwork(topology, Path(logs)) as network,
    ):
        got = {
            count: _goodput_bps(
                lambda name, argv: network.start(server.name, argv, name=name),
                lambda name, argv: network.start(worker.name, argv, name=name),
                server.ip,
                count,
            )
            for count in counts
        }
    # What a burst brings above the rate is no goodput of the link.
    return Point(rate_bps, {count: min(goodput, rate_bps) for count, goodput in got.items()})


def _goodput_bps(receiver: Start, sender: Start, address: str, flows: int) -> float:
    """Start both sides and wait for what the receiver counted."""
    options = [address, "--flows", str(flows), "--seconds", str(SECONDS)]
    command = [sys.executable, "-m", "planner.flows"]
    receiving = receiver("receiver", [*command, "receive", *options])
    port = receiving.wait_event("ready", PATIENCE_S).fields["port"]
    sending = sender("sender", [*command, "send", *options, "--port", str(port)])
    told = receiving.wait_event("received", (1 + WARM_UP) * SECONDS + PATIENCE_S).fields
    receiving.wait_exit(PATIENCE_S)
    sending.wait_exit(PATIENCE_S)
    goodput = 8.0 * float(told["bytes"]) / float(told["seconds"])
    if not goodput:
        raise PlanError(
            f"no byte of {flows} flows arrived within {SECONDS:g} s: the link is too slow"
        )
    return goodput
