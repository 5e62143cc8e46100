"""What waits at the ports of an embedded switch, as its control socket tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from softswitch.control import ControlClient
from softswitch.errors import SoftSwitchError

INTERFACE = "interface"
"""The queue before a port's interface: of a link that is shaped there (`tc`)."""


@dataclass(frozen=True)
class PortQueue:
    """A queue of a port.

    Attributes:
        port: its number.
        queue: `INTERFACE`, or `rx` or `tx` for that way of a link with faults, which the switch
            itself delays and shapes.
        packets: that wait now.
        drops: that found it full, so far.
    """

    port: int
    queue: str
    packets: int
    drops: int


def read_port_queues(control: Path) -> list[PortQueue]:
    """All queues of a switch; empty if it cannot be reached. Waits for its answer."""
    try:
        stats = ControlClient(control).stats()
        return [*_of_interfaces(stats), *_of_links(stats)]
    except (SoftSwitchError, KeyError, TypeError, ValueError):
        return []


def _of_interfaces(stats: dict[str, list[dict[str, int]]]) -> Iterator[PortQueue]:
    for each in stats["ports"]:
        yield PortQueue(each["port"], INTERFACE, each["queue_packets"], each["queue_drops"])


def _of_links(stats: dict[str, list[dict[str, int]]]) -> Iterator[PortQueue]:
    for each in stats["links"]:
        full = each["queue_full"] + each["overflow"]
        yield PortQueue(each["port"], str(each["direction"]), each["waiting"], full)
