"""What passed over the links: packets, bytes and drops, in both directions of each.

Packets and bytes are the counters of the switch-side interfaces, which all live in the
emulation's root namespace: no host is disturbed. Bytes count the frame without preamble and
check sequence. Drops are those of the shapers at both ends, that is of the links' full queues.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mininet_topos.tools import run_tool

QUIET_BYTES = 1514
"""So many bytes, a full frame, may pass a link each way while it is called quiet."""

_TC_SHOW = ("tc", "-s", "-j", "qdisc", "show")  # names interfaces only when not asked for one


@dataclass(frozen=True)
class Direction:
    """Traffic one way over a link, since it was made or between two snapshots."""

    packets: int
    bytes: int
    drops: int

    def __sub__(self, earlier: Self) -> "Direction":
        return Direction(
            self.packets - earlier.packets, self.bytes - earlier.bytes, self.drops - earlier.drops
        )


@dataclass(frozen=True)
class LinkCounters:
    """Traffic both ways over the link between a host and its switch."""

    to_switch: Direction
    to_host: Direction

    def __sub__(self, earlier: Self) -> "LinkCounters":
        return LinkCounters(self.to_switch - earlier.to_switch, self.to_host - earlier.to_host)


@dataclass(frozen=True)
class Link:
    """A host's link: its two interfaces, and the host's process to look into its namespace."""

    host: str
    host_pid: int
    host_interface: str
    switch_interface: str


@dataclass(frozen=True)
class TrunkLink:
    """A link between two switches: both interfaces are in the root namespace."""

    switch: str
    other: str
    interface: str
    peer: str


Snapshot = Mapping[str, LinkCounters]


def take_snapshot(links: Iterable[Link]) -> Snapshot:
    """Read the counters of links; keys are host names.

    Raises CommandFailed when `tc` does.
    """
    switch_drops = parse_drops(run_tool(_TC_SHOW))
    return {link.host: _read(link, switch_drops.get(link.switch_interface, 0)) for link in links}


def bytes_so_far(links: Iterable[Link]) -> dict[tuple[str, str], int]:
    """Bytes that links have carried; keys are host names, and the counter of the direction."""
    return {
        (link.host, name): _counter(link.switch_interface, name)
        for link in links
        for name in ("rx_bytes", "tx_bytes")
    }


def are_quiet(earlier: Mapping[tuple[str, str], int], later: Mapping[tuple[str, str], int]) -> bool:
    """Whether at most `QUIET_BYTES` have passed each way of every link between two looks."""
    return all(count - earlier[way] <= QUIET_BYTES for way, count in later.items())


def trunk_bytes(trunks: Iterable[TrunkLink]) -> dict[str, int]:
    """Bytes that left each end of each trunk; keys are `FROM-TO`."""
    return {
        f"{one}-{other}": _counter(interface, "tx_bytes")
        for trunk in trunks
        for one, other, interface in (
            (trunk.switch, trunk.other, trunk.interface),
            (trunk.other, trunk.switch, trunk.peer),
        )
    }


def difference(later: Snapshot, earlier: Snapshot) -> Snapshot:
    """Return what passed between two snapshots of the same links."""
    return {host: counters - earlier[host] for host, counters in later.items()}


def parse_drops(tc_json: str) -> dict[str, int]:
    """Sum the dropped packets of the queues that `tc -s -j qdisc show` lists, by interface."""
    drops: dict[str, int] = {}
    for qdisc in json.loads(tc_json):
        drops[qdisc["dev"]] = drops.get(qdisc["dev"], 0) + qdisc["drops"]
    return drops


def _read(link: Link, switch_drops: int) -> LinkCounters:
    def counter(name: str) -> int:
        return _counter(link.switch_interface, name)

    return LinkCounters(
        to_switch=Direction(counter("rx_packets"), counter("rx_bytes"), _host_drops(link)),
        to_host=Direction(counter("tx_packets"), counter("tx_bytes"), switch_drops),
    )


def _counter(interface: str, name: str) -> int:
    return int(Path("/sys/class/net", interface, "statistics", name).read_text())


def _host_drops(link: Link) -> int:
    drops = parse_drops(run_tool(["mnexec", "-a", str(link.host_pid), *_TC_SHOW]))
    return drops.get(link.host_interface, 0)
